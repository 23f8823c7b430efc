//! `task logs`.

use borough_client::{Client, LogEvent, LogFollower, LogQuery, LogWait, TaskFilter, TaskRef};
use borough_proto::v1::read_logs_request::Stream;
use borough_proto::v1::{PageRequest, Task};
use tonic::Code as Status;

use super::no_such_task;
use crate::args::LogArguments;
use crate::exit::{Code, Failure, away_hint};
use crate::output::{Foreign, Printer};

pub(super) async fn logs(
    client: &Client,
    arguments: &LogArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let task = arguments.target.resolve(client.user());
    let stream = if arguments.stdout {
        Stream::Stdout
    } else if arguments.stderr {
        Stream::Stderr
    } else {
        Stream::Unspecified
    };
    let (tail_lines, follow) = (arguments.tail, arguments.follow);
    let query =
        LogQuery { stream, tail_lines, follow, incarnation: arguments.attempt, ..LogQuery::default() };
    let mut log = if arguments.previous {
        previous_open(client, &task, query).await?
    } else {
        client.task_log_open(&task, query).await?
    };
    while let Some(event) = log.next().await {
        let part = match event? {
            LogEvent::Part(part) => part,
            LogEvent::Waits(wait) => {
                printer.remark(&wait_text(&task, &wait));
                continue;
            }
        };
        if part.gone_bytes > 0 {
            printer.remark(&gone_text(&task, part.gone_bytes));
        }
        match part.stream() {
            // A single requested stream goes to standard output. Of both, each goes where the task sent it.
            Stream::Stderr if stream == Stream::Unspecified => printer.error_bytes(&part.data)?,
            _ => printer.bytes(&part.data)?,
        }
    }
    Ok(Code::Done)
}

/// What is said of output that the node removed before it was read.
pub(crate) fn gone_text(task: &TaskRef, bytes: u64) -> String {
    format!("{task}: {bytes} bytes of output are gone; the node removed them before they were read")
}

/// What is said once of a read that waits.
pub(crate) fn wait_text(task: &TaskRef, wait: &LogWait) -> String {
    match wait {
        LogWait::Answer => {
            format!(
                "{task}: waiting for the agent of its node, which has not answered yet: borough why {task}"
            )
        }
        LogWait::Agent(away) => {
            let hint = away_hint(away).unwrap_or_else(|| format!("borough why {task}"));
            format!("{}; waiting for it: {}", Foreign::from(away.message.as_str()), Foreign::from(hint))
        }
    }
}

/// The output of the attempt that ended last. A task that fails soon after its start may have ended another one by the
/// time that the gateway looks for it.
async fn previous_open(client: &Client, task: &TaskRef, query: LogQuery) -> Result<LogFollower, Failure> {
    let mut tried = None;
    loop {
        let filter = TaskFilter { index: Some(task.index), ..TaskFilter::of_job(&task.job) };
        let answer = client.task_list_page(&filter, PageRequest::default()).await?;
        let row = answer.tasks.first().ok_or_else(|| no_such_task(task))?;
        let previous = previous(task, row)?;
        match client.task_log_open(task, LogQuery { incarnation: Some(previous), ..query }).await {
            Err(error) if error.code() == Some(Status::NotFound) && tried != Some(previous) => {
                tried = Some(previous);
            }
            opened => return Ok(opened?),
        }
    }
}

/// The attempt that ended last. The cell knows no earlier one.
fn previous(task: &TaskRef, row: &Task) -> Result<u64, Failure> {
    let ended = row.exit.as_ref().filter(|exit| !exit.node.is_empty()).map(|exit| exit.incarnation);
    ended.ok_or_else(|| {
        let hint = match row.incarnation {
            0 => format!("borough why {}", task.job),
            _ => format!("borough task logs {task}"),
        };
        Failure::new(Code::NotFound, format!("no attempt of task {task} has ended yet")).with_hint(hint)
    })
}

#[cfg(test)]
mod tests {
    use borough_client::JobRef;
    use borough_proto::v1::{Exit, TaskState};

    use super::*;

    fn row(state: TaskState, incarnation: u64, ended: u64) -> Task {
        let exit = Exit { incarnation: ended, node: "n1".to_owned(), ..Exit::default() };
        Task { state: state.into(), incarnation, exit: (ended > 0).then_some(exit), ..Task::default() }
    }

    #[test]
    fn the_previous_attempt_is_the_one_that_ended_last() {
        let task = TaskRef { job: JobRef::new("alice", "web"), index: 0 };
        let of = |state, incarnation, ended| previous(&task, &row(state, incarnation, ended)).ok();
        assert_eq!(of(TaskState::Running, 4, 3), Some(3));
        assert_eq!(of(TaskState::Assigned, 5, 4), Some(4));
        assert_eq!(of(TaskState::Pending, 4, 4), Some(4), "it waits for its next start");
        assert_eq!(of(TaskState::Dead, 4, 4), Some(4));
        // Attempt 2 was lost before it ran.
        assert_eq!(of(TaskState::Running, 3, 1), Some(1));
        let none = previous(&task, &row(TaskState::Running, 1, 0)).unwrap_err();
        assert_eq!(none.message(), "no attempt of task alice/web/0 has ended yet");
        assert_eq!(none.hint(), Some("borough task logs alice/web/0"));
        let never = previous(&task, &row(TaskState::Pending, 0, 0)).unwrap_err();
        assert_eq!(never.hint(), Some("borough why alice/web"));
    }
}
