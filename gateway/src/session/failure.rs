//! Failed sessions: how many in a row a node's agent has had, why the last one ended, and whether a session's work
//! keeps its node's lease alive.
//!
//! An agent that registers, fails on its desired state and registers again is alive but does no work. Its reconnects
//! must keep no lease, so a session works only once its agent has applied the full desired state. After few failures
//! the steps before that count as well. Otherwise thousands of agents that return at once would be declared lost while
//! they wait.

use std::collections::BTreeMap;

use borough_model::NodeId;
use borough_proto::bounds::{SESSION_ERROR_BYTES_MAX, text_cut};
use borough_proto::v1;
use parking_lot::Mutex;

/// After so many sessions in a row without lasting progress, reports and acknowledgements count only once the full
/// desired state is acknowledged.
pub const FAILURES_TOLERATED: u32 = 3;

/// How far an agent is with its desired state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DesiredProgress {
    /// It has to acknowledge more.
    Partial,
    /// It has acknowledged its full desired state.
    Complete,
}

/// Returns true if an applied report or an acknowledged chunk keeps the node's lease alive. `failed` counts the failed
/// sessions in a row.
pub fn lease_counts(progress: DesiredProgress, failed: u32) -> bool {
    progress == DesiredProgress::Complete || failed < FAILURES_TOLERATED
}

/// Nodes whose last sessions failed. Kept in memory: agents carry the same count to the next gateway.
#[derive(Debug, Default)]
pub struct NodeFailures {
    by_node: Mutex<BTreeMap<NodeId, v1::SessionFailure>>,
}

impl NodeFailures {
    /// Records that a session of `node` was opened. Its agent reports the failures of its sessions with all gateways.
    /// Returns how many failed in a row.
    pub fn opened(&self, node: NodeId, hello: &v1::Hello, at_ms: i64) -> u32 {
        let mut by_node = self.by_node.lock();
        if hello.sessions_failed > by_node.get(&node).map_or(0, |failure| failure.sessions) {
            let error = line_of(&hello.session_error);
            by_node.insert(node, v1::SessionFailure { sessions: hello.sessions_failed, error, at_ms });
        }
        by_node.get(&node).map_or(0, |failure| failure.sessions)
    }

    /// Records that a session of `node` ended without lasting progress.
    pub fn failed(&self, node: NodeId, why: &str, at_ms: i64) {
        let error = line_of(why);
        let mut by_node = self.by_node.lock();
        let failure = by_node.entry(node).or_default();
        *failure = v1::SessionFailure { sessions: failure.sessions.saturating_add(1), error, at_ms };
    }

    /// Records that a session of `node` has made lasting progress.
    pub fn progress(&self, node: NodeId) {
        self.by_node.lock().remove(&node);
    }

    /// The failures of `node`'s last sessions, if they failed.
    pub fn of(&self, node: NodeId) -> Option<v1::SessionFailure> {
        self.by_node.lock().get(&node).cloned()
    }
}

/// A reason as it is shown: on one line, without control characters for a terminal.
fn line_of(why: &str) -> String {
    let mut line: String = why.chars().map(|each| if each.is_control() { ' ' } else { each }).collect();
    text_cut(&mut line, SESSION_ERROR_BYTES_MAX);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(1);

    #[test]
    fn a_session_that_breaks_again_and_again_keeps_no_lease_until_it_works() {
        let failures = NodeFailures::default();
        let hello = v1::Hello::default();
        for round in 0..10 {
            let failed = failures.opened(NODE, &hello, round);
            let counts = lease_counts(DesiredProgress::Partial, failed);
            assert_eq!(counts, round < i64::from(FAILURES_TOLERATED), "round {round}");
            assert!(lease_counts(DesiredProgress::Complete, failed), "a session that works keeps it");
            failures.failed(NODE, "too long", round);
        }
        let failure = failures.of(NODE).unwrap();
        assert_eq!((failure.sessions, failure.error.as_str(), failure.at_ms), (10, "too long", 9));
        failures.progress(NODE);
        assert!(failures.of(NODE).is_none() && failures.opened(NODE, &hello, 11) == 0);
    }

    #[test]
    fn an_agent_brings_along_what_came_of_its_sessions_elsewhere() {
        let failures = NodeFailures::default();
        let session_error = "x".repeat(2 * SESSION_ERROR_BYTES_MAX);
        let hello = v1::Hello { sessions_failed: 5, session_error, ..v1::Hello::default() };
        assert_eq!(failures.opened(NODE, &hello, 1), 5);
        assert_eq!(failures.of(NODE).unwrap().error.len(), SESSION_ERROR_BYTES_MAX);
        failures.failed(NODE, "here\x1b[2J too", 2);
        assert_eq!(failures.of(NODE).unwrap().error, "here [2J too");
        let behind = v1::Hello { sessions_failed: 1, ..hello };
        assert_eq!(failures.opened(NODE, &behind, 3), 6, "of two counts the higher one");
    }
}
