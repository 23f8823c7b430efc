//! How an attempt of a task ended.

use borough_proto::signal::signal_name;
use borough_proto::v1;
use serde::Serialize;

use super::Foreign;
use super::text::{time, word};

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ExitView {
    pub(crate) reason: String,
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) message: Foreign,
    pub(crate) at_ms: i64,
    pub(crate) attempt: u64,
    pub(crate) node: Foreign,
}

impl From<v1::Exit> for ExitView {
    fn from(exit: v1::Exit) -> Self {
        Self {
            reason: word(exit.reason().as_str_name(), "END_REASON_"),
            code: exit.code,
            signal: exit.signal,
            message: exit.message.into(),
            at_ms: exit.at_ms,
            attempt: exit.incarnation,
            node: exit.node.into(),
        }
    }
}

impl ExitView {
    /// One phrase: `exit code 1`, `SIGKILL`, `out of memory`, and other facts.
    pub(crate) fn text(&self) -> String {
        let how = match (self.reason.as_str(), self.code, self.signal) {
            ("exited", Some(code), _) => format!("exit code {code}"),
            ("signaled", _, Some(signal)) => signal_name(signal),
            (reason, _, _) => reason.replace('_', " "),
        };
        // An attempt that is stopped gets SIGTERM first.
        let killed = if self.reason == "stopped" && self.signal == Some(SIGKILL) { KILLED } else { "" };
        if self.message.is_empty() {
            return format!("{how}{killed}");
        }
        format!("{how}: {}{killed}", self.message)
    }
}

/// The signal that ends what SIGTERM did not end.
const SIGKILL: i32 = 9;
/// What is said of an attempt that did not end by SIGTERM within its grace.
const KILLED: &str = "; SIGTERM did not end it within its grace, SIGKILL did";

impl ExitView {
    /// The end with its attempt, its node and its time.
    pub(super) fn text_long(&self) -> String {
        let on = if self.node.is_empty() { String::new() } else { format!(" on {}", self.node) };
        format!("{} (attempt {}{on}, {})", self.text(), self.attempt, time(self.at_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_had_to_be_killed_says_so() {
        let of = |reason: v1::EndReason, signal| {
            let message = "its job was stopped".to_owned();
            ExitView::from(v1::Exit { reason: reason.into(), signal, message, ..v1::Exit::default() }).text()
        };
        assert_eq!(of(v1::EndReason::Stopped, Some(15)), "stopped: its job was stopped");
        let killed = of(v1::EndReason::Stopped, Some(9));
        assert!(
            killed.starts_with("stopped: its job was stopped; ") && killed.contains("SIGKILL"),
            "{killed}"
        );
        assert!(!of(v1::EndReason::Signaled, Some(9)).contains("grace"));
    }
}
