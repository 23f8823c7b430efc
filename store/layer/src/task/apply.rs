//! Reports of an agent, applied in one transaction.

use borough_kv::Transaction;
use borough_model::task::{Life, TaskEvent, TaskRow, TransitionRefused};
use borough_model::{Incarnation, NodeId};

use super::TaskBook;
use super::report::{ReportAnswer, ReportPhase, TaskReport, health_of, report_answer, report_events};
use crate::error::StoreResult;
use crate::journal::ChangeSet;
use crate::keys::{self, NodeLiveKey};

/// Who reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportSource {
    /// The node.
    pub node: NodeId,
    /// The session of its agent, as the gateway has written it into the node's lease when it began.
    pub session: u64,
}

/// Applies what the agent of a node reports of its lives: rows, commitments, endpoints, counters and charges, all in
/// this transaction. Gives an answer per report, in their order. Repeating a report changes nothing.
///
/// The order in which reports of different sessions arrive does not matter, since a row never goes back; but what is
/// missing from a full report is only believed of the session that the node's lease names, which is read with a
/// conflict then.
pub async fn task_report_apply(
    tx: &Transaction,
    changes: &mut ChangeSet,
    source: ReportSource,
    reports: &[TaskReport],
) -> StoreResult<Vec<ReportAnswer>> {
    let current = session_is_current(tx, changes, source, reports).await?;
    let mut book = TaskBook::read(tx, changes.space(), reports.iter().map(|report| report.task)).await?;
    let mut answers = Vec::with_capacity(reports.len());
    for report in reports {
        let answer = match report.phase {
            ReportPhase::Missing if !current => ReportAnswer::Superseded,
            _ => report_apply(&mut book, source.node, report, changes.at_ms())?,
        };
        answers.push(answer);
    }
    book.write(tx, changes).await?;
    Ok(answers)
}

async fn session_is_current(
    tx: &Transaction,
    changes: &ChangeSet,
    source: ReportSource,
    reports: &[TaskReport],
) -> StoreResult<bool> {
    if reports.iter().all(|report| report.phase != ReportPhase::Missing) {
        return Ok(true);
    }
    let live = keys::read(tx, changes.space(), &NodeLiveKey { node: source.node }).await?;
    Ok(live.is_some_and(|live| live.session == source.session))
}

fn report_apply(
    book: &mut TaskBook,
    node: NodeId,
    report: &TaskReport,
    now_ms: i64,
) -> StoreResult<ReportAnswer> {
    let row = book.task(report.task).cloned().unwrap_or_else(|| TaskRow::never_placed(report.task));
    let Some(spec) = book.spec(report.task.job, row.spec_version).cloned() else {
        return Ok(report_answer(report, &row, Some(unknown_life(node, report.incarnation, &row))));
    };
    let life = Life { node, incarnation: report.incarnation };
    for event in report_events(report, &row, &spec, node, now_ms) {
        let mut applied = book.apply(report.task, &event, now_ms)?;
        if applied == Err(TransitionRefused::NodeReturnFirst) {
            let health = health_of(report, &spec);
            let returned = TaskEvent::NodeReturned { life, process: report.process, health };
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

fn unknown_life(node: NodeId, reported: Incarnation, row: &TaskRow) -> TransitionRefused {
    TransitionRefused::UnknownLife { reported, node, current: row.incarnation, state: row.state }
}
