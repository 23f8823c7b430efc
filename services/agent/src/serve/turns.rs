//! Reads the streams of an attempt in turn: none waits until another one has no more.

use std::io;
use std::path::Path;

use borough_shim::log::OutputStream;

use super::tail::{LogPart, LogTail};

/// The readers of the streams, one part of each after the other.
#[derive(Debug)]
pub(super) struct LogTurns {
    tails: Vec<LogTail>,
    /// The reader with the next turn.
    next: usize,
}

impl LogTurns {
    pub(super) fn new(tails: Vec<LogTail>) -> Self {
        Self { tails, next: 0 }
    }

    /// The next part, of the stream with the turn or the first behind it that has one. `None` if none has any now.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn read(&mut self, attempt: &Path) -> io::Result<Option<(OutputStream, LogPart)>> {
        for _ in 0..self.tails.len() {
            let (at, count) = (self.next, self.tails.len());
            self.next = at.saturating_add(1) % count;
            let Some(tail) = self.tails.get_mut(at) else { break };
            if let Some(part) = tail.read(attempt)? {
                return Ok(Some((tail.stream(), part)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use borough_shim::log::LogWriter;
    use borough_shim::spec::LogLimits;

    use super::super::tail::LogStart;
    use super::*;

    #[test]
    fn a_stream_that_is_written_all_the_time_leaves_the_other_its_turns() {
        let dir = tempfile::tempdir().unwrap();
        let limits = LogLimits { file_bytes_max: 1 << 20, files_max: 2 };
        let writer = |stream| LogWriter::new(dir.path().to_owned(), stream, limits);
        let (mut out, mut err) = (writer(OutputStream::Stdout), writer(OutputStream::Stderr));
        let streams = [OutputStream::Stdout, OutputStream::Stderr];
        let tails = streams.map(|stream| LogTail::new(dir.path(), stream, LogStart::Oldest, 4));
        let mut turns = LogTurns::new(tails.into());
        assert_eq!(turns.read(dir.path()).unwrap(), None);
        err.append(b"e1\ne2\ne3\n");
        // Standard output never has no more.
        let mut seen = Vec::new();
        for _ in 0..6 {
            out.append(b"outputoutput");
            let (stream, part) = turns.read(dir.path()).unwrap().unwrap();
            seen.push((stream, part.data.len()));
        }
        let (of_out, of_err) = (OutputStream::Stdout, OutputStream::Stderr);
        assert_eq!(seen, [(of_out, 4), (of_err, 4), (of_out, 4), (of_err, 4), (of_out, 4), (of_err, 1)]);
        // A stream without output costs the other nothing.
        out.append(b"o");
        assert_eq!(turns.read(dir.path()).unwrap().unwrap().0, OutputStream::Stdout);
        assert_eq!(turns.read(dir.path()).unwrap().unwrap().0, OutputStream::Stdout);
    }
}
