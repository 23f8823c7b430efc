//! The log and its checkpoints as the sequencer uses them: it appends at once, and checkpoints in the background.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::checkpoint::{CheckpointError, Order, checkpoint_write};
use super::disk::Disk;
use super::log::{Log, SpareSegments, disk_failed, segment_name, spare_name};
use super::recover::LogEnd;
use crate::contract::{KvError, Version};
use crate::embedded::memory::{Memory, MemoryKey};
use crate::embedded::mutation::Mutation;
use crate::embedded::sequencer::{AppendError, Durable, Flush, Load};

/// While a checkpoint is being written, the log may grow to so many times the size that starts one. Beyond that,
/// commits wait.
const BEHIND_MAX: u64 = 4;

/// Versions (microseconds) between two tries of a checkpoint on a full disk. Otherwise a failed checkpoint is tried
/// again after the log has grown as much again.
const RETRY_VERSIONS: Version = 5_000_000;

/// One checkpoint to write.
struct CheckpointJob {
    version: Version,
    ceiling: Version,
    /// Keys changed since the last checkpoint, in no order.
    dirty: Vec<MemoryKey>,
    memory: Arc<Memory>,
    /// Segments that are obsolete afterwards.
    segments: Vec<u64>,
    bytes: u64,
    /// Whether all rows go into a new file.
    whole: bool,
    slack_bytes: u64,
    spares: SpareSegments,
}

/// The result of a job: the spares that it made.
pub(super) type CheckpointDone = Result<Vec<u64>, Failed>;

/// A job that failed.
pub(super) struct Failed {
    dirty: Vec<MemoryKey>,
    /// Whether the file may differ from what the machine shows, so that the next checkpoint must be whole.
    unsure: bool,
}

/// A job, ready to run anywhere.
pub(super) type CheckpointWork = Box<dyn FnOnce() -> CheckpointDone + Send>;

/// Writes checkpoints while commits continue.
pub(super) trait Background: Send {
    /// Starts the work. A panic in it counts as a failed checkpoint.
    fn start(&self, work: CheckpointWork) -> io::Result<JoinHandle<CheckpointDone>>;

    fn ended(&self, work: &JoinHandle<CheckpointDone>) -> bool {
        work.is_finished()
    }

    /// Called before the sequencer waits for the work.
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
    /// Whether the checkpoint's file on the disk may differ from what the machine shows.
    unsure: bool,
    /// Whether the last record found no space.
    pressed: bool,
    /// Whether the last record changed something: no later record proves that it was flushed.
    last_unconfirmed: bool,
    /// Whether a failed append has left the content of the disk unknown: nothing may follow it.
    failed: bool,
    /// No checkpoint begins before this version, since the last one failed.
    retry_at: Version,
}

/// A checkpoint being written.
struct RunningCheckpoint {
    thread: JoinHandle<CheckpointDone>,
    segments: Vec<u64>,
}

impl DurableLog {
    /// A log with its checkpoints, as an opening has found it. If obsolete segments are left, the process before did
    /// not confirm the present checkpoint: it removes them after it knows that the checkpoint is durable.
    pub(super) fn new(
        log: Log,
        disk: Arc<dyn Disk>,
        ceiling: Version,
        checkpoint_bytes: u64,
        found: &LogEnd,
        background: Box<dyn Background>,
    ) -> Self {
        Self {
            log,
            disk,
            ceiling,
            checkpoint_bytes,
            background,
            running: None,
            unsure: found.obsolete > 0,
            pressed: false,
            last_unconfirmed: false,
            failed: false,
            retry_at: 0,
        }
    }

    /// Handles the end of a checkpoint. Waits for that end if the log has grown too far. Changes that the checkpoint
    /// does not contain fill the disk and the memory (nothing that it reads is trimmed), and slow the next start.
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

    /// The list of changes is lost with the thread; a whole checkpoint needs none.
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

    /// An error means that the disk of the log has failed.
    fn checkpoint_begin(&mut self, version: Version, memory: &Arc<Memory>) -> Result<(), KvError> {
        let bytes = self.log.bytes();
        let segments = match self.log.roll() {
            Ok(segments) => segments,
            Err(AppendError::Failed(error)) => {
                self.failed = true;
                return Err(error);
            }
            Err(AppendError::NoSpace(error) | AppendError::Resources(error)) => {
                tracing::warn!(%error, "no checkpoint: the log cannot go to a new segment");
                self.retry_at = version.saturating_add(RETRY_VERSIONS);
                return Ok(());
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
            // If space is short, all of it is freed.
            spares: if self.pressed {
                SpareSegments::default()
            } else {
                self.log.spares_wanted(self.checkpoint_bytes)
            },
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
        Ok(())
    }

    fn checkpoint_due(&self, version: Version) -> bool {
        let grown = self.log.bytes() >= self.checkpoint_bytes;
        // Space of the log is freed even if the log has not grown far.
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

/// Removes segments that a checkpoint has replaced, except for those that become spares. A segment
/// that is left over is skipped at the next start; it only takes space.
fn segments_retire(disk: &dyn Disk, segments: &[u64], spares_kept: SpareSegments) -> Vec<u64> {
    let mut spares = Vec::new();
    for sequence in segments {
        let name = segment_name(*sequence);
        let fits = spares.len() < spares_kept.wanted
            && disk.open(&name).and_then(|file| file.length()).is_ok_and(|found| found == spares_kept.length);
        let done = if fits { disk.rename(&name, &spare_name(*sequence)) } else { disk.remove(&name) };
        match done {
            Ok(()) if fits => spares.push(*sequence),
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, sequence, "old log segment not removed"),
        }
    }
    let Err(error) = disk.directory_sync() else { return spares };
    tracing::warn!(%error, "directory not flushed after a checkpoint");
    // After a crash they may have their old names again, and must contain nothing else then.
    spares.iter().for_each(|sequence| drop(disk.remove(&spare_name(*sequence))));
    Vec::new()
}

impl Durable for DurableLog {
    fn append(
        &mut self,
        version: Version,
        ceiling: Option<Version>,
        mutations: &[Mutation],
        flush: Flush,
    ) -> Result<(), AppendError> {
        let appended = self.log.append(version, ceiling, mutations, flush);
        self.pressed = matches!(appended, Err(AppendError::NoSpace(_)));
        self.failed |= matches!(appended, Err(AppendError::Failed(_)));
        appended?;
        self.last_unconfirmed = !mutations.is_empty();
        self.ceiling = ceiling.unwrap_or(self.ceiling);
        Ok(())
    }

    fn maintain(&mut self, version: Version, memory: &Arc<Memory>) -> Result<(), KvError> {
        self.checkpoint_end(version, memory);
        let due = self.running.is_none() && self.checkpoint_due(version);
        if due { self.checkpoint_begin(version, memory) } else { Ok(()) }
    }

    fn is_unconfirmed(&self) -> bool {
        self.log.marker_due(Load::Idle)
    }

    fn confirm(&mut self, load: Load) -> Result<(), KvError> {
        if self.failed || !self.log.marker_due(load) {
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
            // The panic hook has reported a panic of the thread; the log has everything.
            let _ = running.thread.join();
        }
        if self.last_unconfirmed && !self.failed {
            // After a clean end no record is the last one that could pass for torn, so damage to any of them shows. If
            // the disk is too full for this, the end only counts as unclean.
            let version = self.log.last_version().saturating_add(1);
            let _ = self.log.append(version, None, &[], Flush::Now);
        }
        let _ = self.confirm(Load::Idle);
    }
}
