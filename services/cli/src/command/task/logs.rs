//! `task logs`.

use std::time::Duration;

use borough_client::{Client, LogEvent, LogFollower, LogQuery, LogWait, TaskFilter, TaskRef};
use borough_proto::v1::read_logs_request::Stream;
use borough_proto::v1::{PageRequest, ReadLogsResponse, Task};
use tonic::Code as Status;

use super::no_such_task;
use crate::args::LogArguments;
use crate::command::attempts::TaskAttempts;
use crate::exit::{Code, Failure, absence_text, away_hint};
use crate::output::{Foreign, LogLines, LogOutput, LogStyle, Printer};

/// How long the opening of a read may take without a word. It takes longer if the gateway of the agent is gone too.
const OPEN_WAIT: Duration = Duration::from_secs(3);

/// How long the name of a node may take that a remark would have.
const NODE_WAIT: Duration = Duration::from_secs(2);

pub(super) async fn logs(
    client: &Client,
    arguments: &LogArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let task = arguments.target.resolve(client.user());
    let query = LogQuery {
        follow: arguments.follow,
        incarnation: arguments.attempt.number(),
        ..arguments.show.query()
    };
    let opening = async {
        if arguments.previous {
            previous_open(client, &task, query.clone()).await
        } else {
            Ok(client.task_log_open(&task, query.clone()).await?)
        }
    };
    let told = async {
        printer.remark(&wait_said(client, &task, query.incarnation, &LogWait::Answer).await);
    };
    let (opened, is_told) = told_if_slow(opening, told).await;
    let mut log = opened?;
    let mut output = TaskLogOutput { task: &task, query: &query, printer, lines: None, is_empty: true };
    let mut broken = None;
    while let Some(event) = log.next().await {
        match event {
            Ok(LogEvent::Part(part)) => output.part(&part)?,
            Ok(LogEvent::Waits(LogWait::Answer)) if is_told => {}
            Ok(LogEvent::Waits(wait)) => {
                printer.remark(&wait_said(client, &task, query.incarnation, &wait).await);
            }
            Err(error) => broken = Some(Failure::from(error)),
        }
    }
    let is_empty = output.is_empty;
    output.end()?;
    if is_empty && broken.is_none() {
        printer.remark(&format!("{task}: {}", nothing_text(&query)));
    }
    broken.map_or(Ok(Code::Done), Err)
}

/// What `opening` gives, and whether it has taken so long that `told` had to say what it waits for.
async fn told_if_slow<T>(opening: impl Future<Output = T>, told: impl Future<Output = ()>) -> (T, bool) {
    let mut opening = std::pin::pin!(opening);
    match tokio::time::timeout(OPEN_WAIT, &mut opening).await {
        Ok(opened) => (opened, false),
        Err(_) => (tokio::join!(opening, told).0, true),
    }
}

/// Shows the output of one attempt: its bytes as they are, or whole lines with their times or as objects.
struct TaskLogOutput<'a> {
    task: &'a TaskRef,
    query: &'a LogQuery,
    printer: &'a Printer,
    lines: Option<LogLines>,
    /// Nothing has come, and nothing is gone.
    is_empty: bool,
}

impl TaskLogOutput<'_> {
    fn part(&mut self, part: &ReadLogsResponse) -> Result<(), Failure> {
        self.is_empty &= part.gone_bytes == 0 && part.data.is_empty();
        if part.gone_bytes > 0 {
            self.printer.remark(&gone_text(self.task, part.gone_bytes));
        }
        let stream = match part.stream() {
            Stream::Stderr => LogOutput::Stderr,
            _ => LogOutput::Stdout,
        };
        let style = LogStyle::of_one(self.printer);
        if !style.is_object() && !self.query.times {
            return self.show(stream, &part.data);
        }
        let style = if self.query.times { style.with_times() } else { style };
        let lines =
            self.lines.get_or_insert_with(|| LogLines::new(self.task.clone(), part.incarnation, style));
        let shown = lines.add(stream, &part.data, &part.times);
        self.show(stream, &shown)
    }

    /// Shows the last lines that no line end closes.
    fn end(mut self) -> Result<(), Failure> {
        let Some(mut lines) = self.lines.take() else { return Ok(()) };
        for stream in [LogOutput::Stdout, LogOutput::Stderr] {
            self.show(stream, &lines.end(stream))?;
        }
        Ok(())
    }

    /// A single requested stream goes to standard output, and so do objects. Of both, each goes where the task sent it.
    fn show(&self, stream: LogOutput, bytes: &[u8]) -> Result<(), Failure> {
        let is_apart = self.query.stream == Stream::Unspecified && !self.printer.is_machine();
        match stream {
            LogOutput::Stderr if is_apart => self.printer.error_bytes(bytes),
            _ => self.printer.bytes(bytes),
        }
    }
}

/// What is said if a read that has ended has shown nothing.
pub(crate) fn nothing_text(query: &LogQuery) -> String {
    if query.tail_lines == Some(0) {
        return "no line was asked for".to_owned();
    }
    let stream = match query.stream {
        Stream::Stdout => " on standard output",
        Stream::Stderr => " on standard error",
        Stream::Unspecified => "",
    };
    let since = query
        .since_ms
        .map(|since| format!(" in the last {}", humantime::format_duration(Duration::from_millis(since))));
    let helper = if query.helper.is_empty() { String::new() } else { format!(" of helper {}", query.helper) };
    format!("no output{helper}{stream}{}", since.unwrap_or_default())
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
        LogWait::Gateway(absence) => absence_text(absence),
    }
}

/// The same, with the node if its agent takes long.
async fn wait_said(client: &Client, task: &TaskRef, attempt: Option<u64>, wait: &LogWait) -> String {
    let node = match wait {
        LogWait::Answer => {
            tokio::time::timeout(NODE_WAIT, node_of(client, task, attempt)).await.ok().flatten()
        }
        LogWait::Agent(_) | LogWait::Gateway(_) => None,
    };
    let Some(node) = node else { return wait_text(task, wait) };
    format!(
        "{task}: waiting for the agent of node {node}, which has not answered yet: borough node status {node}; borough \
         why {task}"
    )
}

/// The node of an attempt: of the present one by default.
async fn node_of(client: &Client, task: &TaskRef, attempt: Option<u64>) -> Option<Foreign> {
    let row = row_of(client, task).await.ok()??;
    let last = row.exit.filter(|exit| attempt == Some(exit.incarnation) || row.node.is_empty());
    let node = last.map_or(row.node, |exit| exit.node);
    (!node.is_empty()).then(|| node.into())
}

async fn row_of(client: &Client, task: &TaskRef) -> Result<Option<Task>, Failure> {
    let filter = TaskFilter { index: Some(task.index), ..TaskFilter::of_job(&task.job) };
    let answer = client.task_list_page(&filter, PageRequest::default()).await?;
    Ok(answer.tasks.into_iter().next())
}

/// The output of the attempt that ended last. A task that fails soon after its start may have ended another one by the
/// time that the gateway looks for it.
async fn previous_open(client: &Client, task: &TaskRef, query: LogQuery) -> Result<LogFollower, Failure> {
    let mut tried = None;
    loop {
        let Some(row) = row_of(client, task).await? else { return Err(no_such_task(client, task).await) };
        let previous = previous(task, &row)?;
        match client.task_log_open(task, LogQuery { incarnation: Some(previous), ..query.clone() }).await {
            Err(error) if error.code() == Some(Status::NotFound) && tried != Some(previous) => {
                tried = Some(previous);
            }
            opened => return Ok(opened?),
        }
    }
}

/// The attempt that ended last. The cell knows no earlier one.
fn previous(task: &TaskRef, row: &Task) -> Result<u64, Failure> {
    TaskAttempts::of(row).ended().ok_or_else(|| {
        let hint = match row.incarnation {
            0 => format!("borough why {task}"),
            _ => format!("borough task logs {task}"),
        };
        let what = match &row.exit {
            Some(exit) => format!(
                "attempt {} of task {task} ended on a node that was removed, and its output went with it",
                exit.incarnation
            ),
            None => format!("no attempt of task {task} has ended yet"),
        };
        Failure::new(Code::NotFound, what).with_hint(hint)
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

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_the_opening_of_a_read_is_told_after_a_while() {
        let told = std::cell::Cell::new(false);
        let opening = |seconds| told_if_slow(passed(seconds), async { told.set(true) });
        let passed_and_told = async |seconds| {
            passed(seconds).await;
            told.get()
        };
        assert_eq!((opening(2).await, told.get()), (((), false), false));
        let (opened, early, late) = tokio::join!(opening(10), passed_and_told(2), passed_and_told(4));
        assert_eq!((opened, early, late), (((), true), false, true));
    }

    async fn passed(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    #[test]
    fn a_read_that_shows_nothing_says_of_what() {
        let of = |stream, since_ms| nothing_text(&LogQuery { stream, since_ms, ..LogQuery::default() });
        assert_eq!(of(Stream::Unspecified, None), "no output");
        assert_eq!(of(Stream::Stderr, Some(300_000)), "no output on standard error in the last 5m");
    }

    #[test]
    fn without_an_ended_attempt_the_hint_is_what_shows_more() {
        let task = TaskRef { job: JobRef::new("alice", "web"), index: 0 };
        assert_eq!(previous(&task, &row(TaskState::Running, 4, 3)).ok(), Some(3));
        let none = previous(&task, &row(TaskState::Running, 1, 0)).unwrap_err();
        assert_eq!(none.message(), "no attempt of task alice/web/0 has ended yet");
        assert_eq!(none.hint(), Some("borough task logs alice/web/0"));
        let removed = Exit { incarnation: 3, ..Exit::default() };
        let removed = Task { exit: Some(removed), ..row(TaskState::Running, 4, 0) };
        let gone = previous(&task, &removed).unwrap_err();
        assert!(gone.message().starts_with("attempt 3 of task alice/web/0 ended on a node that was removed"));
        let never = previous(&task, &row(TaskState::Pending, 0, 0)).unwrap_err();
        assert_eq!(never.hint(), Some("borough why alice/web/0"));
    }
}
