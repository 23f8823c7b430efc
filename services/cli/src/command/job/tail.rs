//! The last lines that a failing task wrote, for the answer of a wait.

use std::time::Duration;

use borough_client::{Client, JobRef, LogQuery, TaskRef};
use borough_proto::v1::Task;
use futures::StreamExt as _;

use crate::command::attempts::TaskAttempts;

/// Lines that are shown.
const LINES_MAX: u32 = 10;
/// Bytes of them that are read.
const BYTES_MAX: usize = 64 << 10;
/// Characters that are shown of a line.
const LINE_CHARS_MAX: usize = 300;
/// The answer does not wait longer for the lines.
const TIME_MAX: Duration = Duration::from_secs(5);

/// The helper that kept the last attempt of a task from its command; empty: none did.
pub(super) fn failed_helper(task: &Task) -> &str {
    task.exit.as_ref().map(|exit| exit.helper.as_str()).unwrap_or_default()
}

/// The last lines of a task that fails or is not healthy, under a line that names it. Empty without a task, or if its
/// output cannot be read.
pub(super) async fn failing_log(client: &Client, job: &JobRef, task: Option<&Task>) -> Vec<String> {
    let Some(task) = task else { return Vec::new() };
    let read = tokio::time::timeout(TIME_MAX, log_tail(client, job, task)).await;
    let lines = read.unwrap_or_default();
    if lines.is_empty() {
        return Vec::new();
    }
    let helper = failed_helper(task);
    let of = if helper.is_empty() { String::new() } else { format!("helper {helper} of ") };
    let mut shown = vec![format!("the last lines of {of}{job}/{}:", task.index)];
    shown.extend(lines.into_iter().map(|line| format!("  {line}")));
    shown
}

/// The end of the output of the attempt that failed last. A later attempt may have written nothing yet. Of a task that
/// has not failed, that of the present attempt.
async fn log_tail(client: &Client, job: &JobRef, task: &Task) -> Vec<String> {
    let named = TaskRef { job: job.clone(), index: task.index };
    let attempts = TaskAttempts::of(task);
    let incarnation = if task.failures > 0 { attempts.ended() } else { Some(task.incarnation) };
    // What kept the attempt from its command has written why.
    let helper = failed_helper(task).to_owned();
    let query = LogQuery { tail_lines: Some(LINES_MAX), incarnation, helper, ..LogQuery::default() };
    let Ok(mut parts) = client.task_logs(&named, query).await else { return Vec::new() };
    let mut bytes = Vec::new();
    while let Some(Ok(part)) = parts.next().await {
        bytes.extend(part.data);
        if bytes.len() >= BYTES_MAX {
            break;
        }
    }
    last_lines(&bytes)
}

/// The last lines of a text that have a content.
fn last_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let first = lines.len().saturating_sub(usize::try_from(LINES_MAX).unwrap_or(usize::MAX));
    lines.iter().skip(first).map(|line| line_cut(line)).collect()
}

/// A line as far as it is shown.
fn line_cut(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS_MAX) {
        Some((end, _)) => format!("{}… ({} bytes)", line.get(..end).unwrap_or_default(), line.len()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_with_a_content_are_shown() {
        assert_eq!(last_lines(b"one\n\n  \ntwo"), ["one", "two"]);
        let many: String = (0..30).map(|number| format!("line {number}\n")).collect();
        let lines = last_lines(many.as_bytes());
        assert_eq!((lines.len(), lines[0].as_str(), lines[9].as_str()), (10, "line 20", "line 29"));
        assert!(last_lines(b"").is_empty());
        let long = "ä".repeat(LINE_CHARS_MAX);
        assert_eq!(last_lines(long.as_bytes()).join("\n"), long);
        assert_eq!(last_lines(format!("{long}bc").as_bytes()), [format!("{long}… (602 bytes)")]);
        assert_eq!(last_lines(b"\xff\n").len(), 1);
    }
}
