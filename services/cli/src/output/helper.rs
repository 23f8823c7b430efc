//! The helpers of a task.

use borough_proto::signal::signal_name;
use borough_proto::v1;
use serde::Serialize;

use super::Foreign;
use super::text::{time, word};

/// A helper of the current attempt, or of the last one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HelperView {
    pub(crate) name: Foreign,
    /// `before`, `beside` or `after` the command of the task.
    pub(crate) when: String,
    pub(crate) state: String,
    /// How often it was started again in the attempt.
    pub(crate) restarts: u32,
    /// How it ended last; null: it has not.
    pub(crate) exit: Option<HelperExitView>,
}

/// The end of a helper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HelperExitView {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) message: Foreign,
    pub(crate) at_ms: i64,
}

impl From<v1::HelperStatus> for HelperView {
    fn from(helper: v1::HelperStatus) -> Self {
        Self {
            when: word(helper.when().as_str_name(), "HELPER_PHASE_"),
            state: word(helper.state().as_str_name(), "STATE_"),
            name: helper.name.into(),
            restarts: helper.restarts,
            exit: helper.exit.map(|exit| HelperExitView {
                code: exit.code,
                signal: exit.signal,
                message: exit.message.into(),
                at_ms: exit.at_ms,
            }),
        }
    }
}

impl HelperView {
    /// One line: its phase, its state, its restarts, and how it ended last.
    pub(crate) fn text(&self) -> String {
        let restarts = match self.restarts {
            0 => String::new(),
            1 => ", restarted once".to_owned(),
            times => format!(", restarted {times} times"),
        };
        let exit = match &self.exit {
            None if self.state == "ended" => return format!("{} the command, never started", self.when),
            None => String::new(),
            Some(exit) if self.state == "ended" => format!(": {}", exit.text()),
            Some(exit) => format!(", last {}", exit.text()),
        };
        format!("{} the command, {}{restarts}{exit}", self.when, self.state)
    }
}

impl HelperExitView {
    fn text(&self) -> String {
        let how = match (self.code, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => signal_name(signal),
            (None, None) => "start failed".to_owned(),
        };
        let why = if self.message.is_empty() { String::new() } else { format!(": {}", self.message) };
        format!("{how} at {}{why}", time(self.at_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_says_what_it_does_and_how_it_ended() {
        let helper = |state: v1::helper_status::State, restarts, exit| {
            let when = v1::HelperPhase::Beside.into();
            let name = "logs".to_owned();
            HelperView::from(v1::HelperStatus { name, when, state: state.into(), restarts, exit }).text()
        };
        let exit = |code, signal, message: &str| {
            Some(v1::HelperExit { code, signal, message: message.to_owned(), at_ms: 1_000 })
        };
        use v1::helper_status::State;
        assert_eq!(helper(State::Running, 0, None), "beside the command, running");
        assert_eq!(
            helper(State::Waiting, 2, exit(Some(3), None, "")),
            "beside the command, waiting, restarted 2 times, last exit code 3 at 1970-01-01T00:00:01Z"
        );
        assert_eq!(helper(State::Ended, 0, None), "beside the command, never started");
        assert_eq!(
            helper(State::Ended, 1, exit(None, Some(9), "it did not end")),
            "beside the command, ended, restarted once: SIGKILL at 1970-01-01T00:00:01Z: it did not end"
        );
    }
}
