//! Decides what follows the end of an attempt: a restart (after which pause) or the end of the task. Also the timeline
//! of a stop.

use super::event::TaskRules;
use crate::id::NodeId;
use crate::job::{JobKind, RestartMode};
use crate::task::{EndReason, Exit, StartFailure, StopReason, TaskRow, Verdict};

/// Failed attempts in a row on one node after which [`node_avoided`] names it.
pub const CRASHES_BEFORE_AVOIDED: u32 = 2;

impl Exit {
    /// The stop that ended the attempt, by the text that it left.
    pub fn stop(&self) -> Option<StopReason> {
        StopReason::of_text(&self.message)
    }

    /// Returns true if the attempt never started, because the disk of its node was full. That says nothing about the
    /// task or its version.
    pub fn is_of_full_node(&self) -> bool {
        self.reason == EndReason::StartFailed && self.start_failure == Some(StartFailure::NodeFull)
    }

    /// Returns true if the attempt ended by a fault of the task: not by a stop for another cause, nor with its node.
    pub fn is_failure(&self) -> bool {
        match (self.reason, self.stop()) {
            _ if self.is_of_full_node() => false,
            (EndReason::NodeLost | EndReason::NodeRebooted, _) => false,
            (_, Some(stop)) => stop == StopReason::Unhealthy,
            (reason, None) => reason != EndReason::Stopped,
        }
    }
}

/// What follows the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartDecision {
    pub verdict: Verdict,
    /// Whether the attempt counts as a failure of the task on its node.
    pub crashed: bool,
    /// Failures in a row, this one included.
    pub failures: u32,
    /// Earliest wall time (milliseconds since 1970) of the next placement; 0: at once.
    pub not_before_ms: i64,
}

/// Decides what follows the end `exit` of `row`'s attempt.
///
/// A retried task is placed again through `Pending`, not restarted in place. The scheduler may choose the same node,
/// and [`node_avoided`] says when it should not. A node that vanished or was rebooted, a requested stop and a
/// preemption are no failures of the task and cost it no pause.
pub fn restart_decide(rules: &TaskRules, row: &TaskRow, exit: &Exit, now_ms: i64) -> RestartDecision {
    let done = exit.reason == EndReason::Exited && exit.code == Some(0);
    let result = if done { ExitResult::Done } else { ExitResult::Failed };
    if done && rules.kind == JobKind::Batch {
        return decision_over(Verdict::Succeeded, row);
    }
    match row.stop {
        Some(
            StopReason::JobStopped | StopReason::JobShrunk | StopReason::NodeLeft | StopReason::SurgeOver,
        ) => decision_over(Verdict::Stopped, row),
        Some(
            StopReason::Restart
            | StopReason::Drained
            | StopReason::Preempted
            | StopReason::Updated
            | StopReason::Tainted
            | StopReason::Shutdown
            | StopReason::AllocLeft,
        ) => decision_again(rules, row, exit),
        Some(StopReason::Unhealthy) => decision_by_mode(rules, row, exit, ExitResult::Failed, now_ms),
        None => match exit.reason {
            EndReason::Stopped | EndReason::NodeLost | EndReason::NodeRebooted => {
                decision_again(rules, row, exit)
            }
            EndReason::StartFailed if exit.is_of_full_node() => decision_elsewhere(rules, row, now_ms),
            EndReason::Exited | EndReason::Signaled | EndReason::OutOfMemory | EndReason::StartFailed => {
                decision_by_mode(rules, row, exit, result, now_ms)
            }
        },
    }
}

/// What an attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExitResult {
    Done,
    Failed,
}

fn decision_over(verdict: Verdict, row: &TaskRow) -> RestartDecision {
    RestartDecision { verdict, crashed: false, failures: row.failures, not_before_ms: 0 }
}

/// It is no failure. If the attempt lasted long enough to count as a recovery, it also ends the row of those before.
fn decision_again(rules: &TaskRules, row: &TaskRow, exit: &Exit) -> RestartDecision {
    let failures = if recovered(rules, row, exit) { 0 } else { row.failures };
    RestartDecision { failures, ..decision_over(Verdict::Again, row) }
}

/// The node could not take the attempt. The task pauses, so that a full node is not asked in a loop, and prefers
/// another node after the second time. Its own failures stay as they are.
fn decision_elsewhere(rules: &TaskRules, row: &TaskRow, now_ms: i64) -> RestartDecision {
    let pause_ms = restart_pause_ms(rules, row.crashes_there.saturating_add(1));
    let not_before_ms = now_ms.saturating_add_unsigned(pause_ms);
    RestartDecision { verdict: Verdict::Again, crashed: true, failures: row.failures, not_before_ms }
}

/// An end without a stop: the mode decides whether the task is retried, the count of failures in a row how soon. A
/// service that exits with 0 again and again is paused like one that crashes.
fn decision_by_mode(
    rules: &TaskRules,
    row: &TaskRow,
    exit: &Exit,
    result: ExitResult,
    now_ms: i64,
) -> RestartDecision {
    let failures = failures_in_a_row(rules, row, exit);
    let restarted = match rules.restart.mode {
        RestartMode::Always => true,
        RestartMode::OnFailure => result == ExitResult::Failed,
        RestartMode::Never => false,
    };
    let exhausted = rules.restart.attempts_max.is_some_and(|attempts_max| failures > attempts_max);
    let verdict = match result {
        _ if restarted && !exhausted => Verdict::Again,
        ExitResult::Done => Verdict::Succeeded,
        ExitResult::Failed => Verdict::Failed,
    };
    let pause_ms = if verdict == Verdict::Again { restart_pause_ms(rules, failures) } else { 0 };
    let not_before_ms = if pause_ms == 0 { 0 } else { now_ms.saturating_add_unsigned(pause_ms) };
    RestartDecision { verdict, crashed: result == ExitResult::Failed, failures, not_before_ms }
}

/// Failures in a row with this one: 1 after an attempt that lasted long enough to count as a recovery.
fn failures_in_a_row(rules: &TaskRules, row: &TaskRow, exit: &Exit) -> u32 {
    if recovered(rules, row, exit) { 1 } else { row.failures.saturating_add(1) }
}

/// Returns true if the attempt lasted long enough to count as a recovery.
fn recovered(rules: &TaskRules, row: &TaskRow, exit: &Exit) -> bool {
    let lasted_ms = row.started_ms.map_or(0, |started_ms| exit.at_ms.saturating_sub(started_ms));
    let enough_ms = rules.restart.reset_after_ms.max(RECOVERY_MS_MIN);
    row.started_ms.is_some() && u64::try_from(lasted_ms).is_ok_and(|lasted| lasted >= enough_ms)
}

/// An attempt that lasted less is no recovery, whatever its job says: tasks that fail at once would never pause longer.
const RECOVERY_MS_MIN: u64 = 1_000;
/// The cell's own pause after the first failure in a row.
const PAUSE_MS_MIN: u64 = 10;
/// The cell's own pause after the eleventh failure in a row, and each later one. An attempt costs the cell a few
/// entries of the journal, so a task that fails at once for ever costs a few entries per 10 s.
const PAUSE_MS_MOST: u64 = 10_000;

/// The pause before the next attempt after so many failures in a row, in milliseconds: the initial one, doubled with
/// each further failure, up to the longest. The cell's own pause doubles too, from 10 ms to 10 s, and the longer of the
/// two counts.
pub fn restart_pause_ms(rules: &TaskRules, failures: u32) -> u64 {
    let doublings = failures.saturating_sub(1);
    let factor = 1u64.checked_shl(doublings).unwrap_or(u64::MAX);
    let own = rules.restart.backoff_initial_ms.saturating_mul(factor).min(rules.restart.backoff_max_ms);
    own.max(PAUSE_MS_MIN.saturating_mul(factor).min(PAUSE_MS_MOST))
}

/// The node on which a pending task failed so often in a row that another one should be preferred.
pub fn node_avoided(row: &TaskRow) -> Option<NodeId> {
    if row.crashes_there >= CRASHES_BEFORE_AVOIDED { row.crashed_on } else { None }
}
