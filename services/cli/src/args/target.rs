//! Names of jobs and tasks as people write them: the user may be left out where it is the caller.

use std::str::FromStr;

use borough_client::{JobRef, TaskRef};
use borough_model::Name;
use borough_model::job::COUNT_MAX;
use clap::Args;
use thiserror::Error;

use super::list::ShownJobLabels;
use super::value_shown;

/// Why a word names no job or no task.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// A task where a job is expected.
    #[error("is a task; its job is {job}")]
    IsTask {
        /// The job as it is written on the command line.
        job: String,
    },
    /// A job where a task is expected.
    #[error("is a job; accepted: JOB/INDEX, such as {job}/0")]
    IsJob {
        /// The job as it is written on the command line.
        job: String,
    },
    /// A job with its user where a task is expected, or a task without a number.
    #[error("is job {job} of user {user}; accepted: JOB/INDEX, such as {user}/0, or USER/JOB/INDEX")]
    IsUserJob { user: String, job: String },
    #[error("{0}")]
    NoName(String),
}

impl From<String> for TargetError {
    fn from(text: String) -> Self {
        Self::NoName(text)
    }
}

/// `[USER/]JOB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTarget {
    user: Option<String>,
    job: String,
}

/// `[USER/]JOB/INDEX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTarget {
    job: JobTarget,
    index: u32,
}

/// `[USER/]JOB[/INDEX]`, of verbs on a task or on those of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyTarget {
    job: JobTarget,
    /// The task; absent: those of the job.
    pub index: Option<u32>,
}

/// `why`.
#[derive(Clone, Debug, Args)]
pub struct WhyArguments {
    /// [USER/]JOB[/INDEX]
    #[arg(value_name = "JOB", required_unless_present = "label", conflicts_with_all = ["label", "all"])]
    pub targets: Vec<WhyTarget>,
    #[command(flatten)]
    pub labels: ShownJobLabels,
}

impl JobTarget {
    /// The job, of `caller` where no user is given.
    pub fn resolve(&self, caller: &str) -> JobRef {
        JobRef::new(self.user.as_deref().unwrap_or(caller), self.job.as_str())
    }
}

impl TaskTarget {
    /// The job of the task.
    pub(crate) fn job(&self) -> &JobTarget {
        &self.job
    }

    /// The task, of `caller` where no user is given.
    pub fn resolve(&self, caller: &str) -> TaskRef {
        TaskRef { job: self.job.resolve(caller), index: self.index }
    }
}

impl WhyTarget {
    /// The job, or that of the task.
    pub(crate) fn job(&self) -> &JobTarget {
        &self.job
    }

    /// The job, of `caller` where no user is given.
    pub fn resolve(&self, caller: &str) -> JobRef {
        self.job.resolve(caller)
    }
}

impl FromStr for JobTarget {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        match *text.split('/').collect::<Vec<_>>().as_slice() {
            [job] => Ok(target(None, job)?),
            [job, index] if is_task(index, target(None, job)) => {
                Err(TargetError::IsTask { job: job.to_owned() })
            }
            [user, job] => Ok(target(Some(user), job)?),
            [user, job, index] if is_task(index, target(Some(user), job)) => {
                Err(TargetError::IsTask { job: format!("{user}/{job}") })
            }
            _ => Err(TargetError::NoName("accepted: JOB or USER/JOB".to_owned())),
        }
    }
}

impl FromStr for TaskTarget {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        match *text.split('/').collect::<Vec<_>>().as_slice() {
            [job] if target(None, job).is_ok() => Err(TargetError::IsJob { job: text.to_owned() }),
            // A name never begins with a digit, so what does is an index.
            [user, job] if number(job).is_err() && target(Some(user), job).is_ok() => {
                Err(TargetError::IsUserJob { user: user.to_owned(), job: job.to_owned() })
            }
            [job, index] => Ok(Self { job: target(None, job)?, index: number(index)? }),
            [user, job, index] => Ok(Self { job: target(Some(user), job)?, index: number(index)? }),
            _ => Err(TargetError::NoName("accepted: JOB/INDEX or USER/JOB/INDEX".to_owned())),
        }
    }
}

impl FromStr for WhyTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match *text.split('/').collect::<Vec<_>>().as_slice() {
            [job] => Ok(Self { job: target(None, job)?, index: None }),
            [job, index] if begins_index(index) => {
                Ok(Self { job: target(None, job)?, index: Some(number(index)?) })
            }
            [user, job] => Ok(Self { job: target(Some(user), job)?, index: None }),
            [user, job, index] => Ok(Self { job: target(Some(user), job)?, index: Some(number(index)?) }),
            _ => Err("accepted: JOB, JOB/INDEX, USER/JOB or USER/JOB/INDEX".to_owned()),
        }
    }
}

/// A name begins with neither a digit nor a sign, so what does is an index.
fn begins_index(text: &str) -> bool {
    text.trim_start_matches(['-', '+']).starts_with(|first: char| first.is_ascii_digit())
}

/// Whether `index` behind a job names one of its tasks. A name never begins with a digit.
fn is_task(index: &str, job: Result<JobTarget, String>) -> bool {
    job.is_ok() && number(index).is_ok()
}

fn target(user: Option<&str>, job: &str) -> Result<JobTarget, String> {
    if let Some(user) = user {
        checked("user", user)?;
    }
    checked("job", job)?;
    Ok(JobTarget { user: user.map(str::to_owned), job: job.to_owned() })
}

fn checked(what: &str, name: &str) -> Result<(), String> {
    Name::new(name)
        .map(drop)
        .map_err(|error| format!("the name of the {what}, {}, {error}", value_shown(name)))
}

fn number(index: &str) -> Result<u32, String> {
    let last = COUNT_MAX.saturating_sub(1);
    // `+1` reads as one more, which no index means.
    let plain = Some(index).filter(|index| !index.starts_with('+'));
    let found = plain.and_then(|index| index.parse().ok()).filter(|&number| number <= last);
    found.ok_or_else(|| format!("the index {}; accepted: 0 to {last}", value_shown(index)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_may_be_left_out() {
        let job: JobTarget = "web".parse().unwrap();
        assert_eq!(job.resolve("alice"), JobRef::new("alice", "web"));
        let job: JobTarget = "bob/web".parse().unwrap();
        assert_eq!(job.resolve("alice"), JobRef::new("bob", "web"));
        let task: TaskTarget = "web/3".parse().unwrap();
        assert_eq!(task.resolve("alice").to_string(), "alice/web/3");
        let task: TaskTarget = "bob/web/0".parse().unwrap();
        assert_eq!(task.resolve("alice").to_string(), "bob/web/0");
    }

    #[test]
    fn a_long_name_is_cut_in_its_refusal() {
        let long = "A".repeat(100_000);
        for wrong in [long.clone(), format!("{long}/web"), format!("web/{long}")] {
            let refused = wrong.parse::<TaskTarget>().unwrap_err().to_string();
            assert!(refused.len() < 500, "{}", refused.len());
        }
    }

    #[test]
    fn an_index_is_told_from_a_name() {
        let index = |text: &str| text.parse::<WhyTarget>().unwrap().index;
        assert_eq!(index("web"), None);
        assert_eq!(index("web/2"), Some(2));
        assert_eq!(index("bob/web"), None);
        assert_eq!(index("bob/web/2"), Some(2));
        for wrong in ["web/-1", "web/+1", "web/4294967296"] {
            let refused = wrong.parse::<WhyTarget>().unwrap_err();
            assert!(refused.starts_with("the index ") && refused.contains("accepted: 0 to "), "{refused}");
        }
    }

    #[test]
    fn a_task_where_a_job_is_expected_is_told_from_a_wrong_name() {
        let job = |text: &str| match text.parse::<JobTarget>() {
            Err(TargetError::IsTask { job }) => Some(job),
            _ => None,
        };
        assert_eq!(job("web/0").as_deref(), Some("web"));
        assert_eq!(job("bob/web/12").as_deref(), Some("bob/web"));
        for other in ["web", "bob/web", "Web/0", "web/-1", "web/x/y", "web/4294967296", "a/b/c/0"] {
            assert_eq!(job(other), None, "{other}");
        }
    }

    #[test]
    fn a_job_where_a_task_is_expected_is_told_from_a_wrong_name() {
        let job = |text: &str| match text.parse::<TaskTarget>() {
            Err(TargetError::IsJob { job }) => Some(job),
            Err(TargetError::IsUserJob { user, job }) => Some(format!("{user}/{job}")),
            _ => None,
        };
        assert_eq!(job("web").as_deref(), Some("web"));
        assert_eq!(job("bob/web").as_deref(), Some("bob/web"));
        let text = "web/x".parse::<TaskTarget>().unwrap_err().to_string();
        assert_eq!(text, "is job x of user web; accepted: JOB/INDEX, such as web/0, or USER/JOB/INDEX");
        for other in ["web/0", "Web", "", "web/", "web/-1", "web/4294967296", "bob/web/x", "a/b/c/0"] {
            assert_eq!(job(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_reason() {
        for bad in ["", "/", "a/b/c/d", "web/", "web/x", "Web/1", "web/-1", "web/4294967296"] {
            assert!(bad.parse::<TaskTarget>().is_err(), "{bad}");
        }
        let error = "Bob/web".parse::<JobTarget>().unwrap_err().to_string();
        assert!(error.contains("user") && error.contains("'B'"), "{error}");
    }
}
