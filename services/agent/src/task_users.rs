//! The user that the tasks of each job owner run as. All agents of a machine share one file: two owners never share a
//! user, and an owner keeps the same one.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use borough_shim::file::{Durability, json_read, json_write, own_open};
use borough_shim::user::TaskUser;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// The file, beside the directories of tasks.
const FILE: &str = "users.json";
/// Locked while the file is changed.
const LOCK: &str = "users.lock";

/// Numbers by owner, as `CELL/USER`. A number is never reused: files of an owner may outlive its tasks.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Owners {
    owners: BTreeMap<String, u32>,
}

/// The users that tasks run as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TaskUsers {
    /// The agent's own user.
    #[default]
    Agent,
    /// One for every task.
    One(TaskUser),
    /// One user per job owner, with numbers of this range; groups have the same numbers.
    PerOwner(RangeInclusive<u32>),
}

/// Ranges to try, in this order. No distribution assigns the first. The second is for user namespaces of 65,536
/// numbers: `systemd` takes its transient users from it.
const USUAL: [RangeInclusive<u32>; 2] = [1_879_048_192..=1_879_113_727, 61_184..=65_519];

impl std::fmt::Display for TaskUsers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Agent => f.write_str("agent"),
            Self::One(user) => write!(f, "{}:{}", user.uid, user.gid),
            Self::PerOwner(numbers) => write!(f, "per owner, {}-{}", numbers.start(), numbers.end()),
        }
    }
}

impl TaskUsers {
    /// One user per owner if this process is root, and its own user otherwise. `None` if no usual range of numbers
    /// exists here.
    pub fn usual() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return Some(Self::Agent);
        }
        let map = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let (users, groups) = (map("uid_map"), map("gid_map"));
        let exists =
            |numbers: &RangeInclusive<u32>| is_mapped(&users, numbers) && is_mapped(&groups, numbers);
        USUAL.into_iter().find(exists).map(Self::PerOwner)
    }

    /// The user of the tasks of `owner` in `cell`; `None` for the agent's own. `directory` is that of all agents of the
    /// machine.
    ///
    /// # Errors
    /// Those of the file system, and `StorageFull` if every number has an owner.
    pub fn of(&self, directory: &Path, cell: &str, owner: &str) -> io::Result<Option<TaskUser>> {
        match self {
            Self::Agent => Ok(None),
            Self::One(user) => Ok(Some(*user)),
            Self::PerOwner(numbers) => {
                let number = owner_number(directory, numbers, &format!("{cell}/{owner}"))?;
                Ok(Some(TaskUser { uid: number, gid: number }))
            }
        }
    }
}

/// Returns true if all of `numbers` exist in a map of the kernel. Its lines have the first number inside, the first
/// outside, and the count.
fn is_mapped(map: &str, numbers: &RangeInclusive<u32>) -> bool {
    map.lines().any(|line| {
        let parts: Vec<u64> = line.split_ascii_whitespace().filter_map(|part| part.parse().ok()).collect();
        let [first, _, count] = parts.as_slice() else { return false };
        u64::from(*numbers.start()) >= *first && u64::from(*numbers.end()) < first.saturating_add(*count)
    })
}

fn owner_number(directory: &Path, numbers: &RangeInclusive<u32>, owner: &str) -> io::Result<u32> {
    let lock = own_open(&directory.join(LOCK), OpenOptions::new().append(true).create(true).mode(0o600))?;
    // Closing the file releases the lock.
    flock(&lock, FlockOperation::LockExclusive)?;
    let mut known: Owners = json_read(directory, FILE)?.unwrap_or_default();
    if let Some(number) = known.owners.get(owner).filter(|number| numbers.contains(number)) {
        return Ok(*number);
    }
    let taken = known.owners.values().filter(|number| numbers.contains(number)).max();
    let next = taken.map_or_else(|| Some(*numbers.start()), |last| last.checked_add(1));
    let number = next.filter(|next| numbers.contains(next)).ok_or_else(|| {
        let text =
            format!("no user is left for {owner}: {}-{} all have owners", numbers.start(), numbers.end());
        io::Error::new(io::ErrorKind::StorageFull, text)
    })?;
    known.owners.insert(owner.to_owned(), number);
    json_write(directory, FILE, &known, Durability::Power)?;
    Ok(number)
}

/// Makes the directory of all tasks of the machine, and in it the directory `below` for those of one agent. Every user
/// may pass through; only root may list or change them.
///
/// # Errors
/// Those of the file system; `PermissionDenied` if other users cannot reach it, or can change it.
pub(crate) fn tasks_directory(directory: &Path, below: &Path) -> io::Result<PathBuf> {
    directory_make(directory)?;
    let path = directory.canonicalize()?.join(below);
    directory_make(&path)?;
    for ancestor in path.ancestors() {
        passable(ancestor)?;
    }
    Ok(path)
}

/// Makes a directory and its missing parents. Everyone may pass through them, whatever the umask is.
fn directory_make(directory: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|path| !path.exists()).collect();
    for path in missing.into_iter().rev().filter(|path| !path.as_os_str().is_empty()) {
        match DirBuilder::new().mode(0o711).create(path) {
            // Another agent of the machine makes it at this moment.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => std::fs::set_permissions(path, Permissions::from_mode(0o711))?,
        }
    }
    Ok(())
}

fn passable(path: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    let refuse = |text: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    if found.mode() & 0o001 == 0 {
        return refuse(format!(
            "{} has mode {:o}: users of tasks cannot pass through",
            path.display(),
            found.mode() & 0o777
        ));
    }
    // The sticky bit, as on /tmp, keeps others from moving our files.
    let sticky = found.mode() & 0o1000 != 0;
    if found.mode() & 0o022 != 0 && !sticky {
        return refuse(format!(
            "{} has mode {:o}: others can change what is there",
            path.display(),
            found.mode() & 0o777
        ));
    }
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != 0 && found.uid() != own {
        return refuse(format!("{} belongs to user {}", path.display(), found.uid()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_exist_where_the_kernel_maps_them() {
        let whole = "         0          0 4294967295\n";
        let small = "         0     100000      65536\n";
        assert!(USUAL.iter().all(|numbers| is_mapped(whole, numbers)));
        assert!(!is_mapped(small, &USUAL[0]) && is_mapped(small, &USUAL[1]));
        assert!(!is_mapped("0 0 65519", &USUAL[1]) && !is_mapped("", &USUAL[1]));
    }

    #[test]
    fn owners_have_users_of_their_own_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let users = TaskUsers::PerOwner(1_000..=1_002);
        let of = |owner: &str| users.of(dir.path(), "alpha", owner).map(|user| user.unwrap().uid);
        assert_eq!((of("ann").unwrap(), of("ben").unwrap(), of("ann").unwrap()), (1_000, 1_001, 1_000));
        assert_eq!(
            users.of(dir.path(), "beta", "ann").unwrap().unwrap(),
            TaskUser { uid: 1_002, gid: 1_002 }
        );
        let refused = of("eve").unwrap_err();
        assert!(refused.to_string().contains("alpha/eve"), "{refused}");
        assert_eq!(of("ben").unwrap(), 1_001);
        // If an operator sets another range later, numbers begin with its first one.
        let other = TaskUsers::PerOwner(2_000..=2_001);
        assert_eq!(other.of(dir.path(), "alpha", "ann").unwrap().unwrap().uid, 2_000);
        let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn many_agents_of_a_machine_agree() {
        let dir = tempfile::tempdir().unwrap();
        let users = TaskUsers::PerOwner(1_000..=9_999);
        let ask = |agent: u32| {
            let owners = (0..40).map(move |owner| (owner * 7 + agent) % 40);
            let of = |owner: u32| {
                (owner, users.of(dir.path(), "alpha", &format!("o{owner}")).unwrap().unwrap().uid)
            };
            owners.map(of).collect::<BTreeMap<_, _>>()
        };
        let found: Vec<_> = std::thread::scope(|scope| {
            let agents: Vec<_> = (0..4).map(|agent| scope.spawn(move || ask(agent))).collect();
            agents.into_iter().map(|agent| agent.join().unwrap()).collect()
        });
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
        let numbers: std::collections::BTreeSet<u32> = found[0].values().copied().collect();
        assert_eq!(numbers.len(), 40);
    }

    #[test]
    fn a_place_that_tasks_cannot_reach_or_could_change_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let set = |mode| std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let made = |name: &str| tasks_directory(&dir.path().join(name), Path::new("c/n"));
        set(0o700);
        assert!(made("a").unwrap_err().to_string().contains("cannot pass"));
        set(0o777);
        assert!(made("b").unwrap_err().to_string().contains("others can change"));
        set(0o711);
        let path = made("c").unwrap();
        assert!(path.ends_with("c/c/n"));
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o711);
    }
}
