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
pub use problem::JobFileError;
pub(crate) use problem::shown as path_shown;
pub use starter::{StarterKind, starter, starter_of};
pub(crate) use written::job_text;

use std::io::Read as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use borough_model::Name;
use borough_model::job::file::{Problem, TreeNode, TreeValue};
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
}

/// Reads, renders and checks the job file `path`; `-` is YAML on standard input.
///
/// # Errors
/// See [`JobFileError`]; everything that is wrong with the file, at once where that can be told.
pub async fn load(path: &Path, options: &LoadOptions) -> Result<LoadedFile, JobFileError> {
    let problems = |problems| JobFileError::Problems { path: path.to_owned(), problems };
    kind_check(path)?;
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let tree = match extension.to_ascii_lowercase().as_str() {
        "yaml" | "yml" => yaml::yaml_read(&text_read(path)?).map_err(problems)?,
        "json" => json::json_read(&text_read(path)?).map_err(problems)?,
        "jsonnet" => jsonnet::jsonnet_read(path, &text_read(path)?, options).await?,
        _ if path == Path::new("-") => yaml::yaml_read(&text_read(path)?).map_err(problems)?,
        _ => return Err(JobFileError::Extension { path: path.to_owned() }),
    };
    let read = JobSpec::from_file(&tree, &options.caller);
    match (profile_problem(&tree), read) {
        (None, Ok((spec, notes))) => Ok(LoadedFile { spec, notes }),
        (unknown, read) => {
            let mut found = read.err().unwrap_or_default();
            found.extend(unknown);
            found.sort_by_key(|problem| problem.at);
            Err(problems(found))
        }
    }
}

/// A scoring profile that no scheduler knows. The model of a job does not know which exist.
fn profile_problem(tree: &TreeNode) -> Option<Problem> {
    let TreeValue::Map(entries) = &tree.value else { return None };
    let (_, node) = entries.iter().find(|(key, _)| key.text == "profile")?;
    let TreeValue::Text(profile) = &node.value else { return None };
    let refused = profile.parse::<ScoringProfile>().err()?;
    Some(Problem::at(node.at, format!("profile: {refused}")))
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
fn kind_unreadable(path: &Path) -> Option<&'static str> {
    match std::fs::metadata(path).ok()?.file_type() {
        kind if kind.is_dir() => Some("directory"),
        kind if kind.is_fifo() => Some("FIFO"),
        kind if kind.is_char_device() || kind.is_block_device() => Some("device"),
        kind if kind.is_socket() => Some("socket"),
        _ => None,
    }
}

fn text_read(path: &Path) -> Result<String, JobFileError> {
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::InvalidData => JobFileError::NotText { path: path.to_owned() },
        _ => JobFileError::Read { path: path.to_owned(), source },
    };
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)
    };
    let length = u64::try_from(read.map_err(failed)?).unwrap_or(u64::MAX);
    if length > FILE_BYTES_MAX {
        return Err(JobFileError::TooLarge { path: path.to_owned(), limit_bytes: FILE_BYTES_MAX });
    }
    Ok(text)
}
