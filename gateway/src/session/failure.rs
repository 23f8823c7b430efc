//! Failed sessions: how many in a row a node's agent has had, why the last one ended, and whether a session's work
//! keeps its node's lease alive.
//!
//! An agent that registers, fails on its desired state and registers again is alive but does no work. Its reconnects
//! must keep no lease, so a session works only once its agent has applied the full desired state. After few failures
//! the steps before that count as well. Otherwise thousands of agents that return at once would be declared lost while
//! they wait.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_model::NodeId;
use borough_proto::bounds::{SESSION_ERROR_BYTES_MAX, text_cut};
use borough_proto::v1;
use parking_lot::Mutex;

/// After so many sessions in a row without lasting progress, reports and acknowledgements count only once the full
/// desired state is acknowledged.
pub const FAILURES_TOLERATED: u32 = 3;

/// So many failed sessions in a row are shown. Each end of a gateway leaves one behind.
pub const FAILURES_SHOWN: u32 = 2;

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

/// The shortest and the longest time between two registrations of a node whose sessions fail.
const TURN_MIN: Duration = Duration::from_millis(100);
const TURN_MAX: Duration = Duration::from_secs(5);
/// The longest wait for a turn. A try that would wait longer is refused.
const TURN_WAIT: Duration = Duration::from_secs(10);

/// Nodes whose last sessions failed. Kept in memory: agents carry the same count to the next gateway.
#[derive(Debug, Default)]
pub struct NodeFailures {
    by_node: Mutex<BTreeMap<NodeId, FailedNode>>,
}

#[derive(Clone, Debug, Default)]
struct FailedNode {
    failure: v1::SessionFailure,
    /// Sessions in a row that the agent itself closed before they made lasting progress. They are no failures, and
    /// they count for its turns: an agent that closes each session at once must not register as often as it wants.
    closed: u32,
    /// When its agent may register again (monotonic).
    turn_at: Duration,
}

impl FailedNode {
    /// Sessions in a row without lasting progress, however they ended.
    fn sessions(&self) -> u32 {
        self.failure.sessions.saturating_add(self.closed)
    }
}

/// When an agent may register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationTurn {
    /// After this time.
    After(Duration),
    /// Too many tries wait already. The next turn comes after this time.
    Refused(Duration),
}

/// The time between two registrations of a node after so many failed sessions in a row.
fn turn_pause(failed: u32) -> Duration {
    match failed.checked_sub(FAILURES_TOLERATED) {
        None => Duration::ZERO,
        Some(more) => TURN_MIN.saturating_mul(1 << more.min(10)).min(TURN_MAX),
    }
}

impl NodeFailures {
    /// Records that a session of `node` was opened. Its agent reports the failures of its sessions with all gateways.
    /// Returns how many failed in a row.
    pub fn opened(&self, node: NodeId, hello: &v1::Hello, at_ms: i64) -> u32 {
        let mut by_node = self.by_node.lock();
        if hello.sessions_failed > by_node.get(&node).map_or(0, |failed| failed.failure.sessions) {
            let error = line_of(&hello.session_error);
            let failure = v1::SessionFailure { sessions: hello.sessions_failed, error, at_ms };
            by_node.entry(node).or_default().failure = failure;
        }
        by_node.get(&node).map_or(0, FailedNode::sessions)
    }

    /// Takes the next turn of `node` to register, at `now` (monotonic). Each registration is a commit, and ends the
    /// session before it. So a node that flaps registers ever more rarely, whatever pauses its agent makes.
    pub fn turn(&self, node: NodeId, now: Duration) -> RegistrationTurn {
        let mut by_node = self.by_node.lock();
        let Some(failed) = by_node.get_mut(&node) else { return RegistrationTurn::After(Duration::ZERO) };
        let turn_at = failed.turn_at.max(now);
        let wait = turn_at.saturating_sub(now);
        if wait > TURN_WAIT {
            return RegistrationTurn::Refused(wait);
        }
        failed.turn_at = turn_at.saturating_add(turn_pause(failed.sessions()));
        RegistrationTurn::After(wait)
    }

    /// Records that a session of `node` ended without lasting progress.
    pub fn failed(&self, node: NodeId, why: &str, at_ms: i64) {
        let error = line_of(why);
        let mut by_node = self.by_node.lock();
        let failure = &mut by_node.entry(node).or_default().failure;
        *failure = v1::SessionFailure { sessions: failure.sessions.saturating_add(1), error, at_ms };
    }

    /// Records that the agent of `node` closed a session without lasting progress, as one does that is ended.
    pub fn closed(&self, node: NodeId) {
        let mut by_node = self.by_node.lock();
        let closed = &mut by_node.entry(node).or_default().closed;
        *closed = closed.saturating_add(1);
    }

    /// Records that a session of `node` has made lasting progress.
    pub fn progress(&self, node: NodeId) {
        self.by_node.lock().remove(&node);
    }

    /// The failures of `node`'s last sessions, if several in a row failed.
    pub fn of(&self, node: NodeId) -> Option<v1::SessionFailure> {
        let by_node = self.by_node.lock();
        by_node
            .get(&node)
            .map(|failed| failed.failure.clone())
            .filter(|failure| failure.sessions >= FAILURES_SHOWN)
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
    fn an_agent_that_ends_is_no_failure_and_waits_for_its_turn() {
        let failures = NodeFailures::default();
        let hello = v1::Hello::default();
        for _ in 0..5 {
            failures.closed(NODE);
        }
        assert!(failures.of(NODE).is_none(), "nothing has failed");
        assert_eq!(failures.opened(NODE, &hello, 1), 5);
        assert_eq!(failures.turn(NODE, Duration::ZERO), RegistrationTurn::After(Duration::ZERO));
        assert_ne!(failures.turn(NODE, Duration::ZERO), RegistrationTurn::After(Duration::ZERO));
        failures.failed(NODE, "too long", 2);
        assert!(failures.of(NODE).is_none(), "its gateway has ended once");
        failures.failed(NODE, "too long", 3);
        assert_eq!(failures.of(NODE).map(|failure| failure.sessions), Some(2));
    }

    /// An agent that opens and breaks ten sessions a second, for ten minutes, and then one that works.
    #[test]
    fn a_node_that_flaps_ten_times_a_second_registers_ever_more_rarely_and_comes_back() {
        let failures = NodeFailures::default();
        let (mut registered, mut refused) = (0, 0);
        for tenth in 0..6_000 {
            match failures.turn(NODE, Duration::from_millis(100) * tenth) {
                // It does not wait for its turn.
                RegistrationTurn::After(wait) if wait >= Duration::from_millis(100) => {}
                RegistrationTurn::After(_) => {
                    registered += 1;
                    failures.failed(NODE, "gone", 0);
                }
                RegistrationTurn::Refused(_) => refused += 1,
            }
        }
        assert!(registered <= 130, "{registered} of 6,000 are registered");
        assert!(refused > 4_000, "{refused} of 6,000 are refused");
        let now = Duration::from_secs(600);
        let back = (0..60).find_map(|second| match failures.turn(NODE, now + Duration::from_secs(second)) {
            RegistrationTurn::After(wait) => Some(Duration::from_secs(second) + wait),
            RegistrationTurn::Refused(_) => None,
        });
        assert!(back.is_some_and(|back| back <= TURN_WAIT + TURN_MAX), "{back:?}");
        failures.progress(NODE);
        assert_eq!(failures.turn(NODE, now), RegistrationTurn::After(Duration::ZERO));
        assert_eq!(
            [0, 2, 3, 4, 9, 99].map(|failed| turn_pause(failed).as_millis()),
            [0, 0, 100, 200, 5_000, 5_000]
        );
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
