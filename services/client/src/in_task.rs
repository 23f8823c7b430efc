//! For the program of a task: who it is, its ports, its peers, and that it is ready.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::call::{Client, ItemStream};
use crate::error::ClientError;
use crate::job::JobRef;
use crate::watch::TaskAddress;

/// Prefix of the variables that hold the numbers of ports.
const PORT_PREFIX: &str = "PORT_";
/// The file that says that a task is ready, in its directory.
const READY_FILE: &str = "ready";

/// What the node tells a task in its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTask {
    pub cell: String,
    pub job: JobRef,
    /// The index of the task in its job.
    pub index: u32,
    /// The attempt; a later one has a greater number.
    pub attempt: u64,
    pub node: String,
    /// The address under which others reach its ports.
    pub host: String,
    /// The numbers of its ports. A name is in capitals here, as in the variable: `PORT_HTTP` is `HTTP`.
    pub ports: BTreeMap<String, u16>,
    /// The task's own directory.
    pub directory: PathBuf,
}

/// The process does not run as a task, or not of this version of Borough.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInTask {
    /// Run the program as the task of a job.
    #[error("the variable {0} is not set; a node sets it for a task")]
    Absent(&'static str),
    /// Somebody has changed the variable.
    #[error("the variable {name} is {value:?}; accepted: a whole number")]
    Invalid { name: String, value: String },
}

impl InTask {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// [`NotInTask`] with the variable.
    pub fn from_environment() -> Result<Self, NotInTask> {
        Self::from_variables(&std::env::vars().collect())
    }

    /// Reads these variables.
    ///
    /// # Errors
    /// [`NotInTask`] with the variable.
    pub fn from_variables(variables: &BTreeMap<String, String>) -> Result<Self, NotInTask> {
        let text = |name: &'static str| variables.get(name).cloned().ok_or(NotInTask::Absent(name));
        let port = |(name, value): (&String, &String)| {
            let port = name.strip_prefix(PORT_PREFIX)?;
            Some(number(name, value).map(|number| (port.to_owned(), number)))
        };
        Ok(Self {
            cell: text("BOROUGH_CELL")?,
            job: JobRef::new(text("BOROUGH_USER")?, text("BOROUGH_JOB")?),
            index: number("BOROUGH_INDEX", &text("BOROUGH_INDEX")?)?,
            attempt: number("BOROUGH_ATTEMPT", &text("BOROUGH_ATTEMPT")?)?,
            node: text("BOROUGH_NODE")?,
            host: text("HOST")?,
            ports: variables.iter().filter_map(port).collect::<Result<_, _>>()?,
            directory: PathBuf::from(text("BOROUGH_TASK_DIR")?),
        })
    }

    /// The number of a port, by its name in the job.
    pub fn port(&self, name: &str) -> Option<u16> {
        let upper = |each: char| if each.is_ascii_alphanumeric() { each.to_ascii_uppercase() } else { '_' };
        self.ports.get(&name.chars().map(upper).collect::<String>()).copied()
    }

    /// Says that the task is ready, for a job built with [`crate::JobBuilder::health_ready`].
    ///
    /// # Errors
    /// The file in the task's directory cannot be written.
    pub fn ready(&self) -> std::io::Result<()> {
        std::fs::write(self.directory.join(READY_FILE), [])
    }

    /// Takes back that the task is ready. Its endpoint is withdrawn once the check has failed.
    ///
    /// # Errors
    /// The file in the task's directory cannot be removed.
    pub fn not_ready(&self) -> std::io::Result<()> {
        match std::fs::remove_file(self.directory.join(READY_FILE)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The addresses of the other tasks of the job, and again all of them after each change. The client must be of the
    /// task's cell, and needs a token of its own: a node gives a task none.
    pub fn peers(&self, client: &Client, port: impl Into<String>) -> ItemStream<Vec<TaskAddress>> {
        let own = self.index;
        let others = move |set: Result<Vec<TaskAddress>, ClientError>| {
            set.map(|set| set.into_iter().filter(|address| address.index != own).collect())
        };
        Box::pin(futures::StreamExt::map(client.addresses(&self.job, port), others))
    }
}

/// The command of a check that passes while the file of [`InTask::ready`] is there.
pub(crate) fn ready_command() -> [String; 3] {
    ["sh".to_owned(), "-c".to_owned(), format!("test -e \"$BOROUGH_TASK_DIR/{READY_FILE}\"")]
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, NotInTask> {
    value.parse().map_err(|_| NotInTask::Invalid { name: name.to_owned(), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(directory: &str) -> BTreeMap<String, String> {
        [
            ("BOROUGH_CELL", "alpha"),
            ("BOROUGH_USER", "ann"),
            ("BOROUGH_JOB", "web"),
            ("BOROUGH_INDEX", "2"),
            ("BOROUGH_ATTEMPT", "7"),
            ("BOROUGH_NODE", "n1"),
            ("BOROUGH_TASK_DIR", directory),
            ("HOST", "10.0.0.1"),
            ("PORT", "20001"),
            ("PORT_HTTP_ADMIN", "20001"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    #[test]
    fn a_task_knows_who_it_is_and_says_that_it_is_ready() {
        let directory = tempfile::tempdir().unwrap();
        let task = InTask::from_variables(&variables(directory.path().to_str().unwrap())).unwrap();
        assert_eq!((task.job.to_string().as_str(), task.index, task.attempt), ("ann/web", 2, 7));
        assert_eq!((task.port("http-admin"), task.port("smtp")), (Some(20_001), None));
        let file = directory.path().join(READY_FILE);
        task.not_ready().unwrap();
        task.ready().unwrap();
        assert!(file.exists());
        task.not_ready().unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn a_variable_that_is_missing_or_wrong_is_named() {
        let mut none = variables("/t");
        none.remove("BOROUGH_JOB");
        assert_eq!(InTask::from_variables(&none), Err(NotInTask::Absent("BOROUGH_JOB")));
        let mut wrong = variables("/t");
        wrong.insert("PORT_HTTP".to_owned(), "http".to_owned());
        let refused = InTask::from_variables(&wrong).unwrap_err().to_string();
        assert_eq!(refused, "the variable PORT_HTTP is \"http\"; accepted: a whole number");
    }
}
