//! The directory of one attempt.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, lchown, symlink};
use std::path::Path;
use std::sync::Arc;

use borough_proto::v1;
use borough_shim::file::{
    Durability, json_read, json_rewrite, json_write, own_read, reserve_make, reserve_release,
};
use borough_shim::record::{AttemptRecord, ExitRecord, STATE_FILE};
use borough_shim::spec::{SPEC_FILE, STOP_FILE, Spec, StopOrder, WORK_DIR};
use borough_shim::tree::tree_remove;
use borough_shim::user::TaskUser;
use prost::Message as _;

use super::StateDir;
use crate::attempt::AttemptId;
use crate::decide::resize::assignment_resized;
use crate::decide::{AttemptState, ResizeRecord, ShimState};

/// The assignment, as it came over the wire.
pub(super) const ASSIGNMENT_FILE: &str = "assignment.pb";
/// The last result of probes, so that a restart of the agent does not withdraw an endpoint.
pub(crate) const HEALTH_FILE: &str = "health.json";
/// The result of the last order to resize the attempt.
pub(crate) const RESIZE_FILE: &str = "resize.json";
/// The requests whose signals were sent.
pub(crate) const SIGNALS_FILE: &str = "signals.json";

/// The content of an attempt's directory.
#[derive(Debug)]
pub struct AttemptFiles {
    /// The state that follows from the files. Only a look at the processes shows whether the shim still runs.
    pub attempt: AttemptState,
    /// The boot of the attempt; absent if no file says so.
    pub boot_id: Option<String>,
}

/// Makes an attempt's directory, whole or not at all.
///
/// # Errors
/// Those of the file system. Nothing is left then, as far as the disk allows the removal.
pub(crate) fn attempt_begin(
    state: &StateDir,
    id: &AttemptId,
    assignment: &v1::Assignment,
    spec: Option<&Spec>,
) -> io::Result<()> {
    let temporary = state.root.join("attempts").join(format!(".new.{id}"));
    let made = attempt_make(state, id, &temporary, assignment, spec);
    if made.is_err() {
        let _ = tree_remove(&temporary);
        // The directory of a task with a user of its own is elsewhere, perhaps on another disk, where nobody would look
        // for it before the next start. Any other is within the attempt's directory, which may be an earlier attempt's.
        if spec.is_some_and(|spec| spec.user.is_some()) {
            let _ = tree_remove(&state.work(id));
        }
    }
    made
}

fn attempt_make(
    state: &StateDir,
    id: &AttemptId,
    temporary: &Path,
    assignment: &v1::Assignment,
    spec: Option<&Spec>,
) -> io::Result<()> {
    tree_remove(temporary)?;
    DirBuilder::new().mode(0o700).create(temporary)?;
    work_make(state, id, &temporary.join(WORK_DIR), spec.and_then(|spec| spec.user))?;
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary.join(ASSIGNMENT_FILE))?;
    file.write_all(&assignment.encode_to_vec())?;
    if let Some(spec) = spec {
        json_write(temporary, SPEC_FILE, spec, Durability::Process)?;
        reserve_make(temporary)?;
    }
    fs::rename(temporary, state.attempt(id))
}

/// Makes the task's own directory: `own`, or one that its user can reach, with `own` as a link to it.
fn work_make(state: &StateDir, id: &AttemptId, own: &Path, user: Option<TaskUser>) -> io::Result<()> {
    let Some(user) = user else { return DirBuilder::new().mode(0o700).create(own) };
    let work = state.work(id);
    tree_remove(&work)?;
    DirBuilder::new().mode(0o700).create(&work)?;
    // Root owns the directories above it, so it is still the directory that was just made.
    lchown(&work, Some(user.uid), Some(user.gid))?;
    symlink(&work, own)
}

/// Reads an attempt's directory. Logs damaged files and treats them as missing.
pub(crate) fn attempt_load(directory: &Path) -> AttemptFiles {
    let assignment = match own_read(&directory.join(ASSIGNMENT_FILE)) {
        Ok(bytes) => v1::Assignment::decode(bytes.as_slice())
            .inspect_err(|error| tracing::warn!(path = %directory.display(), %error, "unreadable assignment"))
            .ok(),
        Err(_) => None,
    };
    let record: AttemptRecord = read(directory, STATE_FILE).unwrap_or_default();
    let spec: Option<Spec> = read(directory, SPEC_FILE);
    let boot_id =
        Some(record.boot_id.clone()).filter(|id| !id.is_empty()).or_else(|| spec.map(|spec| spec.boot_id));
    let resize: ResizeRecord = read(directory, RESIZE_FILE).unwrap_or_default();
    let attempt = AttemptState {
        assignment: assignment.map(|of| assignment_resized(&Arc::new(of), &resize)),
        resize,
        shim: if record.boot_id.is_empty() { ShimState::None } else { ShimState::Gone },
        stop: read::<StopOrder>(directory, STOP_FILE),
        health: v1::Health::try_from(read(directory, HEALTH_FILE).unwrap_or(0)).unwrap_or_default(),
        record,
        ..AttemptState::default()
    };
    AttemptFiles { attempt, boot_id }
}

/// An attempt's record; absent before its shim has written the first.
pub(crate) fn record_read(directory: &Path) -> Option<AttemptRecord> {
    read(directory, STATE_FILE)
}

fn read<T: serde::de::DeserializeOwned>(directory: &Path, name: &str) -> Option<T> {
    match json_read(directory, name) {
        Ok(value) => value,
        Err(error) => {
            tracing::warn!(path = %directory.join(name).display(), %error, "unreadable record");
            None
        }
    }
}

/// Completes the record of an attempt without a shim: it never had one, or the machine was rebooted.
///
/// # Errors
/// Those of the file system.
pub(crate) fn attempt_end_write(
    directory: &Path,
    record: &mut AttemptRecord,
    exit: ExitRecord,
) -> io::Result<()> {
    let at_ms = exit.at_ms;
    record.exit.get_or_insert(exit);
    record.released_ms = Some(at_ms);
    json_rewrite(directory, STATE_FILE, record)?;
    reserve_release(directory);
    Ok(())
}
