//! Applies the reports of an agent in one transaction.

use borough_model::task::{Attempt, StartedProcess, TaskEvent, TaskRow, TaskRules, TransitionRefused};
use borough_model::{Incarnation, NodeId};

use super::TaskBook;
use super::report::{ReportAnswer, ReportPhase, TaskReport, health_of, report_answer, report_events};
use crate::error::StoreResult;
use crate::journal::ChangeSet;
use crate::node::NodeWriter;

/// Applies an agent's reports of its attempts: rows, commitments, endpoints, counters and charges, all in this
/// transaction. Returns one answer per report, in their order. Repeating a report changes nothing.
///
/// Only the session in force may report, which `writer` proves. The full report of another session is therefore never
/// mistaken for news.
pub async fn task_report_apply(
    writer: &NodeWriter<'_>,
    changes: &mut ChangeSet,
    reports: &[TaskReport],
) -> StoreResult<Vec<ReportAnswer>> {
    let tx = writer.tx();
    let mut book = TaskBook::read(tx, changes.space(), reports.iter().map(|report| report.task)).await?;
    let mut answers = Vec::with_capacity(reports.len());
    for report in reports {
        answers.push(report_apply(&mut book, writer.node(), report, changes.at_ms())?);
    }
    book.write(tx, changes).await?;
    Ok(answers)
}

fn report_apply(
    book: &mut TaskBook,
    node: NodeId,
    report: &TaskReport,
    now_ms: i64,
) -> StoreResult<ReportAnswer> {
    let row = book.task(report.task).cloned().unwrap_or_else(|| TaskRow::never_placed(report.task));
    let spec = book.spec(report.task.job, row.spec_version).cloned();
    let Some((spec, job)) = spec.zip(book.job(report.task.job)) else {
        return Ok(report_answer(report, &row, Some(unknown_attempt(node, report.incarnation, &row))));
    };
    let attempt = Attempt { node, incarnation: report.incarnation };
    let rules = TaskRules::of_attempt(&spec, row.spec_version, job);
    for event in report_events(report, &row, &spec, rules, node, now_ms) {
        let mut applied = book.apply(report.task, &event, now_ms)?;
        if applied == Err(TransitionRefused::NodeReturnFirst) {
            let health = health_of(report, &spec);
            let process = report.process.map(|(pid, started_ms)| StartedProcess { pid, started_ms });
            let returned = TaskEvent::NodeReturned { attempt, process, health };
            applied = match book.apply(report.task, &returned, now_ms)? {
                Ok(_) => book.apply(report.task, &event, now_ms)?,
                Err(refused) => Err(refused),
            };
        }
        if let Err(refused) = applied {
            return Ok(report_answer(report, &row, Some(refused)));
        }
    }
    if report.phase == ReportPhase::Running {
        book.refresh(report.task);
    }
    let row = book.task(report.task).cloned().unwrap_or(row);
    Ok(report_answer(report, &row, None))
}

fn unknown_attempt(node: NodeId, reported: Incarnation, row: &TaskRow) -> TransitionRefused {
    TransitionRefused::UnknownAttempt { reported, node, current: row.incarnation, state: row.state }
}
