//! Log files: `stdout.<n>.log`, and `stdout.log`, a link to the newest. The number of a file is the bytes of the stream
//! before it, so a reader knows how much of the stream was removed. A file ends at the end of a line, unless one line
//! exceeds the limit by more than [`LINE_SLACK_BYTES`]. Beside each is `stdout.<n>.times`, which says when it was
//! written.

mod times;
mod writer;

use std::fs;
use std::path::{Path, PathBuf};

pub use times::{LogTimes, OutputTime, times_path};
pub use writer::{LINE_SLACK_BYTES, LogWriter};

/// Which output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputStream {
    Stdout,
    Stderr,
}

impl OutputStream {
    /// Its form in file names.
    pub fn text(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The path of file `number` of a stream.
pub fn file_path(attempt: &Path, stream: OutputStream, number: u64) -> PathBuf {
    attempt.join(format!("{}.{number}.log", stream.text()))
}

/// The numbers of a stream's files, oldest first.
pub fn file_numbers(attempt: &Path, stream: OutputStream) -> Vec<u64> {
    let prefix = format!("{}.", stream.text());
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix(&prefix)?.strip_suffix(".log")?.parse::<u64>().ok()
    };
    let mut numbers: Vec<u64> =
        fs::read_dir(attempt).into_iter().flatten().flatten().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}
