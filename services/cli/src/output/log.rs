//! Output of tasks among that of other tasks: whole lines, each under the name of its task.

use borough_client::TaskRef;
use borough_proto::v1::LogTime;
use serde::Serialize;

use super::foreign::json_shown;
use super::text::time_exact;
use super::{Printer, yaml};
use crate::args::OutputFormat;

/// Bytes after which a line is shown in parts.
const LINE_BYTES_MAX: usize = 16 * 1024;
/// The colours of tasks, one after the other. Red is for errors.
const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 96];

/// One of a task's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogOutput {
    Stdout,
    Stderr,
}

/// A line as an object.
#[derive(Serialize)]
struct LogLineView<'a> {
    user: &'a str,
    job: &'a str,
    index: u32,
    attempt: u64,
    stream: LogOutput,
    /// When it was written, in milliseconds since 1970; null if that is not asked for, or not known.
    at_ms: Option<i64>,
    text: &'a str,
}

/// What a line of output becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineForm {
    /// The line, behind the name of its task.
    Text,
    /// An object in a line of its own.
    Json,
    /// A YAML document, as in each stream.
    Yaml,
}

/// How lines of many tasks are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogStyle {
    /// Whether lines of standard output, and of standard error, have colours.
    pub(super) colors: [bool; 2],
    pub(super) form: LineForm,
    /// Columns of the longest index.
    pub(super) width: usize,
    /// Whether each line has the time at which it was written.
    pub(super) times: bool,
    /// Whether each line has the name of its task.
    pub(super) named: bool,
    /// Whether that name has the number of the attempt.
    pub(super) attempts: bool,
}

impl LogStyle {
    /// The style for a job of `count` tasks.
    pub(crate) fn new(printer: &Printer, count: u32) -> Self {
        let width = count.saturating_sub(1).to_string().len();
        let colors = [printer.color, printer.color_error];
        let form = match printer.format {
            OutputFormat::Table | OutputFormat::Wide => LineForm::Text,
            OutputFormat::Json => LineForm::Json,
            OutputFormat::Yaml => LineForm::Yaml,
        };
        Self { colors, form, width, times: false, named: true, attempts: false }
    }

    /// The style for the lines of one task, which need no name.
    pub(crate) fn of_one(printer: &Printer) -> Self {
        Self { named: false, ..Self::new(printer, 0) }
    }

    /// The same with the time of each line.
    pub(crate) fn with_times(self) -> Self {
        Self { times: true, ..self }
    }

    /// The same with the number of each line's attempt.
    pub(crate) fn with_attempts(self) -> Self {
        Self { attempts: true, ..self }
    }

    /// Returns true if lines are objects.
    pub(crate) fn is_object(&self) -> bool {
        self.form != LineForm::Text
    }
}

/// Cuts the output of one attempt into lines. A line that is not complete waits for its rest.
#[derive(Debug)]
pub(crate) struct LogLines {
    task: TaskRef,
    attempt: u64,
    style: LogStyle,
    rests: [LineRest; 2],
}

/// A line that is not complete.
#[derive(Debug, Default)]
struct LineRest {
    text: Vec<u8>,
    /// When its first byte was written, if that is known.
    at_ms: Option<i64>,
}

impl LogLines {
    pub(crate) fn new(task: TaskRef, attempt: u64, style: LogStyle) -> Self {
        Self { task, attempt, style, rests: [LineRest::default(), LineRest::default()] }
    }

    /// The lines that are complete with `data`, ready to be written. `times` says when its bytes were written.
    pub(crate) fn add(&mut self, stream: LogOutput, data: &[u8], times: &[LogTime]) -> Vec<u8> {
        let (mut shown, mut rest) = (Vec::new(), std::mem::take(&mut self.rests[place(stream)]));
        let mut begin = 0_usize;
        for piece in data.split_inclusive(|&byte| byte == b'\n') {
            if rest.text.is_empty() {
                rest.at_ms = time_at(times, begin);
            }
            begin = begin.saturating_add(piece.len());
            rest.text.extend_from_slice(piece);
            if rest.text.ends_with(b"\n") || rest.text.len() >= LINE_BYTES_MAX {
                self.line(stream, &rest, &mut shown);
                rest.text.clear();
            }
        }
        self.rests[place(stream)] = rest;
        shown
    }

    /// The last line of a stream, if no line end closes it.
    pub(crate) fn end(&mut self, stream: LogOutput) -> Vec<u8> {
        let (mut shown, rest) = (Vec::new(), std::mem::take(&mut self.rests[place(stream)]));
        if !rest.text.is_empty() {
            self.line(stream, &rest, &mut shown);
        }
        shown
    }

    fn line(&self, stream: LogOutput, line: &LineRest, shown: &mut Vec<u8>) {
        let (line, at_ms) = (line.text.as_slice(), line.at_ms);
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if self.style.is_object() {
            let text = String::from_utf8_lossy(line);
            let view = LogLineView {
                user: &self.task.job.user,
                job: &self.task.job.name,
                index: self.task.index,
                attempt: self.attempt,
                stream,
                at_ms,
                text: &text,
            };
            // Plain data can always be written.
            let json = || serde_json::to_string(&view).unwrap_or_default();
            let object = match self.style.form {
                LineForm::Yaml => yaml(&view).ok().map(|text| format!("---\n{}", text.trim_end())),
                _ => None,
            };
            let object = object.unwrap_or_else(|| json_shown(&json()).into_owned());
            shown.extend_from_slice(object.as_bytes());
        } else {
            if self.style.named {
                shown.extend_from_slice(self.name(stream).as_bytes());
            }
            if self.style.times {
                let time = at_ms.map_or_else(|| "-".to_owned(), time_exact);
                shown.extend_from_slice(format!("{time} ").as_bytes());
            }
            shown.extend_from_slice(line);
        }
        shown.push(b'\n');
    }
}

impl LogLines {
    /// The name of the task before its line.
    fn name(&self, stream: LogOutput) -> String {
        let TaskRef { job, index } = &self.task;
        let attempt = if self.style.attempts { format!(" attempt {}", self.attempt) } else { String::new() };
        let name = format!("{}/{index:<width$}{attempt} |", job.name, width = self.style.width);
        if !self.style.colors[place(stream)] {
            return format!("{name} ");
        }
        let color = COLOURS.get(usize::try_from(*index).unwrap_or(0) % COLOURS.len()).unwrap_or(&36);
        // Begins with a reset, so that no colour of another task's line goes on.
        format!("\x1b[0;{color}m{name}\x1b[0m ")
    }
}

/// When the byte at `at` was written: as the last of `times` before it says.
fn time_at(times: &[LogTime], at: usize) -> Option<i64> {
    let before = |time: &&LogTime| usize::try_from(time.at).is_ok_and(|of| of <= at);
    times.iter().rev().find(before).map(|time| time.ms)
}

fn place(stream: LogOutput) -> usize {
    usize::from(stream == LogOutput::Stderr)
}

#[cfg(test)]
mod tests {
    use borough_client::JobRef;
    use proptest::prelude::*;

    use super::*;

    fn lines(index: u32, style: LogStyle) -> LogLines {
        LogLines::new(TaskRef { job: JobRef::new("ann", "web"), index }, 2, style)
    }

    const PLAIN: LogStyle = LogStyle {
        colors: [false, false],
        form: LineForm::Text,
        width: 2,
        times: false,
        named: true,
        attempts: false,
    };

    #[test]
    fn lines_are_whole_and_named() {
        let mut of = lines(3, PLAIN);
        assert_eq!(of.add(LogOutput::Stdout, b"one\ntw", &[]), b"web/3  | one\n");
        assert_eq!(of.add(LogOutput::Stderr, b"bad\n", &[]), b"web/3  | bad\n", "the streams are apart");
        assert_eq!(of.add(LogOutput::Stdout, b"o\n\nthree", &[]), b"web/3  | two\nweb/3  | \n");
        assert_eq!(of.end(LogOutput::Stdout), b"web/3  | three\n");
        assert_eq!(of.end(LogOutput::Stdout), b"");
        let mut colored = lines(1, LogStyle { colors: [true, false], ..PLAIN });
        assert_eq!(colored.add(LogOutput::Stdout, b"a\n", &[]), b"\x1b[0;33mweb/1  |\x1b[0m a\n");
        assert_eq!(colored.add(LogOutput::Stderr, b"a\n", &[]), b"web/1  | a\n", "its stream is no terminal");
        let mut numbered = lines(1, LogStyle { attempts: true, ..PLAIN });
        let shown = String::from_utf8(numbered.add(LogOutput::Stdout, b"a\n", &[])).unwrap();
        assert!(shown.contains("/1  attempt ") && shown.ends_with(" | a\n"), "{shown}");
        let mut object = lines(1, LogStyle { form: LineForm::Json, ..PLAIN });
        let expected = r#"{"user":"ann","job":"web","index":1,"attempt":2,"stream":"stderr","at_ms":null,"text":"a\u001b"}"#;
        assert_eq!(object.add(LogOutput::Stderr, b"a\x1b\n", &[]), format!("{expected}\n").as_bytes());
        let mut document = lines(1, LogStyle { form: LineForm::Yaml, ..PLAIN });
        let text = String::from_utf8(document.add(LogOutput::Stdout, b"a: b\nc\n", &[])).unwrap();
        let documents: Vec<&str> = text.split("---\n").skip(1).collect();
        assert_eq!(documents.len(), 2, "{text}");
        assert!(documents[0].starts_with("user: ann\njob: web\nindex: 1\nattempt: 2\n"), "{text}");
        let value: serde_json::Value = serde_saphyr::from_str(documents[0]).unwrap();
        assert_eq!(value["text"], "a: b");
    }

    #[test]
    fn a_line_has_the_time_of_its_first_byte() {
        let mut of = lines(0, LogStyle { times: true, ..PLAIN });
        let time = |at, ms| LogTime { at, ms };
        let times = [time(0, 1_000), time(6, 2_345)];
        assert_eq!(
            of.add(LogOutput::Stdout, b"one\ntwo", &times),
            b"web/0  | 1970-01-01T00:00:01.000Z one\n"
        );
        let shown = of.add(LogOutput::Stdout, b"!\nsix\n", &[time(0, 3_000)]);
        let expected = "web/0  | 1970-01-01T00:00:01.000Z two!\nweb/0  | 1970-01-01T00:00:03.000Z six\n";
        assert_eq!(String::from_utf8(shown).unwrap(), expected);
        assert_eq!(of.add(LogOutput::Stderr, b"x\n", &[]), b"web/0  | - x\n", "an older node has no times");
        let mut alone = lines(0, LogStyle { times: true, named: false, ..PLAIN });
        assert_eq!(alone.add(LogOutput::Stdout, b"a\n", &times), b"1970-01-01T00:00:01.000Z a\n");
        let mut object = lines(1, LogStyle { form: LineForm::Json, times: true, ..PLAIN });
        let shown = String::from_utf8(object.add(LogOutput::Stdout, b"a\n", &times)).unwrap();
        assert!(shown.contains(r#""at_ms":1000"#), "{shown}");
    }

    proptest! {
        #[test]
        fn however_it_is_cut_each_line_is_shown_once(text in "[a-c\n]{0,60}", cuts in prop::collection::vec(1_usize..9, 1..30)) {
            let (mut of, mut shown, mut rest) = (lines(0, PLAIN), Vec::new(), text.as_bytes());
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*cut));
                shown.extend(of.add(LogOutput::Stdout, now, &[]));
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            shown.extend(of.end(LogOutput::Stdout));
            let expected: String = text.lines().map(|line| format!("web/0  | {line}\n")).collect();
            prop_assert_eq!(String::from_utf8(shown).unwrap(), expected);
        }
    }

    #[test]
    fn an_endless_line_is_shown_in_parts() {
        let mut of = lines(0, PLAIN);
        let shown = of.add(LogOutput::Stdout, &vec![b'x'; LINE_BYTES_MAX], &[]);
        assert_eq!(shown.iter().filter(|&&byte| byte == b'\n').count(), 1);
        assert!(of.rests[0].text.is_empty());
    }
}
