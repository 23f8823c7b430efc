//! Decides the commands for a node: pure functions of the cell's rows and the attempts that its agent reports.
//!
//! The rows are authoritative. The agent runs an attempt that the rows want, and stops one that they want ended. It
//! forgets an attempt that is over and whose end is durable. It leaves an attempt that the rows do not know alone
//! (parked), since a restored or moved store may know less than its nodes. That attempt is stopped when its task gets
//! an attempt of the same or a later number.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::task::StopReason;
use borough_model::{Incarnation, NodeId, TaskId, TaskRow, TaskState};
use borough_proto::v1::task_status::Phase;

/// An attempt as the gateway names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DesiredAttempt {
    pub task: TaskId,
    pub incarnation: Incarnation,
}

/// The command for one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Start it, or keep it running.
    Run,
    /// Keep it running, and resize it by this order.
    Resize(u64),
    /// Stop it. The drain delay applies if the row was published.
    Stop {
        reason: StopReason,
        /// Whether the job's drain delay applies.
        drain: bool,
        /// The most milliseconds between SIGTERM and SIGKILL, if the preemptor bounds them.
        notice_max_ms: Option<u64>,
    },
    /// Its end is durable: drop the record.
    Forget,
}

/// The command that `row` asks for on `node`, for the `reported` attempt or, without a report, for its own.
///
/// `None` sends no command now.
pub fn attempt_command(
    row: &TaskRow,
    node: NodeId,
    attempt: DesiredAttempt,
    reported: Option<Phase>,
) -> Option<Command> {
    let own = row.node == Some(node) && row.incarnation == attempt.incarnation;
    let over = reported == Some(Phase::Released);
    let stale =
        Command::Stop { reason: row.stop.unwrap_or(StopReason::Restart), drain: false, notice_max_ms: None };
    match row.state {
        _ if !own && over => Some(Command::Forget),
        // A restored store has an older row. It ends nothing that it does not know.
        _ if attempt.incarnation > row.incarnation => None,
        _ if !own => reported.map(|_| stale),
        TaskState::Running if reported.is_some() => {
            Some(row.resize_ordered().map_or(Command::Run, |resize| Command::Resize(resize.order)))
        }
        TaskState::Assigned | TaskState::Starting | TaskState::Running => Some(Command::Run),
        // Its exit is on the way into the store. Until then it must still be stopped.
        TaskState::Stopping => Some(Command::Stop {
            reason: row.stop.unwrap_or(StopReason::Restart),
            drain: row.started_ms.is_some(),
            notice_max_ms: row.evicted.as_ref().and_then(|evicted| evicted.notice_max_ms),
        }),
        TaskState::Held | TaskState::Releasing => None,
        TaskState::Pending | TaskState::Lost | TaskState::Dead if over => Some(Command::Forget),
        TaskState::Pending | TaskState::Lost | TaskState::Dead => reported.map(|_| stale),
    }
}

/// All commands for the agent of `node` after its full report. `row_of` finds the row of a task, `rows` are those on
/// the node.
pub fn commands_full<'a>(
    node: NodeId,
    rows: impl IntoIterator<Item = &'a TaskRow>,
    reported: &BTreeMap<DesiredAttempt, Phase>,
    row_of: impl Fn(TaskId) -> Option<&'a TaskRow>,
) -> BTreeMap<DesiredAttempt, Command> {
    let wanted = rows.into_iter().map(|row| DesiredAttempt { task: row.id, incarnation: row.incarnation });
    let attempts: BTreeSet<DesiredAttempt> = wanted.chain(reported.keys().copied()).collect();
    let command = |attempt: DesiredAttempt| {
        let row = row_of(attempt.task)?;
        let command = attempt_command(row, node, attempt, reported.get(&attempt).copied())?;
        Some((attempt, command))
    };
    attempts.into_iter().filter_map(command).collect()
}

/// Attempts that the rows show as delivered to `node` but that its agent does not have. Their record is gone, so they
/// are over. Attempts that were `sent` in this session are on their way and do not count.
pub fn attempts_missing<'a>(
    rows: impl IntoIterator<Item = &'a TaskRow>,
    reported: &BTreeMap<DesiredAttempt, Phase>,
    sent: &BTreeSet<DesiredAttempt>,
) -> Vec<DesiredAttempt> {
    let charged = |row: &&TaskRow| match row.state {
        TaskState::Starting
        | TaskState::Running
        | TaskState::Stopping
        | TaskState::Releasing
        | TaskState::Lost => true,
        // An assignment that was never delivered is not lost: it is delivered now.
        TaskState::Assigned | TaskState::Held | TaskState::Pending | TaskState::Dead => false,
    };
    let attempts = rows
        .into_iter()
        .filter(charged)
        .map(|row| DesiredAttempt { task: row.id, incarnation: row.incarnation });
    attempts.filter(|attempt| !reported.contains_key(attempt) && !sent.contains(attempt)).collect()
}

#[cfg(test)]
mod tests {
    use borough_model::task::{Resize, ResizeRefused};
    use borough_model::{JobId, Resources};

    use super::*;

    const NODE: NodeId = NodeId(1);
    const TASK: TaskId = TaskId { job: JobId(9), index: 0 };

    fn row(state: TaskState, node: NodeId, incarnation: u64) -> TaskRow {
        TaskRow {
            state,
            node: Some(node),
            incarnation: Incarnation(incarnation),
            stop: (state == TaskState::Stopping).then_some(StopReason::JobStopped),
            revision: 1,
            ..TaskRow::never_placed(TASK)
        }
    }

    fn attempt(incarnation: u64) -> DesiredAttempt {
        DesiredAttempt { task: TASK, incarnation: Incarnation(incarnation) }
    }

    fn full(row: &TaskRow, reported: &[(u64, Phase)]) -> Vec<(u64, Command)> {
        let reported = reported.iter().map(|&(incarnation, phase)| (attempt(incarnation), phase)).collect();
        let here = Some(row).filter(|row| row.node == Some(NODE));
        let commands = commands_full(NODE, here, &reported, |task| Some(row).filter(|row| row.id == task));
        commands.into_iter().map(|(attempt, command)| (attempt.incarnation.0, command)).collect()
    }

    #[test]
    fn a_wanted_attempt_is_run_whether_or_not_it_is_known() {
        for state in [TaskState::Assigned, TaskState::Starting, TaskState::Running] {
            assert_eq!(full(&row(state, NODE, 3), &[]), [(3, Command::Run)]);
            assert_eq!(full(&row(state, NODE, 3), &[(3, Phase::Running)]), [(3, Command::Run)]);
        }
        assert_eq!(full(&row(TaskState::Held, NODE, 3), &[]), []);
    }

    #[test]
    fn an_order_to_resize_is_given_until_it_is_settled_and_to_an_agent_that_has_the_attempt() {
        let amounts = |cpu_millis| Resources { cpu_millis, ..Resources::default() };
        let mut ordered = row(TaskState::Running, NODE, 3);
        let (granted, in_force) = (amounts(2), amounts(1));
        let resize =
            Resize { order: 7, version: 2, granted, in_force, at_ms: 1, refused: None, again: false };
        ordered.resize = Some(Box::new(resize.clone()));
        assert_eq!(full(&ordered, &[(3, Phase::Running)]), [(3, Command::Resize(7))]);
        assert_eq!(full(&ordered, &[]), [(3, Command::Run)], "it begins with what its spec asks for");
        let refused = Some(ResizeRefused::MemoryInUse { used_bytes: 2, asked_bytes: 1 });
        ordered.resize = Some(Box::new(Resize { refused, ..resize }));
        assert_eq!(full(&ordered, &[(3, Phase::Running)]), [(3, Command::Run)], "it is settled");
    }

    #[test]
    fn an_attempt_that_was_replaced_is_stopped_and_then_forgotten() {
        let elsewhere = row(TaskState::Running, NodeId(2), 4);
        let stop = Command::Stop { reason: StopReason::Restart, drain: false, notice_max_ms: None };
        assert_eq!(full(&elsewhere, &[(3, Phase::Running)]), [(3, stop)]);
        assert_eq!(full(&elsewhere, &[(3, Phase::Released)]), [(3, Command::Forget)]);
        let here_again = row(TaskState::Running, NODE, 4);
        assert_eq!(
            full(&here_again, &[(3, Phase::Exited), (4, Phase::Running)]),
            [(3, stop), (4, Command::Run)]
        );
    }

    #[test]
    fn an_attempt_declared_lost_is_stopped_where_it_still_runs() {
        let stop = Command::Stop { reason: StopReason::Restart, drain: false, notice_max_ms: None };
        assert_eq!(full(&row(TaskState::Pending, NODE, 3), &[(3, Phase::Running)]), [(3, stop)]);
        assert_eq!(full(&row(TaskState::Pending, NODE, 3), &[]), []);
    }

    #[test]
    fn an_unknown_attempt_is_left_alone() {
        let reported = BTreeMap::from([(attempt(1), Phase::Running)]);
        assert_eq!(commands_full(NODE, [], &reported, |_| None), BTreeMap::new());
    }

    #[test]
    fn an_attempt_later_than_its_row_runs_until_the_task_has_another() {
        for state in [TaskState::Running, TaskState::Pending, TaskState::Stopping] {
            let here = full(&row(state, NODE, 3), &[(4, Phase::Running)]);
            assert!(here.iter().all(|&(incarnation, _)| incarnation != 4), "{state:?}: {here:?}");
            assert_eq!(full(&row(state, NodeId(2), 3), &[(4, Phase::Running)]), []);
        }
        let stop = Command::Stop { reason: StopReason::Restart, drain: false, notice_max_ms: None };
        assert_eq!(full(&row(TaskState::Assigned, NodeId(2), 4), &[(4, Phase::Running)]), [(4, stop)]);
    }

    #[test]
    fn only_delivered_attempts_can_be_missing() {
        let none = (BTreeMap::new(), BTreeSet::new());
        assert_eq!(attempts_missing([&row(TaskState::Assigned, NODE, 1)], &none.0, &none.1), []);
        assert_eq!(attempts_missing([&row(TaskState::Running, NODE, 1)], &none.0, &none.1), [attempt(1)]);
        let sent = BTreeSet::from([attempt(1)]);
        assert_eq!(attempts_missing([&row(TaskState::Running, NODE, 1)], &none.0, &sent), []);
        let reported = BTreeMap::from([(attempt(1), Phase::Running)]);
        assert_eq!(attempts_missing([&row(TaskState::Running, NODE, 1)], &reported, &none.1), []);
    }
}
