//! The state directory. It belongs to one agent at a time, has one format, and holds the attempts that are not
//! forgotten and the logs of those that are.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, MetadataExt as _, OpenOptionsExt, PermissionsExt as _};
use std::path::{Path, PathBuf};

use borough_shim::file::{Durability, json_read, json_write};
use borough_shim::record::{AttemptRecord, STATE_FILE};
use borough_shim::spec::{HELPERS_DIR, SPEC_FILE, WORK_DIR};
use borough_shim::tree::tree_remove;
use rustix::fs::{FlockOperation, flock};

use super::attempt_dir::{ASSIGNMENT_FILE, SIGNALS_FILE};
use super::identity::HostGuard;
use crate::attempt::AttemptId;
use crate::decide::retention::Ended;
use crate::error::AgentError;

/// The format of this version. A directory with another format is left alone.
const FORMAT: &str = "borough agent state 2\n";

/// The node that the attempts of the directory belong to.
const OWNER_FILE: &str = "node.json";

/// Whose directory it is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct DirectoryOwner {
    pub cell: String,
    pub node: String,
}

impl std::fmt::Display for DirectoryOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "node {} of cell {}", self.node, self.cell)
    }
}

/// Held by the one agent of the state directory while it runs.
#[derive(Debug)]
pub(crate) struct StateLock {
    file: File,
    host: Option<HostGuard>,
}

impl StateLock {
    /// Adds the guard of the host.
    #[must_use]
    pub(crate) fn with(self, host: HostGuard) -> Self {
        let mut lock = self;
        lock.host = Some(host);
        lock
    }
}

impl Drop for StateLock {
    /// Unlocks explicitly. A lock that is only closed lasts until a child of another thread has executed its program.
    /// An agent that starts meanwhile would find the directory locked.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// The agent's directory.
#[derive(Debug)]
pub(crate) struct StateDir {
    /// An absolute path.
    pub root: PathBuf,
    /// Where tasks that run as other users have their directories: those users cannot pass through the state directory.
    /// Absent: below the directories of their attempts.
    pub tasks: Option<PathBuf>,
}

impl StateDir {
    /// Opens or creates the directory and locks it.
    ///
    /// # Errors
    /// Another agent has it, a newer version wrote it, or it cannot be used.
    pub(crate) fn open(path: &Path) -> Result<(Self, StateLock), AgentError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| AgentError::State { path, source }
        };
        private_create(path).map_err(failed(path))?;
        let root = path.canonicalize().map_err(failed(path))?;
        let lock_path = root.join("lock");
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(&lock_path);
        let lock = lock.map_err(failed(&lock_path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(AgentError::Locked { path: root }),
            Err(error) => return Err(failed(&lock_path)(error.into())),
        }
        format_check(&root)?;
        files_tighten(&root);
        for name in ["attempts", "ended", "bin"] {
            let path = root.join(name);
            private_create(&path).map_err(failed(&path))?;
        }
        Ok((Self { root, tasks: None }, StateLock { file: lock, host: None }))
    }

    /// Refuses a directory with attempts of another node: the cell would have them ended, since they are not this
    /// node's. Without attempts it becomes this node's.
    ///
    /// # Errors
    /// It is another node's, or cannot be read or written.
    pub(crate) fn node_check(&self, owner: &DirectoryOwner) -> Result<(), AgentError> {
        // A damaged one says nothing.
        let known: Option<DirectoryOwner> = json_read(&self.root, OWNER_FILE).unwrap_or_default();
        if known.as_ref() == Some(owner) {
            return Ok(());
        }
        let failed = |source| AgentError::State { path: self.root.clone(), source };
        let attempts = self.attempts().map_err(failed)?.len();
        if let Some(known) = known.filter(|_| attempts > 0) {
            let (known, own, path) = (known.to_string(), owner.to_string(), self.root.clone());
            return Err(AgentError::OtherNode { path, known, own, attempts });
        }
        // A full disk does not keep an agent from its tasks. The next start tries again.
        if let Err(error) = json_write(&self.root, OWNER_FILE, owner, Durability::Power) {
            tracing::warn!(path = %self.root.display(), %error, "cannot note whose directory this is");
        }
        Ok(())
    }

    /// The directory of an attempt that is not forgotten.
    pub(crate) fn attempt(&self, id: &AttemptId) -> PathBuf {
        self.root.join("attempts").join(id.to_string())
    }

    /// The own directory of an attempt's task.
    pub(crate) fn work(&self, id: &AttemptId) -> PathBuf {
        match &self.tasks {
            Some(tasks) => tasks.join(id.to_string()),
            None => self.attempt(id).join(WORK_DIR),
        }
    }

    /// Removes the directories of tasks whose attempts are not here: an earlier agent could not remove them, or another
    /// state directory was in this place.
    ///
    /// # Errors
    /// The directories cannot be listed or removed.
    pub(crate) fn work_strays_remove(&self, attempts: &[AttemptId]) -> io::Result<()> {
        let Some(tasks) = &self.tasks else { return Ok(()) };
        for entry in fs::read_dir(tasks)?.flatten() {
            let id = entry.file_name().to_str().and_then(|name| name.parse::<AttemptId>().ok());
            if id.is_none_or(|id| !attempts.contains(&id)) {
                tree_remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// The directory of an attempt that is forgotten.
    pub(crate) fn ended(&self, id: &AttemptId) -> PathBuf {
        self.root.join("ended").join(id.to_string())
    }

    /// Attempts that are not forgotten. Removes half-made directories: nothing was started in them.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub(crate) fn attempts(&self) -> io::Result<Vec<AttemptId>> {
        let directory = self.root.join("attempts");
        for entry in fs::read_dir(&directory)?.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b".new.") {
                tree_remove(&entry.path())?;
            }
        }
        ids(&directory)
    }

    /// Moves the files of an attempt to `ended/`, which records that it was forgotten. Removes the task's own directory
    /// and all files that may contain secrets.
    ///
    /// # Errors
    /// It cannot be moved; it is then still an attempt.
    pub(crate) fn forget(&self, id: &AttemptId) -> io::Result<()> {
        let target = self.ended(id);
        match fs::rename(self.attempt(id), &target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        }
        let task_directory = self.tasks.as_ref().map(|tasks| tasks.join(id.to_string()));
        for work in [target.join(WORK_DIR)].into_iter().chain(task_directory) {
            if let Err(error) = tree_remove(&work) {
                tracing::warn!(attempt = %id, path = %work.display(), %error, "a directory of an ended attempt cannot be removed yet");
            }
        }
        for name in [SPEC_FILE, ASSIGNMENT_FILE, SIGNALS_FILE] {
            let _ = fs::remove_file(target.join(name));
        }
        Ok(())
    }

    /// Moves the files of a forgotten attempt back. Returns true if there were any.
    pub(crate) fn recall(&self, id: &AttemptId) -> bool {
        fs::rename(self.ended(id), self.attempt(id)).is_ok()
    }

    /// Forgotten attempts, for the choice of those whose logs are removed.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub(crate) fn ended_list(&self) -> io::Result<Vec<Ended>> {
        let ended = |id: AttemptId| {
            let path = self.ended(&id);
            let record =
                json_read::<AttemptRecord>(&path, STATE_FILE).unwrap_or_default().unwrap_or_default();
            let within = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
            let of_helpers = within(path.join(HELPERS_DIR)).flat_map(|entry| within(entry.path()));
            let sizes = within(path).chain(of_helpers);
            // The space used on the disk: a sparse file is long and uses little.
            let size = |data: fs::Metadata| data.len().min(data.blocks().saturating_mul(512));
            let bytes = sizes.filter_map(|entry| entry.metadata().ok()).map(size).sum();
            Ended { id, at_ms: record.released_ms.unwrap_or(0), bytes }
        };
        Ok(ids(&self.root.join("ended"))?.into_iter().map(ended).collect())
    }

    /// Removes the rest of a forgotten attempt.
    ///
    /// # Errors
    /// Those of the file system. The removal is tried again later.
    pub(crate) fn ended_remove(&self, id: &AttemptId) -> io::Result<()> {
        tree_remove(&self.ended(id))
    }

    /// The attempt `incarnation` of a task if it has files; 0: the newest attempt that has files.
    pub(crate) fn attempt_find(&self, job_id: &str, index: u32, incarnation: u64) -> Option<AttemptId> {
        let both = ["attempts", "ended"].map(|name| ids(&self.root.join(name)).unwrap_or_default());
        let of_task = |id: &AttemptId| {
            id.job_id == job_id && id.index == index && (incarnation == 0 || id.incarnation == incarnation)
        };
        both.into_iter().flatten().filter(of_task).max_by_key(|id| id.incarnation)
    }

    /// The directory with an attempt's files.
    pub(crate) fn attempt_path(&self, id: &AttemptId) -> PathBuf {
        let live = self.attempt(id);
        if live.exists() { live } else { self.ended(id) }
    }
}

fn ids(directory: &Path) -> io::Result<Vec<AttemptId>> {
    let name = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<AttemptId>().ok();
    Ok(fs::read_dir(directory)?.flatten().filter_map(name).collect())
}

fn private_create(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // An older version, or an operator, may have made the directory with other permissions.
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

/// Removes the permissions of others from files that an older version wrote.
fn files_tighten(root: &Path) {
    for name in ["format", "lock"] {
        // Its directory keeps others out in any case.
        let _ = fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o600));
    }
}

/// Reads or writes the directory's format. An unknown format is an error, and nothing is changed.
fn format_check(root: &Path) -> Result<(), AgentError> {
    let path = root.join("format");
    let failed = |source| AgentError::State { path: path.clone(), source };
    match fs::read(&path) {
        Ok(found) if found == FORMAT.as_bytes() => Ok(()),
        Ok(found) => Err(AgentError::Format {
            path: root.to_owned(),
            found: String::from_utf8_lossy(&found).trim_end().chars().take(80).collect(),
            known: FORMAT.trim_end(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if root.join("attempts").exists() {
                let found = "nothing, beside attempts".to_owned();
                return Err(AgentError::Format { path: root.to_owned(), found, known: FORMAT.trim_end() });
            }
            let temporary = root.join(".format.new");
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(true).mode(0o600);
            options
                .open(&temporary)
                .and_then(|mut file| file.write_all(FORMAT.as_bytes()))
                .map_err(failed)?;
            fs::rename(&temporary, &path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_agent_has_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let first = StateDir::open(dir.path()).unwrap();
        assert!(matches!(StateDir::open(dir.path()), Err(AgentError::Locked { .. })));
        drop(first);
        StateDir::open(dir.path()).unwrap();
    }

    /// The attempts of a node would be ended, if an agent of another node reported them.
    #[test]
    fn a_directory_with_attempts_is_of_one_node() {
        let dir = tempfile::tempdir().unwrap();
        let (state, _lock) = StateDir::open(dir.path()).unwrap();
        let of = |node: &str| DirectoryOwner { cell: "alpha".to_owned(), node: node.to_owned() };
        state.node_check(&of("n1")).unwrap();
        state.node_check(&of("n2")).unwrap();
        let id = AttemptId::new("j0000000000000007", 0, 1).unwrap();
        fs::create_dir(state.attempt(&id)).unwrap();
        state.node_check(&of("n2")).unwrap();
        let refused = state.node_check(&of("n1")).unwrap_err().to_string();
        assert!(refused.contains("is of node n2 of cell alpha and has 1 of its attempts"), "{refused}");
        fs::remove_dir(state.attempt(&id)).unwrap();
        state.node_check(&of("n1")).unwrap();
    }

    #[test]
    fn a_released_directory_is_free_even_if_a_child_inherited_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (_, lock) = StateDir::open(dir.path()).unwrap();
        // A child inherits this between fork and exec.
        let _inherited = lock.file.try_clone().unwrap();
        drop(lock);
        StateDir::open(dir.path()).unwrap();
    }

    #[test]
    fn another_format_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("format"), "borough agent state 99\n").unwrap();
        assert!(matches!(StateDir::open(dir.path()), Err(AgentError::Format { .. })));
        assert!(!dir.path().join("attempts").exists());
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("attempts")).unwrap();
        assert!(matches!(StateDir::open(dir.path()), Err(AgentError::Format { .. })));
    }

    #[test]
    fn a_forgotten_attempt_is_found_by_its_logs_only() {
        let dir = tempfile::tempdir().unwrap();
        let (state, _lock) = StateDir::open(dir.path()).unwrap();
        let id = AttemptId::new("j0000000000000001", 0, 2).unwrap();
        fs::create_dir_all(state.attempt(&id).join(WORK_DIR)).unwrap();
        fs::write(state.attempt(&id).join(SPEC_FILE), "secret").unwrap();
        fs::write(state.attempt(&id).join("stdout.0.log"), "kept").unwrap();
        state.forget(&id).unwrap();
        state.forget(&id).unwrap();
        assert!(state.attempts().unwrap().is_empty());
        assert_eq!(state.attempt_find("j0000000000000001", 0, 0), Some(id.clone()));
        let mut names: Vec<_> =
            fs::read_dir(state.attempt_path(&id)).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["stdout.0.log"]);
        assert_eq!(state.ended_list().unwrap()[0].bytes, 4);
        state.ended_remove(&id).unwrap();
        assert_eq!(state.attempt_find("j0000000000000001", 0, 0), None);
    }
}
