//! Job files: YAML, JSON and Jsonnet, read into one tree with places. The model makes the spec of it.
//!
//! All problems of a file are reported at once. Jsonnet is evaluated in a bounded process of its own.

mod json;
mod jsonnet;
mod problem;
mod starter;
mod written;
mod yaml;

#[cfg(test)]
mod tests;

pub use jsonnet::evaluate;
pub use problem::{EmptyContent, JobFileError};
pub(crate) use problem::{named as file_named, shown as path_shown};
pub use starter::{StarterKind, starter, starter_json, starter_of};
pub(crate) use written::{job_text, overrides_gone};

use std::io::Read as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use borough_model::Name;
use borough_model::federation::FederatedJob;
use borough_model::job::file::{Position, Problem, TreeNode, TreeValue, field_help, nearest};
use borough_model::job::{JobSpec, Note};
use borough_scheduler_core::ScoringProfile;

/// Most bytes of a job file.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a job file is read with.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Whose the job is where the file does not say.
    pub caller: Name,
    /// `std.extVar` of Jsonnet.
    pub ext_str: Vec<(String, String)>,
    /// Arguments of a Jsonnet function.
    pub tla_str: Vec<(String, String)>,
    /// The `borough` program, which evaluates Jsonnet in a process of its own.
    pub evaluator: PathBuf,
}

/// A job as its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedFile {
    /// The rendered spec: what is sent and stored.
    pub spec: JobSpec,
    /// What is accepted but may surprise.
    pub notes: Vec<Note>,
    /// What the file says, with its places.
    tree: TreeNode,
}

impl LoadedFile {
    /// A line of a refusal by a gateway, such as `spec.queue: …`, with the place in the file instead of the request's
    /// field. What the model of a job refuses begins with the field alone.
    pub(crate) fn line_placed(&self, path: &Path, line: &str) -> Option<String> {
        let plain = line.strip_prefix("spec.").unwrap_or(line);
        let (field, _) = plain.split_once(": ")?;
        let is_field = plain.len() < line.len() || field_help(field).is_ok();
        is_field.then(|| format!("{}: {plain}", self.place_shown(path, field)))
    }

    /// The file, with the line and the column of a field if they are known.
    pub(crate) fn place_shown(&self, path: &Path, field: &str) -> String {
        match field_place(&self.tree, field) {
            Some(at) => format!("{}:{}:{}", file_named(path), at.line, at.column),
            None => file_named(path),
        }
    }
}

/// The place of a field such as `task.ports[0].number`, or of the nearest one around it that the file has.
fn field_place(tree: &TreeNode, field: &str) -> Option<Position> {
    let mut node = tree;
    for part in field.split(['.', '[', ']']).filter(|part| !part.is_empty()) {
        let within = match &node.value {
            TreeValue::Map(entries) => {
                let key = part.trim_matches('"');
                entries.iter().find(|(known, _)| known.text == key).map(|(_, node)| node)
            }
            TreeValue::List(items) => part.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        match within {
            Some(within) => node = within,
            None => break,
        }
    }
    node.at
}

/// Reads, renders and checks the job file `path`; `-` is YAML on standard input.
///
/// # Errors
/// See [`JobFileError`]; everything that is wrong with the file, at once where that can be told.
pub async fn load(path: &Path, options: &LoadOptions) -> Result<LoadedFile, JobFileError> {
    let tree = tree_read(path, options).await?;
    let (spec, notes) = profile_checked(path, &tree, JobSpec::from_file(&tree, &options.caller))?;
    Ok(LoadedFile { spec, notes, tree })
}

/// A federated job as its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedFederated {
    pub job: FederatedJob,
    /// What is accepted but may surprise.
    pub notes: Vec<Note>,
}

/// Reads, renders and checks the job file `path` of a federated job, as [`load`] does.
///
/// # Errors
/// As of [`load`].
pub async fn load_federated(path: &Path, options: &LoadOptions) -> Result<LoadedFederated, JobFileError> {
    let tree = tree_read(path, options).await?;
    let (job, notes) = profile_checked(path, &tree, FederatedJob::from_file(&tree, &options.caller))?;
    Ok(LoadedFederated { job, notes })
}

/// A federated job as its home keeps it, in JSON; absent: this program cannot read it.
pub(crate) fn federated_read(text: &str, caller: &str) -> Option<FederatedJob> {
    let (tree, caller) = (json::json_read(text).ok()?, Name::new(caller).ok()?);
    FederatedJob::from_file(&tree, &caller).ok().map(|(job, _)| job)
}

/// What was read of a file, or all its problems with that of a scoring profile that no scheduler knows.
fn profile_checked<T>(
    path: &Path,
    tree: &TreeNode,
    read: Result<T, Vec<Problem>>,
) -> Result<T, JobFileError> {
    match (profile_problem(tree), read) {
        (None, Ok(value)) => Ok(value),
        (unknown, read) => {
            let mut problems = without_echoes(read.err().unwrap_or_default());
            problems.extend(unknown);
            problems.sort_by_key(|problem| problem.at);
            Err(JobFileError::Problems { path: path.to_owned(), problems })
        }
    }
}

/// Leaves out that a name stands twice if the file has that as a key twice: it is one mistake.
fn without_echoes(mut problems: Vec<Problem>) -> Vec<Problem> {
    let twice = |problem: &Problem| {
        let rest = problem.message.strip_prefix("field \"")?;
        rest.split_once("\" stands twice")
            .map(|(name, _)| format!("[{name:?}]: {name:?}; accepted: each name once"))
    };
    let echoes: Vec<String> = problems.iter().filter_map(twice).collect();
    problems.retain(|problem| !echoes.iter().any(|echo| problem.message.ends_with(echo.as_str())));
    problems
}

/// What a file says, with its places.
async fn tree_read(path: &Path, options: &LoadOptions) -> Result<TreeNode, JobFileError> {
    let problems = |problems| JobFileError::Problems { path: path.to_owned(), problems };
    kind_check(path)?;
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let extension = extension.to_ascii_lowercase();
    if extension != "jsonnet" && !(options.ext_str.is_empty() && options.tla_str.is_empty()) {
        return Err(JobFileError::Variables { path: path.to_owned() });
    }
    let read = |comments: &[&str]| {
        let text = text_read(path)?;
        match emptiness(&text, comments) {
            Some(content) => Err(JobFileError::Empty { path: path.to_owned(), content }),
            None => Ok(text),
        }
    };
    Ok(match extension.as_str() {
        "yaml" | "yml" => yaml::yaml_read(&read(&["#"])?).map_err(problems)?,
        "json" => json::json_read(&read(&[])?).map_err(problems)?,
        "jsonnet" => jsonnet::jsonnet_read(path, &read(&["#", "//"])?, options).await?,
        _ if path == Path::new("-") => yaml::yaml_read(&read(&["#"])?).map_err(problems)?,
        _ => return Err(JobFileError::Extension { path: path.to_owned() }),
    })
}

/// A scoring profile that no scheduler knows. The model of a job does not know which exist.
fn profile_problem(tree: &TreeNode) -> Option<Problem> {
    let TreeValue::Map(entries) = &tree.value else { return None };
    let (_, node) = entries.iter().find(|(key, _)| key.text == "profile")?;
    let TreeValue::Text(profile) = &node.value else { return None };
    let refused = profile.parse::<ScoringProfile>().err()?.to_string();
    let name = profile.split(':').next().unwrap_or_default();
    let near = nearest(name, &ScoringProfile::names()).filter(|near| *near != name);
    let text = match (near, refused.split_once("; accepted: ")) {
        (Some(near), Some((what, accepted))) => {
            format!("{what}, did you mean {near:?}?; accepted: {accepted}")
        }
        _ => refused,
    };
    Some(Problem::at(node.at, format!("profile: {text}")))
}

/// Refuses what is no file, with the name of its kind.
fn kind_check(path: &Path) -> Result<(), JobFileError> {
    match kind_unreadable(path) {
        Some(kind) => Err(JobFileError::Kind { path: path.to_owned(), kind }),
        None => Ok(()),
    }
}

/// The kind of what is no file. A FIFO would keep the program waiting, and a device has no end. `None` also for a
/// missing file, which is reported when it is read.
pub(crate) fn kind_unreadable(path: &Path) -> Option<&'static str> {
    match std::fs::metadata(path).ok()?.file_type() {
        kind if kind.is_dir() => Some("directory"),
        kind if kind.is_fifo() => Some("FIFO"),
        kind if kind.is_char_device() || kind.is_block_device() => Some("device"),
        kind if kind.is_socket() => Some("socket"),
        _ => None,
    }
}

/// What a text is without content: each of its lines is blank, a comment, or begins or ends a YAML document.
fn emptiness(text: &str, comments: &[&str]) -> Option<EmptyContent> {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let mut content = lines.filter(|line| !matches!(*line, "" | "---" | "...")).peekable();
    if content.peek().is_none() {
        return Some(EmptyContent::Nothing);
    }
    let is_comment = |line: &str| comments.iter().any(|comment| line.starts_with(comment));
    content.all(is_comment).then_some(EmptyContent::Comments)
}

fn text_read(path: &Path) -> Result<String, JobFileError> {
    let failed = |source: std::io::Error| JobFileError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    };
    let length = u64::try_from(read.map_err(failed)?).unwrap_or(u64::MAX);
    if length > FILE_BYTES_MAX {
        return Err(JobFileError::TooLarge { path: path.to_owned(), limit_bytes: FILE_BYTES_MAX });
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let text = String::from_utf8_lossy(good);
        let last = text.rsplit('\n').next().unwrap_or_default();
        let (line, column) =
            (text.matches('\n').count().saturating_add(1), last.chars().count().saturating_add(1));
        JobFileError::NotText { path: path.to_owned(), line, column }
    })
}
