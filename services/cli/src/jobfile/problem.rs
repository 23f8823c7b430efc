//! The errors of a job file: one line each, with the place, the value, and what would be accepted.

use std::path::{Path, PathBuf};

use borough_model::job::file::Problem;

/// Why a job file gives no spec.
#[derive(Debug, thiserror::Error)]
pub enum JobFileError {
    /// The file cannot be read. Name another.
    #[error("cannot read the job file {}", named(path))]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The path names something else than a file: it could be read without end, or not at all. Name a file.
    #[error("{} is a {kind}, not a job file", named(path))]
    Kind { path: PathBuf, kind: &'static str },
    /// The file has bytes that are no text. Save it as UTF-8.
    #[error("{}:{line}:{column}: a byte that is no UTF-8 text; accepted: a file in UTF-8", named(path))]
    NotText {
        path: PathBuf,
        /// Where the first such byte is.
        line: usize,
        column: usize,
    },
    /// The file has nothing to read. Begin with an example.
    #[error("{} {content}; accepted: a job with at least name and task", named(path))]
    Empty { path: PathBuf, content: EmptyContent },
    /// The name has none of the accepted endings. Give it one.
    #[error(
        "{} is no job file by its name; accepted: .yaml, .yml, .json, .jsonnet, or - for YAML on standard input",
        named(path)
    )]
    Extension { path: PathBuf },
    /// Variables are given for a file that takes none. Leave them out, or name a Jsonnet file.
    #[error("{} is no Jsonnet file; accepted: --ext-str and --tla-str with .jsonnet only", named(path))]
    Variables { path: PathBuf },
    /// The file is larger than any job file.
    #[error("{} has more than {limit_bytes} bytes", named(path))]
    TooLarge {
        path: PathBuf,
        /// The most that is read.
        limit_bytes: u64,
    },
    /// The file has these errors: all that one reading can find.
    #[error("{}", list(path, problems))]
    Problems {
        path: PathBuf,
        /// In the order of the file.
        problems: Vec<Problem>,
    },
    /// The Jsonnet program has no value, or not within its bounds. The text says why.
    #[error("{place}: {problem}")]
    Jsonnet {
        /// The file, with line and column if they are known.
        place: String,
        problem: String,
    },
}

/// What a file without a job has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyContent {
    Nothing,
    Comments,
}

impl std::fmt::Display for EmptyContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "is empty",
            Self::Comments => "has only comments",
        })
    }
}

impl JobFileError {
    /// One text per problem, each with its place. The report of a Jsonnet program is one text of several lines.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::Problems { path, problems } => lines(path, problems),
            other => {
                let source = std::error::Error::source(other);
                let source = source.map(|source| format!(": {source}")).unwrap_or_default();
                vec![format!("{other}{source}")]
            }
        }
    }
}

/// The file in a message: `-` is no name of one.
pub(crate) fn named(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { shown(path) }
}

/// A path on one line: its name may have line ends and other control characters.
pub(crate) fn shown(path: &Path) -> String {
    let plain = |each: char| {
        if each.is_control() { each.escape_default().to_string() } else { each.to_string() }
    };
    path.to_string_lossy().chars().map(plain).collect()
}

fn lines(path: &Path, problems: &[Problem]) -> Vec<String> {
    let line = |problem: &Problem| match problem.at {
        Some(at) => format!("{}:{}:{}: {}", named(path), at.line, at.column, problem.message),
        None => format!("{}: {}", named(path), problem.message),
    };
    problems.iter().map(line).collect()
}

fn list(path: &Path, problems: &[Problem]) -> String {
    lines(path, problems).join("\n")
}
