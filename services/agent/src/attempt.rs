//! The id of an attempt.

use std::fmt;
use std::str::FromStr;

use borough_proto::v1;

/// One attempt of a task. Its text is `<job>.<index>.<incarnation>`, which also names its directory and cgroup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptId {
    /// `j` and 16 hexadecimal digits.
    pub job_id: String,
    /// The task's index within its job.
    pub index: u32,
    pub incarnation: u64,
}

/// A text or message that names no attempt. Holds the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} does not name an attempt of a task")]
pub struct AttemptIdError(String);

impl AttemptId {
    /// Checks the job id, since it becomes the name of a directory.
    ///
    /// # Errors
    /// The job id is not `j` and 16 hexadecimal digits.
    pub fn new(job_id: &str, index: u32, incarnation: u64) -> Result<Self, AttemptIdError> {
        let digits = job_id.strip_prefix('j').unwrap_or_default();
        let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() == 16 && digits.bytes().all(hexadecimal) {
            Ok(Self { job_id: job_id.to_owned(), index, incarnation })
        } else {
            Err(AttemptIdError(job_id.to_owned()))
        }
    }

    /// The attempt that a message names.
    ///
    /// # Errors
    /// The message names none.
    pub fn of(attempt: Option<&v1::TaskAttempt>) -> Result<Self, AttemptIdError> {
        let attempt = attempt.ok_or_else(|| AttemptIdError(String::new()))?;
        Self::new(&attempt.job_id, attempt.index, attempt.incarnation)
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.job_id, self.index, self.incarnation)
    }
}

impl FromStr for AttemptId {
    type Err = AttemptIdError;

    fn from_str(text: &str) -> Result<Self, AttemptIdError> {
        let error = || AttemptIdError(text.to_owned());
        let mut parts = text.split('.');
        let (job, index, incarnation) = (parts.next(), parts.next(), parts.next());
        let (Some(job), Some(index), Some(incarnation), None) = (job, index, incarnation, parts.next())
        else {
            return Err(error());
        };
        let attempt =
            Self::new(job, index.parse().map_err(|_| error())?, incarnation.parse().map_err(|_| error())?)?;
        // Each attempt has one text, but `+1` and `01` also parse as numbers.
        if attempt.to_string() == text { Ok(attempt) } else { Err(error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_its_text() {
        let attempt = AttemptId::new("j00000000000000ff", 3, 12).unwrap();
        assert_eq!(attempt.to_string().parse::<AttemptId>().unwrap(), attempt);
        for bad in
            ["j00000000000000ff.3", "j00000000000000ff.3.12.1", "j00000000000000ff.+3.12", "jx.1.1", ""]
        {
            assert!(bad.parse::<AttemptId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_job_id_cannot_leave_its_directory() {
        for bad in ["../../../../etc/x", "j../..", "", "j00000000000000FF", "j00000000000000f/"] {
            assert!(AttemptId::new(bad, 0, 1).is_err(), "{bad}");
        }
    }
}
