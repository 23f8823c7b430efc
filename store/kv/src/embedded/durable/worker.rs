//! The log and its checkpoints as the sequencer uses them: append now, checkpoint in the background.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::checkpoint::{CheckpointError, Order, checkpoint_write};
use super::disk::Disk;
use super::log::{Log, disk_failed, segment_name, spare_name};
use crate::contract::{KvError, Version};
use crate::embedded::memory::{Memory, MemoryKey};
use crate::embedded::mutation::Mutation;
use crate::embedded::sequencer::{AppendError, Durable};

/// How many times the log that starts a checkpoint may grow while one is being written, before commits wait.
const BEHIND_MAX: u64 = 4;

/// Versions (microseconds) between two attempts at a checkpoint on a full disk. Elsewhere a checkpoint that failed is
/// tried again when the log has grown as far again.
const RETRY_VERSIONS: Version = 5_000_000;

/// One checkpoint to write.
struct CheckpointJob {
    version: Version,
    ceiling: Version,
    /// Keys changed since the last checkpoint, in no order.
    dirty: Vec<MemoryKey>,
    memory: Arc<Memory>,
    /// Segments that are not needed afterwards.
    segments: Vec<u64>,
    bytes: u64,
    /// Whether all rows go into a new file.
    whole: bool,
    slack_bytes: u64,
    /// How many of the segments to keep as spares, and of which length.
    spares: (usize, u64),
}

/// What became of a job: the spares that it made.
pub(super) type CheckpointDone = Result<Vec<u64>, Failed>;

/// A job that failed.
pub(super) struct Failed {
    dirty: Vec<MemoryKey>,
    /// Whether the file may not be what it seems, so that the next checkpoint has to be whole.
    unsure: bool,
}

/// A job, ready to be run somewhere.
pub(super) type CheckpointWork = Box<dyn FnOnce() -> CheckpointDone + Send>;

/// Where checkpoints are written while commits go on.
pub(super) trait Background: Send {
    /// Starts the work. A handle that ends in a panic is an ordinary end of a checkpoint that failed.
    fn start(&self, work: CheckpointWork) -> io::Result<JoinHandle<CheckpointDone>>;

    /// Whether the work is done.
    fn ended(&self, work: &JoinHandle<CheckpointDone>) -> bool {
        work.is_finished()
    }

    /// Told before the sequencer waits for the work.
    fn awaited(&self) {}
}

/// A thread for each checkpoint.
pub(super) struct CheckpointThreads;

impl Background for CheckpointThreads {
    fn start(&self, work: CheckpointWork) -> io::Result<JoinHandle<CheckpointDone>> {
        std::thread::Builder::new().name("kv-checkpoint".to_owned()).spawn(work)
    }
}

/// The log, and the checkpoint that is being written.
pub(super) struct DurableLog {
    log: Log,
    disk: Arc<dyn Disk>,
    ceiling: Version,
    checkpoint_bytes: u64,
    background: Box<dyn Background>,
    running: Option<RunningCheckpoint>,
    /// Whether the checkpoint's file may not be on the disk as the machine shows it.
    unsure: bool,
    /// Whether the last record found no room.
    pressed: bool,
    /// Whether the last record changed something: nothing behind it says that it was flushed.
    last_unconfirmed: bool,
    /// Whether an append failed in a way that leaves open what is on the disk: nothing may follow it.
    failed: bool,
    /// No checkpoint is begun before this version, since the last one failed.
    retry_at: Version,
}

/// A checkpoint being written.
struct RunningCheckpoint {
    thread: JoinHandle<CheckpointDone>,
    segments: Vec<u64>,
}

impl DurableLog {
    /// A log with its checkpoints. `unsure` says that the checkpoint that is there was not confirmed by the process
    /// that wrote it, which removes the segments that it replaces once it knows that it is durable.
    pub(super) fn new(
        log: Log,
        disk: Arc<dyn Disk>,
        ceiling: Version,
        checkpoint_bytes: u64,
        unsure: bool,
        background: Box<dyn Background>,
    ) -> Self {
        Self {
            log,
            disk,
            ceiling,
            checkpoint_bytes,
            background,
            running: None,
            unsure,
            pressed: false,
            last_unconfirmed: false,
            failed: false,
            retry_at: 0,
        }
    }

    /// Takes note of a checkpoint that has ended. Waits for that where the log has grown too far meanwhile: what the
    /// checkpoint does not hold yet fills the disk, the memory (nothing it reads is trimmed) and the next start.
    fn checkpoint_end(&mut self, version: Version, memory: &Memory) {
        let behind = self.log.bytes() >= self.checkpoint_bytes.saturating_mul(BEHIND_MAX);
        if behind && self.running.is_some() {
            self.background.awaited();
        }
        let Some(RunningCheckpoint { thread, segments }) =
            self.running.take_if(|running| behind || self.background.ended(&running.thread))
        else {
            return;
        };
        let done = thread.join();
        memory.unpin();
        match done {
            Ok(Ok(spares)) => {
                self.unsure = false;
                self.log.spares_add(spares);
            }
            Ok(Err(Failed { dirty, unsure })) => {
                self.unsure |= unsure;
                memory.dirty_return(dirty);
                self.checkpoint_failed(version, segments);
            }
            Err(_) => self.checkpoint_lost(version, segments),
        }
    }

    /// What was to be written is gone with the thread; a whole checkpoint needs no list of changes.
    fn checkpoint_lost(&mut self, version: Version, segments: Vec<u64>) {
        tracing::error!("the checkpoint's thread failed; the log is kept");
        self.unsure = true;
        self.checkpoint_failed(version, segments);
    }

    fn checkpoint_failed(&mut self, version: Version, segments: Vec<u64>) {
        self.log.unroll(segments);
        if self.pressed {
            self.retry_at = version.saturating_add(RETRY_VERSIONS);
        }
    }

    fn checkpoint_begin(&mut self, version: Version, memory: &Arc<Memory>) {
        let bytes = self.log.bytes();
        let segments = match self.log.roll() {
            Ok(segments) => segments,
            Err(error) => {
                tracing::warn!(%error, "no checkpoint: the log cannot go to a new segment");
                self.retry_at = version.saturating_add(RETRY_VERSIONS);
                return;
            }
        };
        let at = self.log.last_version();
        memory.pin(at);
        let job = CheckpointJob {
            version: at,
            ceiling: self.ceiling,
            dirty: memory.dirty_take(),
            memory: Arc::clone(memory),
            segments: segments.clone(),
            bytes,
            whole: self.unsure,
            slack_bytes: self.checkpoint_bytes / 4,
            // Where room is short, all of it is given back.
            spares: if self.pressed { (0, 0) } else { self.log.spares_wanted(self.checkpoint_bytes) },
        };
        let disk = Arc::clone(&self.disk);
        match self.background.start(Box::new(move || job_run(disk.as_ref(), job))) {
            Ok(thread) => self.running = Some(RunningCheckpoint { thread, segments }),
            Err(error) => {
                tracing::warn!(%error, "no thread for a checkpoint");
                memory.unpin();
                self.checkpoint_lost(version, segments);
            }
        }
    }

    fn checkpoint_due(&self, version: Version) -> bool {
        let grown = self.log.bytes() >= self.checkpoint_bytes;
        // Room that the log takes comes back even though it has not grown far.
        version >= self.retry_at && (grown || (self.pressed && self.log.has_sealed()))
    }
}

fn job_run(disk: &dyn Disk, mut job: CheckpointJob) -> CheckpointDone {
    job.dirty.sort_unstable();
    job.dirty.dedup();
    let order = Order {
        version: job.version,
        ceiling: job.ceiling,
        dirty: &job.dirty,
        memory: &job.memory,
        whole: job.whole,
        slack_bytes: job.slack_bytes,
    };
    if let Err(CheckpointError { source: error, unsure }) = checkpoint_write(disk, &order) {
        tracing::warn!(%error, unsure, bytes = job.bytes, "checkpoint failed; the log is kept");
        return Err(Failed { dirty: job.dirty, unsure });
    }
    let spares = segments_retire(disk, &job.segments, job.spares);
    tracing::debug!(version = job.version, keys = job.dirty.len(), bytes = job.bytes, "checkpoint");
    Ok(spares)
}

/// Removes segments that a checkpoint has replaced, but for up to `wanted` of them that become spares. One that stays
/// behind is skipped at the next start; it only takes room.
fn segments_retire(disk: &dyn Disk, segments: &[u64], (wanted, length): (usize, u64)) -> Vec<u64> {
    let mut spares = Vec::new();
    for sequence in segments {
        let name = segment_name(*sequence);
        let fits = spares.len() < wanted
            && disk.open(&name).and_then(|file| file.length()).is_ok_and(|found| found == length);
        let done = if fits { disk.rename(&name, &spare_name(*sequence)) } else { disk.remove(&name) };
        match done {
            Ok(()) if fits => spares.push(*sequence),
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, sequence, "old log segment not removed"),
        }
    }
    let Err(error) = disk.directory_sync() else { return spares };
    tracing::warn!(%error, "directory not flushed after a checkpoint");
    // After a crash they may have their old names again, and must not hold anything else then.
    spares.iter().for_each(|sequence| drop(disk.remove(&spare_name(*sequence))));
    Vec::new()
}

impl Durable for DurableLog {
    fn append(
        &mut self,
        version: Version,
        ceiling: Option<Version>,
        mutations: &[Mutation],
    ) -> Result<(), AppendError> {
        let appended = self.log.append(version, ceiling, mutations);
        self.pressed = matches!(appended, Err(AppendError::NoSpace(_)));
        self.failed |= matches!(appended, Err(AppendError::Failed(_)));
        appended?;
        self.last_unconfirmed = !mutations.is_empty();
        self.ceiling = ceiling.unwrap_or(self.ceiling);
        Ok(())
    }

    fn maintain(&mut self, version: Version, memory: &Arc<Memory>) {
        self.checkpoint_end(version, memory);
        if self.running.is_none() && self.checkpoint_due(version) {
            self.checkpoint_begin(version, memory);
        }
    }

    fn is_unconfirmed(&self) -> bool {
        self.log.marker_due(true)
    }

    fn confirm(&mut self, idle: bool) -> Result<(), KvError> {
        if self.failed || !self.log.marker_due(idle) {
            return Ok(());
        }
        self.log.marker_flush().map_err(|error| {
            self.failed = true;
            disk_failed("marker of the commit log's end", &error)
        })
    }
}

impl Drop for DurableLog {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.background.awaited();
            // A panic of the thread was reported by itself; the log has everything.
            let _ = running.thread.join();
        }
        if self.last_unconfirmed && !self.failed {
            // After a clean end no record is the last one that could pass for torn: damage to any of them shows. A
            // disk that is too full for this only makes the end an unclean one.
            let version = self.log.last_version().saturating_add(1);
            let _ = self.log.append(version, None, &[]);
        }
        let _ = self.confirm(true);
    }
}
