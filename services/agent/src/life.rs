//! Which life of which task.

use std::fmt;
use std::str::FromStr;

use borough_proto::v1;

/// One life of a task. Its text is `<job>.<index>.<incarnation>`, which also names its directory and cgroup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LifeId {
    /// `j` and 16 hexadecimal digits.
    pub job_id: String,
    /// The task's index within its job.
    pub index: u32,
    /// Which life.
    pub incarnation: u64,
}

/// Not a life: its text or message does not keep the form. It cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} does not name a life of a task")]
pub struct LifeError(String);

impl LifeId {
    /// The life a message names.
    ///
    /// # Errors
    /// Where its job id has not the form of one: it becomes the name of a directory.
    pub fn new(job_id: &str, index: u32, incarnation: u64) -> Result<Self, LifeError> {
        let digits = job_id.strip_prefix('j').unwrap_or_default();
        let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() == 16 && digits.bytes().all(hexadecimal) {
            Ok(Self { job_id: job_id.to_owned(), index, incarnation })
        } else {
            Err(LifeError(job_id.to_owned()))
        }
    }

    /// The life a message names.
    ///
    /// # Errors
    /// Where it names none.
    pub fn of(life: Option<&v1::TaskLife>) -> Result<Self, LifeError> {
        let life = life.ok_or_else(|| LifeError(String::new()))?;
        Self::new(&life.job_id, life.index, life.incarnation)
    }
}

impl fmt::Display for LifeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.job_id, self.index, self.incarnation)
    }
}

impl FromStr for LifeId {
    type Err = LifeError;

    fn from_str(text: &str) -> Result<Self, LifeError> {
        let error = || LifeError(text.to_owned());
        let mut parts = text.split('.');
        let (job, index, incarnation) = (parts.next(), parts.next(), parts.next());
        let (Some(job), Some(index), Some(incarnation), None) = (job, index, incarnation, parts.next())
        else {
            return Err(error());
        };
        let life =
            Self::new(job, index.parse().map_err(|_| error())?, incarnation.parse().map_err(|_| error())?)?;
        // One life, one text: `+1` and `01` are numbers too.
        if life.to_string() == text { Ok(life) } else { Err(error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_its_text() {
        let life = LifeId::new("j00000000000000ff", 3, 12).unwrap();
        assert_eq!(life.to_string().parse::<LifeId>().unwrap(), life);
        for bad in
            ["j00000000000000ff.3", "j00000000000000ff.3.12.1", "j00000000000000ff.+3.12", "jx.1.1", ""]
        {
            assert!(bad.parse::<LifeId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_job_id_cannot_leave_its_directory() {
        for bad in ["../../../../etc/x", "j../..", "", "j00000000000000FF", "j00000000000000f/"] {
            assert!(LifeId::new(bad, 0, 1).is_err(), "{bad}");
        }
    }
}
