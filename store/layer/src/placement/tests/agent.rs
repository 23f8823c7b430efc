//! Agents that send any possible report, in any order, and repeat old ones.

use borough_model::task::{EndReason, Exit, Health, TaskRow, TaskState};

use parking_lot::Mutex;

use super::world::World;
use crate::error::StoreError;
use crate::node::{SessionFence, node_writer};
use crate::task::{ReportPhase, TaskReport, is_on_node, task_report_apply};

/// A report of the row's attempt.
fn report(row: &TaskRow, phase: ReportPhase, health: Health, code: Option<i32>) -> TaskReport {
    let number = row.incarnation.0;
    let exit = code.map(|code| Exit {
        reason: EndReason::Exited,
        code: Some(code),
        signal: None,
        message: String::new(),
        at_ms: 1,
        incarnation: row.incarnation,
        node: row.node,
        start_failure: None,
    });
    let process = matches!(phase, ReportPhase::Running | ReportPhase::Stopping | ReportPhase::Exited)
        .then(|| (u32::try_from(number).unwrap(), i64::try_from(number).unwrap()));
    TaskReport {
        task: row.id,
        incarnation: row.incarnation,
        phase,
        process,
        cores: Vec::new(),
        health,
        exit,
        resize: None,
        helpers: Vec::new(),
    }
}

impl World {
    /// Some agent reports some of its attempts. Old reports are repeated.
    pub(crate) async fn agent_report(&self, old: &Mutex<Vec<(SessionFence, TaskReport)>>) -> &'static str {
        let rows = self.rows().await;
        let there: Vec<&TaskRow> = rows.tasks.values().filter(|row| is_on_node(row.state)).collect();
        let Some(first) = self.one_of(&there) else { return "nothing" };
        let Some(node) = first.node else { return "nothing" };
        let source = SessionFence { node, session: 1 };
        let same = there.into_iter().filter(|row| row.node == Some(node) && self.below(2) == 0);
        let mut reports: Vec<TaskReport> = same.map(|row| self.next_report(row)).collect();
        old.lock().extend(reports.iter().map(|report| (source, report.clone())));
        let repeated = self.one_of(&old.lock()).filter(|_| self.below(3) == 0);
        if let Some((source, report)) = repeated {
            self.reports_apply(source, &[report]).await;
        }
        reports.truncate(4);
        self.reports_apply(source, &reports).await;
        "report"
    }

    pub(crate) async fn reports_apply(&self, source: SessionFence, reports: &[TaskReport]) {
        let answers = self
            .change("report", async |tx, changes| {
                let writer = node_writer(tx, changes.space(), source).await?;
                let writer = writer.ok_or_else(|| StoreError::refused("the node has no session"))?;
                task_report_apply(&writer, changes, reports).await
            })
            .await;
        assert_eq!(answers.map_or(reports.len(), |answers| answers.len()), reports.len());
    }

    /// A next report that an agent may send about an attempt.
    fn next_report(&self, row: &TaskRow) -> TaskReport {
        let health = [Health::Healthy, Health::Healthy, Health::Unknown, Health::Unhealthy]
            [usize::try_from(self.below(4)).unwrap()];
        let code = [0, 0, 1][usize::try_from(self.below(3)).unwrap()];
        let (phase, code) = match (row.state, self.below(6)) {
            (TaskState::Assigned, 0 | 1) => (ReportPhase::Accepted, None),
            (TaskState::Assigned | TaskState::Starting, 2) => (ReportPhase::Exited, Some(code)),
            (TaskState::Running, 0) => (ReportPhase::Exited, Some(code)),
            (TaskState::Running | TaskState::Starting | TaskState::Lost, 1) => (ReportPhase::Missing, None),
            (TaskState::Stopping | TaskState::Lost, 2) => (ReportPhase::Exited, Some(code)),
            (TaskState::Stopping | TaskState::Releasing | TaskState::Lost, 3) => {
                (ReportPhase::Released, Some(code))
            }
            (TaskState::Releasing, 4) => (ReportPhase::Released, None),
            _ => (ReportPhase::Running, None),
        };
        report(row, phase, health, code)
    }

    /// Every agent ends all of its attempts.
    pub(crate) async fn agents_end_all(&self) {
        let rows = self.rows().await;
        for row in rows.tasks.values().filter(|row| is_on_node(row.state)) {
            let Some(node) = row.node else { continue };
            let ended = report(row, ReportPhase::Released, Health::Unknown, Some(0));
            self.reports_apply(SessionFence { node, session: 1 }, &[ended]).await;
        }
    }
}
