//! What is wrong with a job file: one line each, with the place, the value, and what would be accepted.

use std::path::PathBuf;

use borough_model::job::file::Problem;

/// Why a job file gives no spec.
#[derive(Debug, thiserror::Error)]
pub enum JobFileError {
    /// Name a file that can be read.
    #[error("cannot read the job file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Give the file one of the accepted endings.
    #[error("{} is no job file by its name; accepted: .yaml, .yml, .json, .jsonnet, or - for YAML on standard input", path.display())]
    Extension {
        /// The file.
        path: PathBuf,
    },
    /// The file is larger than any job file.
    #[error("{} has more than {limit_bytes} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read.
        limit_bytes: u64,
    },
    /// Mend what is listed: everything that could be found at once.
    #[error("{}", list(path, problems))]
    Problems {
        /// The file.
        path: PathBuf,
        /// In the order of the file.
        problems: Vec<Problem>,
    },
    /// The Jsonnet program has no value, or not within its bounds. The text says where and why.
    #[error("{}: {problem}", path.display())]
    Jsonnet {
        /// The file.
        path: PathBuf,
        /// What happened.
        problem: String,
    },
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

fn lines(path: &std::path::Path, problems: &[Problem]) -> Vec<String> {
    let line = |problem: &Problem| match problem.at {
        Some(at) => format!("{}:{}:{}: {}", path.display(), at.line, at.column, problem.message),
        None => format!("{}: {}", path.display(), problem.message),
    };
    problems.iter().map(line).collect()
}

fn list(path: &std::path::Path, problems: &[Problem]) -> String {
    lines(path, problems).join("\n")
}
