//! Job files. The definition of a field decides how it is read, checked, described and shown.
//!
//! `#[derive(FileMessage)]` on a struct of the spec lists its fields and reads and checks each by its `kind`, or by the
//! function that the field names. The reader reads the whole file, and reports every invalid field with its place.

mod diff;
mod duration;
mod foreign_field;
mod help;
pub(crate) mod kind;
mod problem;
pub(crate) mod read;
mod reader;
mod schema;
mod suggest;
mod tree;
pub(crate) mod write;

pub use diff::{file_diff, file_value_text};
pub use duration::{duration_ms, duration_text};
pub use help::{FieldHelp, HelpError, field_help};
pub(crate) use help::{field_help_beside, infos_help};
pub(crate) use kind::FieldKind;
pub use problem::{Position, Problem};
pub(crate) use reader::{FieldReader, FileItem, MapFields};
pub use schema::job_file_schema;
use schema::message_schema;
pub(crate) use schema::plain;
pub(crate) use schema::{described, map_schema};
pub use suggest::nearest;
pub use tree::{DEPTH_MAX, NODES_MAX, TreeKey, TreeNode, TreeValue};

use std::collections::BTreeMap;

use serde_json::Value;

use super::validate::DAEMON_COUNT_ACCEPTED;
use super::{ALLOC_COMMAND, JobKind, JobSpec, Note, SpecChange, TaskSpec};
use crate::field_error::{FieldError, FieldErrors};
use crate::id::Name;
use read::kind_read;

/// The definition of one field.
pub struct FieldInfo {
    /// Its name in a job file.
    pub file: &'static str,
    /// Its name in the spec and in errors.
    pub stored: &'static str,
    /// What it is for.
    pub meaning: &'static str,
    /// The accepted values, in Markdown. The meaning, if nothing more is to say.
    pub value: &'static str,
    /// The meaning of its absence, in Markdown.
    pub default: &'static str,
    /// Whether a file must have it.
    pub required: bool,
    /// Whether a file names its inner fields in the outer message.
    pub flatten: bool,
    /// An accepted value other than the default.
    pub example: Option<fn() -> Value>,
    /// The JSON Schema of its values.
    pub schema: fn() -> Value,
    /// The fields of an inner message.
    pub inner: Option<&'static [FieldInfo]>,
}

impl FieldInfo {
    /// Returns true if its accepted values are described beside its meaning. The page describes some fields below.
    fn says_more(&self) -> bool {
        self.value != self.meaning && self.value != "see below"
    }
}

/// A struct of the spec that a job file describes. `#[derive(FileMessage)]` implements it.
pub(crate) trait FileMessage: Sized {
    /// Its fields, in the order of the struct.
    const FIELDS: &'static [FieldInfo];

    /// Sets every field that the file names. `outer` is the map itself, for errors about missing fields.
    fn fields_read(&mut self, reader: &mut FieldReader, outer: &FileItem<'_>, fields: &MapFields<'_>);

    /// Refuses every field that cannot be admitted. `path` is that of the message.
    fn fields_check(&self, errors: &mut FieldErrors, path: &str);

    /// Copies the fields that have this kind of change.
    fn adopt(&mut self, new: &Self, change: SpecChange);

    /// The fields that `job status` shows, with their names. An unset field has an empty text.
    fn status(&self) -> Vec<(&'static str, String)>;
}

/// A message within another, or an optional one.
pub(crate) trait InnerMessage: Sized {
    const FIELDS: &'static [FieldInfo];

    fn schema() -> Value {
        message_schema(Self::FIELDS)
    }

    /// The message with the fields that the file names. Other fields stay as they are.
    fn message_read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<Self>;

    fn message_check(&self, errors: &mut FieldErrors, path: &str);
}

impl<T: FileMessage + Clone> InnerMessage for T {
    const FIELDS: &'static [FieldInfo] = <T as FileMessage>::FIELDS;

    fn message_read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<Self> {
        let fields = reader.fields(item, &file_names(<T as FileMessage>::FIELDS))?;
        let mut message = self.clone();
        message.fields_read(reader, item, &fields);
        Some(message)
    }

    fn message_check(&self, errors: &mut FieldErrors, path: &str) {
        self.fields_check(errors, path);
    }
}

impl<T: FileMessage + Clone + Default> InnerMessage for Option<T> {
    const FIELDS: &'static [FieldInfo] = <T as FileMessage>::FIELDS;

    fn message_read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<Self> {
        self.clone().unwrap_or_default().message_read(reader, item).map(Some)
    }

    fn message_check(&self, errors: &mut FieldErrors, path: &str) {
        if let Some(message) = self {
            message.fields_check(errors, path);
        }
    }
}

/// The text of a value for `job status`; empty: unset.
pub(crate) trait StatusText {
    fn status_text(&self) -> String;
}

impl<T: ToString> StatusText for Option<T> {
    fn status_text(&self) -> String {
        self.as_ref().map(ToString::to_string).unwrap_or_default()
    }
}

impl StatusText for BTreeMap<String, String> {
    fn status_text(&self) -> String {
        let pairs = self.iter().map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(",")
    }
}

/// The fields of a message, with those of flattened inner messages.
pub fn fields_flat(fields: &'static [FieldInfo]) -> Vec<&'static FieldInfo> {
    let inner = |field: &'static FieldInfo| match field.inner {
        Some(inner) if field.flatten => fields_flat(inner),
        _ => vec![field],
    };
    fields.iter().flat_map(inner).collect()
}

/// The accepted keys of a map in a job file.
fn file_names(fields: &'static [FieldInfo]) -> Vec<&'static str> {
    fields_flat(fields).iter().map(|field| field.file).collect()
}

/// The path of a field within a message.
pub(crate) fn path_within(outer: &str, field: &str) -> String {
    if outer.is_empty() { field.to_owned() } else { format!("{outer}.{field}") }
}

impl JobSpec {
    /// The definition of its fields.
    pub fn file_fields() -> &'static [FieldInfo] {
        <Self as FileMessage>::FIELDS
    }

    /// The fields that `job status` shows, with their names. An unset field has an empty text.
    pub fn status_fields(&self) -> Vec<(&'static str, String)> {
        self.status()
    }

    /// The checked spec of a job file, with notes. `caller` is the user of the job if the file names none.
    ///
    /// # Errors
    /// Every problem, in the order of the file.
    pub fn from_file(root: &TreeNode, caller: &Name) -> Result<(Self, Vec<Note>), Vec<Problem>> {
        let mut reader = FieldReader::default();
        let spec = spec_read(&mut reader, &FileItem { node: root, path: String::new() }, caller);
        let mut problems = std::mem::take(&mut reader.problems);
        // The spec has stand-ins in place of what could not be read: they hide no other error, and make none.
        let errors = spec.as_ref().and_then(|spec| spec.validate_beside(&reader.unread).err());
        problems.extend(errors.iter().flatten().filter_map(|error| check_problem(&reader, error)));
        if let Some(spec) = spec.filter(|_| problems.is_empty()) {
            let notes = spec.notes();
            return Ok((spec, notes));
        }
        problems.sort_by_key(|problem| problem.at);
        Err(problems)
    }
}

fn spec_read(reader: &mut FieldReader, root: &FileItem<'_>, caller: &Name) -> Option<JobSpec> {
    let fields = reader.fields(root, &file_names(<JobSpec as FileMessage>::FIELDS))?;
    // Defaults of other fields depend on the kind. The name of the caller replaces a missing or invalid one.
    let kind = fields.get("kind").and_then(|item| kind_read(reader, &item));
    let kind = kind.unwrap_or(JobKind::Service);
    let mut spec = JobSpec::initial(caller.clone(), caller.clone(), kind, TaskSpec::of(Vec::new()));
    if kind == JobKind::AllocSet {
        reader.optional(&["task", "task.command"]);
        spec.task.command = ALLOC_COMMAND.map(str::to_owned).to_vec();
    }
    spec.fields_read(reader, root, &fields);
    let named = fields.get("count").filter(|_| kind == JobKind::Daemon && spec.count == 0);
    // Another count is refused by the check.
    if let Some(count) = named.filter(|_| !reader.unread.covers("count")) {
        reader.refuse(&count, DAEMON_COUNT_ACCEPTED);
    }
    Some(spec)
}

/// The problem of a field that was read.
pub(crate) fn check_problem(reader: &FieldReader, error: &FieldError) -> Option<Problem> {
    let of_spec = file_path(reader, &error.path);
    let path = reader.shown(&of_spec);
    if reader.unread.covers(&of_spec) || reader.unread.covers(&path) || is_inherited(reader, &path) {
        return None;
    }
    let accepted = &error.accepted;
    let message = match reader.written(&path) {
        // A delay or an amount is shown as its author wrote it, and not in the unit of the store.
        Some(written) if is_measured(&error.path) => format!("{path}: {written}; accepted: {accepted}"),
        _ => format!("{path}: {}; accepted: {accepted}", error.value),
    };
    Some(Problem::at(reader.place(&path), message))
}

/// Returns true for an amount that an index or a role does not name. It has that of the task, which is refused there.
fn is_inherited(reader: &FieldReader, path: &str) -> bool {
    let Some((owner, amount)) = path.split_once(".resources.") else { return false };
    let is_written = |path: &str| reader.written(path).is_some();
    owner != "task" && !is_written(path) && is_written(&format!("task.resources.{amount}"))
}

/// Returns true if the field of the spec has a unit.
fn is_measured(path: &str) -> bool {
    let ends = |end: &&str| path.ends_with(*end);
    path.contains("resources.") || ["_ms", "_bytes", ".cpu", ".memory"].iter().any(ends)
}

/// The path in the file of a field of the spec. A field of the file has no unit in its name.
fn file_path(reader: &FieldReader, path: &str) -> String {
    /// Fields of messages that are read by hand.
    const RENAMED: [(&str, &str); 10] = [
        ("deadline_ms", "deadline"),
        ("interval_ms", "interval"),
        ("timeout_ms", "timeout"),
        ("ttl_ms", "ttl"),
        ("failures_max", "failures"),
        ("initial_grace_ms", "initial_grace"),
        ("preference", "prefer"),
        ("evict_after_ms", "evict_after"),
        ("key", "taint"),
        ("memory_bytes_min", "memory"),
    ];
    let mut known = Some(<JobSpec as FileMessage>::FIELDS);
    let mut named: Vec<String> = Vec::new();
    for segment in path.split('.') {
        let (name, index) = segment.split_at(segment.find('[').unwrap_or(segment.len()));
        let field = known.into_iter().flat_map(fields_flat).find(|field| field.stored == name);
        let by_hand = RENAMED.iter().find(|(stored, _)| *stored == name).map(|(_, file)| *file);
        let file =
            field.map(|field| field.file).or_else(|| by_hand.filter(|_| !named.is_empty())).unwrap_or(name);
        let part = if named.is_empty() { reader.part_fields(name) } else { None };
        named.push(format!("{file}{index}"));
        known = field.and_then(|field| field.inner).or(part);
    }
    named.join(".")
}
