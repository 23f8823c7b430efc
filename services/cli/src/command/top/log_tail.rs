//! The last lines of a task's output, in bounded memory.

use std::collections::VecDeque;

use super::query::TaskStream;
use crate::output::line_shown;

/// Lines that are kept, and asked for.
pub(super) const LINES_MAX: usize = 500;
/// Bytes of one line that are kept.
const LINE_BYTES_MAX: usize = 2_048;

/// The last lines of both streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OutputTail {
    lines: VecDeque<String>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl OutputTail {
    /// Adds output. Returns how many lines have ended.
    pub(super) fn push(&mut self, stream: TaskStream, data: &[u8]) -> usize {
        let mut ended = 0;
        for &byte in data {
            let partial = self.partial(stream);
            if byte != b'\n' {
                if partial.len() < LINE_BYTES_MAX {
                    partial.push(byte);
                }
                continue;
            }
            let line = std::mem::take(partial);
            self.lines.push_back(line_text(stream, &line));
            ended += 1;
            if self.lines.len() > LINES_MAX {
                self.lines.pop_front();
            }
        }
        ended
    }

    fn partial(&mut self, stream: TaskStream) -> &mut Vec<u8> {
        match stream {
            TaskStream::Stdout => &mut self.stdout,
            TaskStream::Stderr => &mut self.stderr,
        }
    }

    /// The lines, those without an end last.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.lines.iter().cloned().collect();
        for (stream, partial) in [(TaskStream::Stdout, &self.stdout), (TaskStream::Stderr, &self.stderr)] {
            if !partial.is_empty() {
                lines.push(line_text(stream, partial));
            }
        }
        lines
    }
}

/// A line without what a terminal would act on, behind the name of its stream.
fn line_text(stream: TaskStream, line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches('\r').replace('\t', "    ");
    let stream = match stream {
        TaskStream::Stdout => "out",
        TaskStream::Stderr => "err",
    };
    format!("{stream} {}", line_shown(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_streams_are_whole_and_cannot_act_on_the_terminal() {
        let mut tail = OutputTail::default();
        tail.push(TaskStream::Stdout, b"one\ntw");
        tail.push(TaskStream::Stderr, b"oh\x1b[2J\r\n");
        tail.push(TaskStream::Stdout, b"o\nthree");
        assert_eq!(tail.lines(), ["out one", "err oh\\u{1b}[2J", "out two", "out three"]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut tail = OutputTail::default();
        tail.push(TaskStream::Stdout, &vec![b'x'; 10 * LINE_BYTES_MAX]);
        assert_eq!(tail.stdout.len(), LINE_BYTES_MAX);
        let ended: usize = (0..2 * LINES_MAX).map(|_| tail.push(TaskStream::Stdout, b"y\n")).sum();
        assert_eq!(ended, 2 * LINES_MAX);
        assert_eq!((tail.lines.len(), tail.lines()[0].as_str()), (LINES_MAX, "out y"));
    }
}
