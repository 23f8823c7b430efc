//! All output of the program. Answers go to standard output as tables, JSON or YAML. Progress, remarks and errors go to
//! standard error, so that answers can be piped.
//!
//! JSON is stable: objects of the types in the modules here, in snake_case, with units in their names. A list is one
//! JSON list; a stream is one object per line.

mod audit;
mod auth;
mod cell;
mod changes;
mod confirm;
mod context;
mod daemon;
mod dry_run;
mod ended;
mod event;
mod explain;
mod federated;
mod field;
mod fit;
mod foreign;
mod helper;
mod job;
mod job_version;
mod join;
mod list;
mod log;
mod member;
mod merged;
mod name;
mod node;
mod progress;
mod quota;
mod rolled_version;
mod rollout;
mod store;
mod stuck;
mod table;
mod task;
mod text;
mod watch;

pub(crate) use audit::{AuditChainView, AuditedCallView};
pub(crate) use auth::{
    AccessAnswerView, CertificateView, GrantChangeView, GrantView, HolderView, IdentityKeyView, RightView,
    RoleView,
};
pub(crate) use cell::CellOutput;
pub(crate) use changes::{PlanView, changes_text};
pub(crate) use confirm::{Preset, is_attended};
pub(crate) use context::ContextView;
pub(crate) use daemon::nodes_text;
pub(crate) use dry_run::DryRunView;
pub(crate) use ended::ExitView;
pub(crate) use event::{ChangeView, EventView};
pub(crate) use explain::{ExplanationView, VictimView, explanations_text, victims_text};
pub(crate) use federated::federation_named;
pub(crate) use federated::{
    CellCauseView, FederatedEnd, FederatedJobView, FederatedPlanView, FederatedProgress,
    FederatedVersionView, Judged, TakenBack, causes_text, federated_changes,
};
pub(crate) use field::{field_text, field_tree};
pub(crate) use foreign::{Foreign, line_shown};
pub(crate) use job::{JobStatusView, JobView, LeftTaskView, PurgedView, RestartedView, SpecView};
pub(crate) use job_version::{JobVersionView, spec_changes, version_changes_since};
pub(crate) use join::NodeJoinView;
pub(crate) use list::ListOutput;
pub(crate) use log::{LogLines, LogOutput, LogStyle};
pub(crate) use member::MemberView;
pub(crate) use merged::{MergedServiceView, MergedStatusView};
pub(crate) use name::{EndpointChangeView, EndpointView};
pub(crate) use node::{NodeOutput, NodeStatusView, TaintView};
pub(crate) use progress::Progress;
pub(crate) use quota::{QuotaChangeView, QuotaView, band_word};
pub(crate) use rolled_version::RolledVersionView;
pub(crate) use rollout::{
    RolloutOutput, RolloutStatusView, canaries_text, failed_index, healthy_after_ms, healthy_of,
    leaving_text, skipped_text, surge_waits_text,
};
pub(crate) use store::{
    CellCheckView, OperationStats, StoreBenchView, StoreCheckView, StoreExportView, StoreImportView,
    StoreLossView, ViolationView,
};
pub(crate) use stuck::end_when_stuck;
pub(crate) use table::{Tabular, table};
pub(crate) use task::{SilentNodeView, TaskOutput, TaskStatusView};
pub(crate) use text::{bytes, labels_text, ranges, tally, time, word};
pub(crate) use watch::{WatchedList, WatchedStatus};

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd;

use borough_kv::env::SystemClock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use self::foreign::{json_shown, lines_shown, painted_shown};
use crate::args::{Global, OutputFormat, TypedOptions};
use crate::exit::{Code, Failure};

/// Prints answers, remarks and errors.
pub(crate) struct Printer {
    format: OutputFormat,
    quiet: bool,
    color: bool,
    /// Whether lines of tasks on standard error have colours.
    color_error: bool,
    /// Whether progress moves on a terminal.
    moving: bool,
    /// The options that the commands in remarks and hints take over.
    typed: TypedOptions,
}

impl Printer {
    pub(crate) fn new(global: &Global, typed: TypedOptions) -> Self {
        let refused = global.no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let color = !refused && io::stdout().is_terminal();
        let color_error = !refused && io::stderr().is_terminal();
        Self { format: global.output, quiet: global.quiet, color, color_error, moving: true, typed }
    }

    /// For a command line that cannot be read, and so says nothing about output.
    pub(crate) fn errors_only(typed: TypedOptions) -> Self {
        let format = OutputFormat::Table;
        Self { format, quiet: false, color: false, color_error: false, moving: true, typed }
    }

    /// The same, for several waits at a time: each writes its progress as lines.
    pub(crate) fn without_motion(&self) -> Self {
        Self { moving: false, typed: self.typed.clone(), ..*self }
    }

    /// Fails as the next answer would if its reader has closed the pipe: a watch may have none for hours.
    pub(crate) fn reader_check(&self) -> Result<(), Failure> {
        if is_abandoned(io::stdout()) { Err(Failure::new(Code::Done, "")) } else { Ok(()) }
    }

    /// Returns true if answers are for programs.
    pub(crate) fn is_machine(&self) -> bool {
        matches!(self.format, OutputFormat::Json | OutputFormat::Yaml)
    }

    /// Returns true if answers may have colours.
    pub(crate) fn is_colored(&self) -> bool {
        self.color
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    fn style(&self) -> Style {
        let wide = self.format == OutputFormat::Wide;
        // Who asks for all columns gets them.
        let columns = watch::columns().filter(|_| !wide);
        Style { wide, color: self.color, columns, now_ms: Some(SystemClock::shared().wall_ms()) }
    }

    /// A list: a table, or a list of objects. A table without rows says `none`.
    pub(crate) fn list<T: Tabular + Serialize>(&self, rows: &[T], none: &str) -> Result<(), Failure> {
        match self.format {
            OutputFormat::Table | OutputFormat::Wide => {
                if rows.is_empty() {
                    self.remark(none);
                    return Ok(());
                }
                self.text(&table(rows, &self.style()))
            }
            OutputFormat::Json | OutputFormat::Yaml => self.object(&rows),
        }
    }

    /// One object for programs; `text` formats it for people.
    pub(crate) fn one<T: Serialize>(
        &self,
        object: &T,
        text: impl FnOnce(&T, &Style) -> String,
    ) -> Result<(), Failure> {
        match self.format {
            OutputFormat::Table | OutputFormat::Wide => self.answer(&text(object, &self.style())),
            OutputFormat::Json | OutputFormat::Yaml => self.object(object),
        }
    }

    /// One item of a stream: a line for people, an object on one line (or a YAML document) for programs.
    pub(crate) fn item<T: Serialize>(
        &self,
        object: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        match self.format {
            OutputFormat::Table | OutputFormat::Wide => self.answer(&text(object)),
            OutputFormat::Json => self.machine(&json(object, JsonLayout::Line)?),
            OutputFormat::Yaml => self.machine(&format!("---\n{}", yaml(object)?)),
        }
    }

    fn object<T: Serialize>(&self, object: &T) -> Result<(), Failure> {
        match self.format {
            OutputFormat::Yaml => self.machine(&yaml(object)?),
            _ => self.machine(&json(object, JsonLayout::Indented)?),
        }
    }

    /// Text to standard output, ended with one line end. Only our own colours reach the terminal as escapes.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        if self.color { self.machine(&painted_shown(text)) } else { self.machine(&lines_shown(text)) }
    }

    /// An answer for people, the commands in which keep the options of the line.
    pub(crate) fn answer(&self, text: &str) -> Result<(), Failure> {
        self.text(&self.typed.completed_answer(text))
    }

    /// JSON, YAML, or escaped text to standard output, ended with one line end.
    fn machine(&self, text: &str) -> Result<(), Failure> {
        self.bytes(format!("{}\n", text.trim_end_matches('\n')).as_bytes())
    }

    /// The greeting of a role. A failure to write it does not end the role.
    pub(crate) fn greeting(&self, text: &str) {
        if let Err(failure) = self.text(text) {
            tracing::warn!(reason = failure.message(), "the greeting cannot be written");
        }
    }

    /// Bytes of a task or command to standard output, unchanged. They reach the caller's terminal as they are, as with
    /// `kubectl logs` and `ssh`.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let _write = stuck::OutputWrite::begin();
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(write_failure)
    }

    /// Bytes of a task to standard error, unchanged.
    pub(crate) fn error_bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let _write = stuck::OutputWrite::begin();
        let mut out = io::stderr().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(write_failure)
    }

    /// A remark for people, on standard error; none with `--quiet`.
    pub(crate) fn remark(&self, text: &str) {
        if !self.quiet {
            self.stderr_line(&self.typed.completed(text));
        }
    }

    /// A failure: one clear line, then its details.
    pub(crate) fn failure(&self, failure: &Failure) {
        // An empty message: the reader of standard output has closed the pipe.
        if failure.message().is_empty() {
            return;
        }
        // Further lines of one message are indented, so that none looks like one of ours.
        let message = self.typed.completed_error(failure.message());
        self.stderr_line(&format!("error: {}", message.replace('\n', "\n  ")));
        for detail in failure.details() {
            // What a task has written is indented, and stays as it is.
            let is_own = !detail.starts_with("  ");
            let own = if is_own { self.typed.completed(detail) } else { detail.clone() };
            self.stderr_line(&format!("  {}", line_shown(&own)));
        }
        if let Some(hint) = failure.hint() {
            self.stderr_line(&format!("hint: {}", self.typed.completed(hint)));
        }
    }

    fn stderr_line(&self, text: &str) {
        // If standard error is closed, the error cannot be reported.
        let _written = writeln!(io::stderr().lock(), "{}", lines_shown(text));
    }
}

/// The style of text for people.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    pub(crate) wide: bool,
    pub(crate) color: bool,
    /// The width of the terminal that shows it; absent: there is no limit.
    pub(crate) columns: Option<usize>,
    /// The present time, for ages; absent: times are shown without them.
    pub(crate) now_ms: Option<i64>,
}

impl Style {
    /// A time with how long ago that is: `2026-11-27T23:25:00Z, 5m ago`.
    pub(crate) fn time(self, ms: i64) -> String {
        let now_ms = self.now_ms.filter(|now_ms| ms > 0 && *now_ms >= ms);
        let ago = now_ms
            .map(|now_ms| format!(", {} ago", text::age(now_ms.saturating_sub(ms))))
            .unwrap_or_default();
        format!("{}{ago}", time(ms))
    }

    /// `text` in an ANSI colour, if colours are on.
    pub(crate) fn paint(self, text: &str, ansi: u8) -> String {
        if self.color { format!("\x1b[{ansi}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// How an object is laid out as JSON.
#[derive(Clone, Copy)]
enum JsonLayout {
    /// On one line, as an item of a stream.
    Line,
    Indented,
}

fn json<T: Serialize>(object: &T, layout: JsonLayout) -> Result<String, Failure> {
    let text = match layout {
        JsonLayout::Line => serde_json::to_string(object),
        JsonLayout::Indented => serde_json::to_string_pretty(object),
    };
    let text = text
        .map_err(|error| Failure::new(Code::Failed, format!("cannot write the answer as JSON: {error}")))?;
    Ok(json_shown(&text).into_owned())
}

/// YAML. If it contained active characters, the same value as JSON, which is YAML too and escapes them.
fn yaml<T: Serialize>(object: &T) -> Result<String, Failure> {
    let text = serde_saphyr::to_string(object)
        .map_err(|error| Failure::new(Code::Failed, format!("cannot write the answer as YAML: {error}")))?;
    if lines_shown(&text) == text { Ok(text) } else { json(object, JsonLayout::Indented) }
}

/// Returns true if nobody reads this pipe any more. A file always has a reader.
fn is_abandoned(output: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&output, PollFlags::empty())];
    let answer = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    let [polled] = polled;
    answer.is_ok() && polled.revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// A reader that closes the pipe early (`| head`) ends the program silently.
fn write_failure(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(Code::Done, ""),
        _ => Failure::new(Code::Failed, format!("cannot write the answer: {error}")),
    }
}

#[cfg(test)]
mod foreign_tests;
#[cfg(test)]
mod tests;
