//! What the verbs on output share.

use std::time::Duration;

use borough_client::LogQuery;
use borough_proto::v1::read_logs_request::Stream;
use clap::Args;

use super::number::ago;

/// Which part of the output is shown, and how: of `task logs` and `job logs`.
#[derive(Clone, Debug, Args)]
pub struct LogShowArguments {
    /// Show only this many lines from the end of each stream of each task [default: all]
    #[arg(long, value_name = "LINES")]
    pub tail: Option<u32>,
    /// Show only what was written in the last while, such as 5m [default: all]
    #[arg(long, value_name = "TIME", value_parser = ago)]
    pub since: Option<Duration>,
    /// Show when each line was written, by the clock of its node
    #[arg(long)]
    pub timestamps: bool,
    /// Show standard error only [default: both streams]
    #[arg(long, conflicts_with = "stdout")]
    pub stderr: bool,
    /// Show standard output only [default: both streams]
    #[arg(long)]
    pub stdout: bool,
    /// Show the output of this helper of the task [default: that of its command]
    #[arg(long, value_name = "NAME")]
    pub helper: Option<String>,
}

impl LogShowArguments {
    /// The query for one attempt, as far as these say.
    pub fn query(&self) -> LogQuery {
        let stream = if self.stdout {
            Stream::Stdout
        } else if self.stderr {
            Stream::Stderr
        } else {
            Stream::Unspecified
        };
        LogQuery {
            stream,
            tail_lines: self.tail,
            times: self.timestamps,
            since_ms: self.since.map(|since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
            helper: self.helper.clone().unwrap_or_default(),
            ..LogQuery::default()
        }
    }
}

/// Which attempts of a task are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptChoice {
    /// The last one, and those that follow.
    Last,
    /// Every one that the cell knows, and those that follow.
    All,
    /// The one that ended last, alone.
    Previous,
    /// This one alone.
    Number(u64),
}

impl AttemptChoice {
    /// The number of the attempt, if it has been named.
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Last | Self::All | Self::Previous => None,
        }
    }

    /// Returns true if no attempt after `done` is shown.
    pub fn is_past(self, done: u64) -> bool {
        matches!(self, Self::Number(number) if done >= number)
    }
}

/// An attempt, or several, of each task.
pub(super) fn attempt(text: &str) -> Result<AttemptChoice, String> {
    match (text, text.parse()) {
        ("last", _) => Ok(AttemptChoice::Last),
        ("all", _) => Ok(AttemptChoice::All),
        (_, Ok(number)) if number > 0 => Ok(AttemptChoice::Number(number)),
        _ => Err("accepted: last, all, or the number of an attempt from 1".to_owned()),
    }
}
