//! Explains tasks whose attempts fail: how the last one ended, how often in a row, and when the next one starts.

use std::collections::BTreeMap;

use borough_model::TaskState;
use borough_model::job::helper_of_failure;
use borough_model::task::{EndReason, Exit, StartFailure, TaskRow};
use borough_proto::convert::exit_to_message;
use borough_proto::signal::signal_name;
use borough_proto::v1;

use super::{explanation_of, moment};

/// The most ways to fail that differ by their messages. The text of each may be long.
const MESSAGES_MAX: usize = 32;

/// What the tasks of one explanation have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FailureKind {
    /// It does not start again.
    is_dead: bool,
    /// The last end was no failure: the task failed before that.
    is_moved: bool,
    /// The attempt after the failures serves.
    is_healthy: bool,
    /// `exit code 7`, `SIGKILL`, `out of memory`, `start failed: MESSAGE`.
    how: String,
}

/// A task whose attempts fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FailingTask {
    /// `USER/JOB/INDEX`.
    pub(super) name: String,
    pub(super) index: u32,
    /// Where the last attempt ended.
    pub(super) exit_node: String,
    /// Where the present attempt is; empty without one.
    pub(super) node: String,
    /// What its probe asks, if the attempt was stopped because that failed; empty otherwise.
    pub(super) probe: String,
    /// When the present attempt is healthy; empty if it does not run, or is.
    pub(super) healthy: String,
    pub(super) now_ms: i64,
}

/// Tasks whose attempts fail in the same way.
#[derive(Clone, Debug)]
struct FailingGroup {
    indexes: Vec<u32>,
    /// The most failures in a row of one task.
    failures: u32,
    /// The task that failed last.
    last: FailingTask,
    exit: Exit,
    /// What `last` does now.
    present: String,
    /// When the first and the last of those start that back off; 0: none does.
    next_first_ms: i64,
    next_last_ms: i64,
}

/// Tasks of a job whose attempts fail, by how.
#[derive(Clone, Debug, Default)]
pub(super) struct FailingTasks(BTreeMap<FailureKind, FailingGroup>);

impl FailingTasks {
    pub(super) fn indexes(&self) -> impl Iterator<Item = u32> {
        self.0.values().flat_map(|group| &group.indexes).copied()
    }

    /// Adds a task with its row, and with how its last attempt ended.
    pub(super) fn add(&mut self, task: FailingTask, row: &TaskRow, exit: &Exit) {
        let is_dead = row.state == TaskState::Dead;
        let is_moved = !exit.is_failure();
        let is_healthy = row.is_healthy();
        let mut kind = FailureKind { is_dead, is_moved, is_healthy, how: exit_text(exit, &exit.message) };
        if self.0.len() >= MESSAGES_MAX && !self.0.contains_key(&kind) {
            kind.how = exit_text(exit, "");
        }
        let backs_off = row.state == TaskState::Pending && row.not_before_ms > task.now_ms;
        let next_ms = if backs_off { row.not_before_ms } else { 0 };
        let present = present_text(&task, row);
        let (index, failures) = (task.index, row.failures);
        let group = self.0.entry(kind).or_insert_with(|| FailingGroup {
            indexes: Vec::new(),
            failures: 0,
            last: task.clone(),
            exit: exit.clone(),
            present: present.clone(),
            next_first_ms: next_ms,
            next_last_ms: next_ms,
        });
        if exit.at_ms > group.exit.at_ms {
            (group.last, group.exit, group.present) = (task, exit.clone(), present);
        }
        group.indexes.push(index);
        group.failures = group.failures.max(failures);
        if next_ms > 0 {
            let first = if group.next_first_ms == 0 { next_ms } else { group.next_first_ms.min(next_ms) };
            (group.next_first_ms, group.next_last_ms) = (first, group.next_last_ms.max(next_ms));
        }
    }

    /// One explanation per way to fail.
    pub(super) fn explained(self) -> Vec<v1::Explanation> {
        self.0.into_iter().map(|(kind, group)| group.explanation(&kind)).collect()
    }
}

impl FailingGroup {
    fn explanation(self, kind: &FailureKind) -> v1::Explanation {
        let is_one = self.indexes.len() == 1;
        let again = if is_one { "fails again and again" } else { "fail again and again" };
        let begin = match self.failures {
            _ if kind.is_dead => "failed for good",
            1 => "failed",
            _ => again,
        };
        let most = if is_one { "" } else { "up to " };
        let times = match self.failures {
            0 | 1 => String::new(),
            failures => format!("{most}{failures} times in a row"),
        };
        // Those before it may have ended otherwise.
        let last_of = match self.failures {
            0 | 1 => String::new(),
            failures => format!(", the last of {most}{failures} failures in a row"),
        };
        let it = if is_one { "it" } else { "they" };
        let headline = if kind.is_healthy && !kind.is_moved {
            format!("healthy now; before that {it} failed: {}{last_of}", kind.how)
        } else if self.failures == 0 {
            format!("{}; this is no failure of the task", kind.how)
        } else if kind.is_moved {
            let times = if times.is_empty() { "once" } else { &times };
            format!("{}; before that {it} failed {times}", kind.how)
        } else {
            format!("{begin}: {}{last_of}", kind.how)
        };
        let (name, exit) = (&self.last.name, &self.exit);
        let on = match self.last.exit_node.as_str() {
            "" => String::new(),
            node => format!(" on {node}"),
        };
        let of = if is_one { String::new() } else { format!(" of task {}", self.last.index) };
        let at = moment(exit.at_ms);
        let mut details = vec![format!("last end: attempt {}{of}{on}, {at}", exit.incarnation.0)];
        if !self.last.probe.is_empty() {
            details.push(format!("the probe that failed: {}", self.last.probe));
        }
        match (self.next_first_ms, self.next_last_ms) {
            (0, _) if kind.is_dead => details.push("it does not start again".to_owned()),
            (0, _) if self.present.is_empty() => {}
            (0, _) => details.push(format!("now: {}", self.present)),
            (first, last) if moment(first) == moment(last) => {
                details.push(format!("next start: at {}, after the back-off", moment(first)));
            }
            (first, last) => {
                let (first, last) = (moment(first), moment(last));
                details.push(format!("next starts: from {first} to {last}, after the back-off"));
            }
        }
        let is_mended = kind.is_healthy && exit.reason == EndReason::StartFailed;
        let mends = kind.is_dead.then(|| run_again(exit)).flatten();
        details.extend((!is_mended).then(|| mends.map_or_else(|| commands(name, exit), str::to_owned)));
        let mut explanation = explanation_of(self.indexes, headline, details);
        explanation.failures = self.failures;
        explanation.exit = Some(exit_to_message(exit, self.last.exit_node.clone()));
        explanation.next_start_ms = self.next_first_ms;
        explanation
    }
}

/// What begins a task again that does not begin again by itself. `None`: nothing but another job file.
fn run_again(exit: &Exit) -> Option<&'static str> {
    let failure = exit.start_failure.filter(|_| exit.reason == EndReason::StartFailed)?;
    Some(match failure {
        StartFailure::NodeFull => {
            "free space on the disk of that node, then run the job again: borough job run FILE"
        }
        StartFailure::PortInUse => {
            "end that process, or change the port; then run the job again: borough job run FILE"
        }
        StartFailure::SecretUnusable => "once the node has it, run the job again: borough job run FILE",
    })
}

/// What shows more, or mends it. An attempt that never started has written nothing.
fn commands(task: &str, exit: &Exit) -> String {
    if exit.reason != EndReason::StartFailed {
        return format!("what it wrote: borough task logs {task} --previous");
    }
    let what = match exit.start_failure {
        Some(StartFailure::NodeFull) => {
            "free space on the disk of that node; the task begins again by itself"
        }
        // Its agent names the process.
        Some(StartFailure::PortInUse) => {
            "end that process, and the next attempt has the port; or change the port: borough job run FILE"
        }
        // The file of the job may be right, and only its node lacks the secret.
        Some(StartFailure::SecretUnusable) => {
            "once the node has it, the task starts by itself after the back-off; to change the place: borough job \
             run FILE"
        }
        None => match helper_of_failure(&exit.message) {
            Some(helper) => {
                return format!("what it wrote: borough task logs {task} --previous --helper {helper}");
            }
            None => "correct the job file, then: borough job run FILE",
        },
    };
    what.to_owned()
}

/// What the present attempt of a task does; empty without one.
fn present_text(task: &FailingTask, row: &TaskRow) -> String {
    let attempt = row.incarnation.0;
    let of = format!("attempt {attempt} of task {}", row.id.index);
    match (row.state, row.started_ms) {
        (TaskState::Running, Some(since_ms)) => {
            let healthy = match task.healthy.as_str() {
                "" => String::new(),
                when => format!("; {when}"),
            };
            format!("{of} runs on {} since {}{healthy}", task.node, moment(since_ms))
        }
        (TaskState::Assigned | TaskState::Starting | TaskState::Running, _) => {
            format!("{of} starts on {}", task.node)
        }
        _ => String::new(),
    }
}

/// How an attempt ended, in one phrase.
fn exit_text(exit: &Exit, message: &str) -> String {
    let how = match (exit.reason, exit.code, exit.signal) {
        (EndReason::Exited, Some(code), _) => format!("exit code {code}"),
        (EndReason::Signaled, _, Some(signal)) => signal_name(signal),
        (EndReason::Exited, None, _) => "it exited".to_owned(),
        (EndReason::Signaled, _, None) => "a signal".to_owned(),
        (EndReason::OutOfMemory, ..) => "out of memory".to_owned(),
        (EndReason::StartFailed, ..) => "start failed".to_owned(),
        (EndReason::Stopped, ..) => "stopped".to_owned(),
        (EndReason::NodeLost, ..) => "node lost".to_owned(),
        (EndReason::NodeRebooted, ..) => "node rebooted".to_owned(),
    };
    if message.is_empty() { how } else { format!("{how}: {message}") }
}

#[cfg(test)]
mod tests {
    use borough_model::{Incarnation, JobId, NodeId, TaskId};

    use super::*;

    fn exit(code: i32, at_ms: i64) -> Exit {
        Exit {
            reason: EndReason::Exited,
            code: Some(code),
            signal: None,
            message: String::new(),
            at_ms,
            incarnation: Incarnation(6),
            node: Some(NodeId(1)),
            start_failure: None,
        }
    }

    fn added(tasks: &mut FailingTasks, index: u32, failures: u32, not_before_ms: i64, exit: &Exit) {
        let id = TaskId { job: JobId(1), index };
        let row = TaskRow { failures, not_before_ms, ..TaskRow::never_placed(id) };
        let name = format!("ann/web/{index}");
        let exit_node = "n1".to_owned();
        tasks.add(FailingTask { name, index, exit_node, ..FailingTask::default() }, &row, exit);
    }

    #[test]
    fn tasks_that_fail_alike_have_one_explanation() {
        let mut tasks = FailingTasks::default();
        added(&mut tasks, 0, 5, 9_000, &exit(7, 1_000));
        added(&mut tasks, 1, 6, 11_000, &exit(7, 3_000));
        added(&mut tasks, 2, 1, 0, &exit(9, 2_000));
        let [many, one] = tasks.explained().try_into().unwrap();
        assert_eq!(many.headline, "fail again and again: exit code 7, the last of up to 6 failures in a row");
        assert_eq!((many.indexes, many.failures, many.next_start_ms), (vec![0, 1], 6, 9_000));
        assert_eq!(
            many.details,
            [
                "last end: attempt 6 of task 1 on n1, 1970-01-01T00:00:03Z",
                "next starts: from 1970-01-01T00:00:09Z to 1970-01-01T00:00:11Z, after the back-off",
                "what it wrote: borough task logs ann/web/1 --previous",
            ]
        );
        assert_eq!(one.headline, "failed: exit code 9");
        assert_eq!(one.details.len(), 2, "it is planned at once: {:?}", one.details);
    }

    #[test]
    fn a_helper_that_failed_is_named_with_its_output() {
        let mut tasks = FailingTasks::default();
        let message = "its helper \"migrate\" (before its command) failed: exit code 3".to_owned();
        added(
            &mut tasks,
            0,
            1,
            0,
            &Exit { reason: EndReason::StartFailed, code: None, message, ..exit(0, 1_000) },
        );
        let [one] = tasks.explained().try_into().unwrap();
        let shown = "what it wrote: borough task logs ann/web/0 --previous --helper migrate";
        assert_eq!(one.details.last().map(String::as_str), Some(shown));
    }

    /// What an operator did is no failure, whatever came before.
    #[test]
    fn a_task_that_was_moved_after_failures_is_told_from_one_that_fails() {
        let mut tasks = FailingTasks::default();
        let message = "its node was drained".to_owned();
        let drained = Exit { reason: EndReason::Stopped, code: None, message, ..exit(0, 1_000) };
        added(&mut tasks, 0, 2, 0, &drained);
        added(&mut tasks, 1, 2, 0, &exit(7, 2_000));
        let [fails, moved] = tasks.explained().try_into().unwrap();
        assert_eq!((fails.indexes, moved.indexes), (vec![1], vec![0]));
        assert_eq!(moved.headline, "stopped: its node was drained; before that it failed 2 times in a row");
        assert!(fails.headline.starts_with("fails again and again: exit code 7"), "{}", fails.headline);
    }

    #[test]
    fn a_task_that_is_healthy_again_fails_no_longer() {
        let mut tasks = FailingTasks::default();
        let id = TaskId { job: JobId(1), index: 0 };
        let row = TaskRow {
            failures: 3,
            state: TaskState::Running,
            health: borough_model::task::Health::Healthy,
            started_ms: Some(2_000),
            ..TaskRow::never_placed(id)
        };
        let task =
            FailingTask { name: "ann/web/0".to_owned(), node: "n1".to_owned(), ..FailingTask::default() };
        tasks.add(task, &row, &exit(6, 1_000));
        let [one] = tasks.explained().try_into().unwrap();
        assert_eq!(
            one.headline,
            "healthy now; before that it failed: exit code 6, the last of 3 failures in a row"
        );
        assert!(one.details.iter().any(|detail| detail.starts_with("now: attempt")), "{:?}", one.details);
    }

    #[test]
    fn a_failed_start_has_its_cause_and_no_log() {
        let mut tasks = FailingTasks::default();
        let message = "cannot use the working directory /gone: No such file or directory".to_owned();
        let failed = Exit { reason: EndReason::StartFailed, code: None, message, ..exit(0, 1_000) };
        let message =
            "its port http (8080) is in use: process 4711 (nginx) listens on 0.0.0.0:8080".to_owned();
        let start_failure = Some(StartFailure::PortInUse);
        let hint = commands("ann/web/0", &Exit { message, start_failure, ..failed.clone() });
        assert!(hint.starts_with("end that process, and the next attempt has the port; or "), "{hint}");
        let message =
            "its secret A (db/x) is not on this node: its operator writes it to /s/ann/db/x".to_owned();
        let start_failure = Some(StartFailure::SecretUnusable);
        let hint = commands("ann/web/0", &Exit { message, start_failure, ..failed.clone() });
        assert!(hint.starts_with("once the node has it, the task starts by itself"), "{hint}");
        let message = "its secret A (db/x) is not on this node".to_owned();
        let hint = run_again(&Exit { message, start_failure, ..failed.clone() });
        assert_eq!(hint, Some("once the node has it, run the job again: borough job run FILE"));
        added(&mut tasks, 0, 2, 9_000, &failed);
        let [one] = tasks.explained().try_into().unwrap();
        assert!(one.headline.starts_with("fails again and again: start failed: cannot use the working"));
        assert!(!one.summary.contains("task logs"), "{}", one.summary);
        assert!(one.summary.ends_with("correct the job file, then: borough job run FILE"), "{}", one.summary);
    }

    #[test]
    fn many_messages_take_bounded_room() {
        let mut tasks = FailingTasks::default();
        for index in 0..1_000 {
            let message = format!("no such file: {index}");
            let failed = Exit { reason: EndReason::StartFailed, code: None, message, ..exit(0, 1_000) };
            added(&mut tasks, index, 2, 0, &failed);
        }
        let explained = tasks.explained();
        assert!(explained.len() <= MESSAGES_MAX + 1, "{}", explained.len());
        assert_eq!(explained.iter().map(|one| one.indexes.len()).sum::<usize>(), 1_000);
    }
}
