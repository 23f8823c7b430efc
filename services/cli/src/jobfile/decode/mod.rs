//! From the tree of a job file to a spec. Every field that cannot be taken is noted; what the model then finds wrong
//! is shown at the place it came from.

mod affinity;
mod constraint;
mod gang;
mod health;
mod job;
mod spread;
mod task;
mod toleration;

use borough_model::Name;
use borough_model::job::{FieldError, JobSpec, Note};

use super::problem::Problem;
use super::reader::{FieldReader, FileItem};
use super::tree::TreeNode;

/// The spec of a tree, checked, with what may surprise; or everything that is wrong, in the order of the file.
pub(super) fn spec_decode(root: &TreeNode, caller: &Name) -> Result<(JobSpec, Vec<Note>), Vec<Problem>> {
    let mut reader = FieldReader::default();
    let item = FileItem { node: root, path: String::new() };
    let spec = job::job_decode(&mut reader, &item, caller);
    let mut problems = std::mem::take(&mut reader.problems);
    // What the fields themselves say wrong would only be repeated by the model, with made-up values.
    let Some(spec) = spec.filter(|_| problems.is_empty()) else {
        problems.sort_by_key(|problem| problem.at);
        return Err(problems);
    };
    match spec.validate() {
        Ok(()) => {
            let notes = spec.notes();
            Ok((spec, notes))
        }
        Err(errors) => {
            problems.extend(errors.iter().map(|error| model_problem(&reader, error)));
            problems.sort_by_key(|problem| problem.at);
            Err(problems)
        }
    }
}

fn model_problem(reader: &FieldReader, error: &FieldError) -> Problem {
    let path = file_path(&error.path);
    let message = format!("{path}: {}; accepted: {}", error.value, error.accepted);
    Problem::at(reader.place(&path), message)
}

/// The path in the file of a field of the model: what has a unit in the file has none in its name.
fn file_path(model_path: &str) -> String {
    const RENAMED: [(&str, &str); 15] = [
        ("drain_delay_ms", "drain_delay"),
        ("lost_after_ms", "lost_after"),
        ("grace_ms", "grace"),
        ("interval_ms", "interval"),
        ("timeout_ms", "timeout"),
        ("failures_max", "failures"),
        ("initial_grace_ms", "initial_grace"),
        ("file_bytes_max", "file_bytes"),
        ("files_max", "files"),
        ("attempts_max", "attempts"),
        ("backoff_initial_ms", "backoff"),
        ("backoff_max_ms", "backoff_max"),
        ("reset_after_ms", "reset_after"),
        ("preference", "prefer"),
        ("notice_max_ms", "notice_max"),
    ];
    let (outer, last) = model_path.rsplit_once('.').unwrap_or(("", model_path));
    let last = RENAMED.iter().find(|(model, _)| *model == last).map_or(last, |(_, file)| file);
    if outer.is_empty() { last.to_owned() } else { format!("{outer}.{last}") }
}
