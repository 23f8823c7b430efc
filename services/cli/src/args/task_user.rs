//! The users that an agent runs tasks as, from the command line.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use borough_agent::{TASK_DIR, TaskUser, TaskUsers};
use clap::Args;

use crate::exit::{Code, Failure};

/// Arguments of `borough agent` on the users of tasks.
#[derive(Clone, Debug, Args)]
pub struct TaskUserArguments {
    /// Run tasks as per-owner (a user for each job owner), as one USER or UID:GID, or as agent [default: per-owner if
    /// the agent is root, else agent]
    #[arg(long, value_name = "WHO", value_parser = task_user)]
    pub task_user: Option<TaskUserChoice>,
    /// Take users and groups of per-owner from FIRST-LAST, numbers that nobody else on the machine uses
    #[arg(long, value_name = "RANGE", value_parser = numbers)]
    pub task_uids: Option<RangeInclusive<u32>>,
    /// Keep the directories of tasks that run as other users here; the same for all agents of a machine
    #[arg(long, default_value = TASK_DIR, value_name = "DIR")]
    pub task_dir: PathBuf,
}

/// The choice of users on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskUserChoice {
    /// The agent's own user.
    Agent,
    /// One user for all tasks.
    One(TaskUser),
    /// A user for each job owner.
    PerOwner,
}

impl TaskUserArguments {
    /// The users that the arguments mean on this machine.
    pub(crate) fn task_users(&self) -> Result<TaskUsers, Failure> {
        let usual = || {
            let failure =
                Failure::new(Code::Usage, "this machine has none of the usual numbers for users of tasks");
            let hint =
                "give numbers that it has with --task-uids, one user with --task-user, or --task-user agent";
            TaskUsers::usual().ok_or_else(|| failure.with_hint(hint))
        };
        match (self.task_user, &self.task_uids) {
            (Some(TaskUserChoice::Agent), _) => Ok(TaskUsers::Agent),
            (Some(TaskUserChoice::One(user)), _) => Ok(TaskUsers::One(user)),
            (_, Some(numbers)) => Ok(TaskUsers::PerOwner(numbers.clone())),
            (Some(TaskUserChoice::PerOwner), None) => usual(),
            // Root finds no usual numbers in a small user namespace. Its tasks then run as root, which the node's
            // attributes show.
            (None, None) => Ok(TaskUsers::usual().unwrap_or_default()),
        }
    }
}

/// Reads `agent`, `per-owner`, the name of a user, or `UID:GID`.
fn task_user(text: &str) -> Result<TaskUserChoice, String> {
    match text {
        "agent" => return Ok(TaskUserChoice::Agent),
        "per-owner" => return Ok(TaskUserChoice::PerOwner),
        _ => {}
    }
    let numbers = match text.split_once(':') {
        Some((uid, gid)) => uid.parse().ok().zip(gid.parse().ok()),
        None => user_find(&std::fs::read_to_string("/etc/passwd").unwrap_or_default(), text),
    };
    match numbers {
        Some((uid, gid)) if uid > 0 && gid > 0 => Ok(TaskUserChoice::One(TaskUser { uid, gid })),
        Some(_) => {
            Err(format!("{text:?} is root, or in its group; accepted: a user without privileges, or agent"))
        }
        None => Err(format!(
            "{text:?} is no user of /etc/passwd; accepted: per-owner, agent, a user's name, or UID:GID"
        )),
    }
}

/// The numbers of a user and its group in the lines of `/etc/passwd`.
fn user_find(passwd: &str, name: &str) -> Option<(u32, u32)> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// A range of numbers of users as FIRST-LAST.
fn numbers(text: &str) -> Result<RangeInclusive<u32>, String> {
    let range =
        text.split_once('-').and_then(|(first, last)| first.parse().ok().zip(last.parse::<u32>().ok()));
    match range {
        Some((first, last)) if (1..=last).contains(&first) && last < u32::MAX => Ok(first..=last),
        _ => Err(format!("{text:?} is not a range of users' numbers such as 700000-765535, without 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_tasks_are_read_and_never_root() {
        let one = |uid, gid| Ok(TaskUserChoice::One(TaskUser { uid, gid }));
        assert_eq!(task_user("per-owner"), Ok(TaskUserChoice::PerOwner));
        assert_eq!(task_user("agent"), Ok(TaskUserChoice::Agent));
        assert_eq!(task_user("1000:100"), one(1000, 100));
        for wrong in ["root", "0:0", "0:100", "100:0", "no-such-user", "1000:", "-1:5", ""] {
            assert!(task_user(wrong).is_err(), "{wrong}");
        }
        let passwd = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65533:n:/:/bin/false\nbad:x\n";
        assert_eq!(user_find(passwd, "nobody"), Some((65_534, 65_533)));
        assert_eq!((user_find(passwd, "bad"), user_find(passwd, "x")), (None, None));
        assert_eq!(numbers("700000-765535"), Ok(700_000..=765_535));
        for wrong in ["", "0-5", "5", "9-5", "1-4294967295", "a-b"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
    }
}
