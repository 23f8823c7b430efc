//! What the verbs on output share.

use std::time::Duration;

use borough_client::LogQuery;
use borough_proto::v1::read_logs_request::Stream;
use clap::Args;

use super::number::delay;

/// Which part of the output is shown, and how: of `task logs` and `job logs`.
#[derive(Clone, Copy, Debug, Args)]
pub struct LogShowArguments {
    /// Show only this many lines from the end of each task [default: all]
    #[arg(long, value_name = "LINES")]
    pub tail: Option<u32>,
    /// Show only what was written in the last while, such as 5m [default: all]
    #[arg(long, value_name = "TIME", value_parser = delay)]
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
            ..LogQuery::default()
        }
    }
}
