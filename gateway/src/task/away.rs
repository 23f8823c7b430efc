//! What is reported of a task on a node whose agent cannot be reached: the node, since when, and what comes next.

use std::sync::Arc;
use std::time::Duration;

use borough_model::NodeId;
use borough_model::node::{NodeRow, NodeState, silent_since_ms};
use tonic::Status;

use super::explain::silence_text;
use crate::cell::{CellContext, lost_after_ms};
use crate::session::registry::{AgentAnswer, AgentAnswers, RegisteredSession};
use crate::status::{status_refused, status_unavailable_of};

/// How often an open stream looks whether its node is known to be silent, once its session may be.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What the cell knows of the agent of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AgentKnown {
    /// As far as the cell knows, it answers.
    Answers,
    /// It does not answer since then, and its node is not lost yet.
    Silent(i64),
    /// Its node is lost. Since when the agent does not answer, if that is known.
    Lost(Option<i64>),
}

impl AgentKnown {
    fn of(row: &NodeRow) -> Self {
        let since_ms = silent_since_ms(&row.taints);
        match (row.state, since_ms) {
            (NodeState::Lost, since_ms) => Self::Lost(since_ms),
            (_, Some(since_ms)) => Self::Silent(since_ms),
            (_, None) => Self::Answers,
        }
    }
}

/// The agent that has an attempt of a task.
#[derive(Clone)]
pub(super) struct TaskAgent {
    pub cell: Arc<CellContext>,
    /// The task, as people name it.
    pub task: String,
    pub node: NodeId,
}

impl TaskAgent {
    /// Why a request for the task gets no answer, with the node and what comes next.
    pub(super) async fn away(&self) -> Status {
        let Self { cell, task, node } = self;
        let found = cell.mirror.read(|state| state.nodes().get(node).map(Arc::clone));
        let Some(row) = found else {
            let text = format!("task {task} ran on {node}, which is no node of cell {} any more", cell.name);
            return status_refused("NODE_REMOVED", text);
        };
        let known = AgentKnown::of(&row);
        let lost_at_ms = match known {
            AgentKnown::Silent(since_ms) => {
                lost_after_ms(cell).await.map(|tolerance_ms| since_ms.saturating_add_unsigned(tolerance_ms))
            }
            AgentKnown::Answers | AgentKnown::Lost(_) => None,
        };
        let (reason, text) = away_text(task, row.name.as_str(), &known, lost_at_ms, cell.clock.wall_ms());
        let facts = [("task", task.clone()), ("node", row.name.to_string())];
        status_unavailable_of(reason, text, facts)
    }

    /// The next answer of the agent, or that it is gone once the cell knows that it does not answer.
    pub(super) async fn answer(
        &self,
        session: &RegisteredSession,
        answers: &mut AgentAnswers,
    ) -> Option<AgentAnswer> {
        tokio::select! {
            biased;
            answer = answers.next() => answer,
            () = self.silent(session) => Some(AgentAnswer::Gone),
        }
    }

    /// Completes once the cell knows that the agent does not answer in `session`.
    async fn silent(&self, session: &RegisteredSession) {
        loop {
            let due = session.silence_limit().due();
            let left = due.saturating_sub(self.cell.machine.monotonic());
            if left.is_zero() && self.is_known_silent() {
                return;
            }
            tokio::time::sleep(left.max(LOOK_INTERVAL)).await;
        }
    }

    /// Returns true if the agent does no work in `session`, and the cell knows it.
    pub(super) fn is_silent(&self, session: &RegisteredSession) -> bool {
        session.silence_limit().due() <= self.cell.machine.monotonic() && self.is_known_silent()
    }

    fn is_known_silent(&self) -> bool {
        let known =
            self.cell.mirror.read(|state| state.nodes().get(&self.node).map(|row| AgentKnown::of(row)));
        known.is_some_and(|known| known != AgentKnown::Answers)
    }
}

/// The reason, for programs and for people.
fn away_text(
    task: &str,
    node: &str,
    known: &AgentKnown,
    lost_at_ms: Option<i64>,
    now_ms: i64,
) -> (&'static str, String) {
    match *known {
        AgentKnown::Answers => {
            ("AGENT_AWAY", format!("task {task} is on {node}, which has no agent connected to a gateway now"))
        }
        AgentKnown::Silent(since_ms) => {
            let silence = silence_text(node, since_ms, lost_at_ms, now_ms);
            ("NODE_SILENT", format!("task {task} is on {silence}"))
        }
        AgentKnown::Lost(since_ms) => {
            let silence = since_ms
                .map_or_else(|| node.to_owned(), |since_ms| silence_text(node, since_ms, None, now_ms));
            (
                "NODE_LOST",
                format!("task {task} ran on {silence}; the node is lost until its agent answers again"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_told_of_the_node_its_silence_and_what_comes_next() {
        let of = |known, lost_at_ms, now_ms| away_text("ann/web/0", "n1", &known, lost_at_ms, now_ms);
        let silent = AgentKnown::Silent(10_000);
        assert_eq!(
            of(silent, Some(40_000), 18_300),
            (
                "NODE_SILENT",
                "task ann/web/0 is on n1, which has not answered for 8 s; the node is declared lost in about 22 s"
                    .to_owned()
            )
        );
        assert_eq!(
            of(AgentKnown::Lost(Some(10_000)), None, 95_000),
            (
                "NODE_LOST",
                "task ann/web/0 ran on n1, which has not answered for 85 s; the node is lost until its agent answers again"
                    .to_owned()
            )
        );
        let (reason, text) = of(AgentKnown::Lost(None), None, 95_000);
        assert_eq!((reason, text.contains("ran on n1; the node is lost")), ("NODE_LOST", true), "{text}");
        let (reason, text) = of(AgentKnown::Answers, None, 0);
        assert_eq!((reason, text.contains("is on n1, which has no agent")), ("AGENT_AWAY", true), "{text}");
    }
}
