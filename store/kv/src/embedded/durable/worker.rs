//! The log and its checkpoints as the sequencer uses them: append now, checkpoint in the background.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use bytes::Bytes;

use super::checkpoint::{CheckpointError, Order, checkpoint_write};
use super::disk::Disk;
use super::log::{Log, segment_name};
use crate::contract::Version;
use crate::embedded::memory::Memory;
use crate::embedded::mutation::Mutation;
use crate::embedded::sequencer::{AppendError, Durable};

/// How many times the log that starts a checkpoint may grow while one is being written, before commits wait.
const BEHIND_MAX: u64 = 4;

/// One checkpoint to write.
struct Job {
    version: Version,
    ceiling: Version,
    /// Keys changed since the last checkpoint, in no order.
    dirty: Vec<Bytes>,
    memory: Arc<Memory>,
    /// Segments that are not needed afterwards.
    segments: Vec<u64>,
    bytes: u64,
    /// Whether all rows go into a new file.
    whole: bool,
    slack_bytes: u64,
}

/// What became of a job: nothing to give back where it succeeded.
type Done = Result<(), Box<Failed>>;

/// A job that failed.
struct Failed {
    job: Job,
    /// Whether the file may not be what it seems, so that the next checkpoint has to be whole.
    unsure: bool,
}

/// The log, and the thread that writes checkpoints.
pub(super) struct DurableLog {
    log: Log,
    ceiling: Version,
    checkpoint_bytes: u64,
    jobs: Option<mpsc::Sender<Job>>,
    done: mpsc::Receiver<Done>,
    running: bool,
    /// Whether the checkpoint's file may not be on the disk as the machine shows it.
    unsure: bool,
    thread: Option<JoinHandle<()>>,
}

impl DurableLog {
    /// Starts the thread. `unsure` says that the checkpoint that is there was not confirmed by the process that wrote
    /// it, which removes the segments that it replaces once it knows that it is durable.
    pub(super) fn start(
        log: Log,
        disk: Arc<dyn Disk>,
        ceiling: Version,
        checkpoint_bytes: u64,
        unsure: bool,
    ) -> std::io::Result<Self> {
        let (jobs, waiting) = mpsc::channel::<Job>();
        let (answer, done) = mpsc::channel();
        let thread = std::thread::Builder::new().name("kv-checkpoint".to_owned()).spawn(move || {
            for job in waiting {
                if answer.send(job_run(disk.as_ref(), job)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            log,
            ceiling,
            checkpoint_bytes,
            jobs: Some(jobs),
            done,
            running: false,
            unsure,
            thread: Some(thread),
        })
    }

    /// Takes note of a checkpoint that has ended. Waits for that where the log has grown too far meanwhile: what the
    /// checkpoint does not hold yet fills the disk, the memory (nothing it reads is trimmed) and the next start.
    fn checkpoint_end(&mut self, memory: &Memory) {
        let behind = self.log.bytes() >= self.checkpoint_bytes.saturating_mul(BEHIND_MAX);
        let done = if behind { self.done.recv().ok() } else { self.done.try_recv().ok() };
        let Some(done) = done else { return };
        self.running = false;
        memory.unpin();
        match done {
            Ok(()) => self.unsure = false,
            Err(failed) => {
                self.unsure |= failed.unsure;
                memory.dirty_return(failed.job.dirty);
                self.log.unroll(failed.job.segments);
            }
        }
    }

    fn checkpoint_begin(&mut self, version: Version, memory: &Arc<Memory>) {
        let bytes = self.log.bytes();
        let segments = match self.log.roll() {
            Ok(segments) => segments,
            Err(error) => {
                tracing::warn!(%error, "no checkpoint: the log cannot go to a new segment");
                return;
            }
        };
        memory.pin(version);
        let dirty = memory.dirty_take();
        let job = Job {
            version,
            ceiling: self.ceiling,
            dirty,
            memory: Arc::clone(memory),
            segments,
            bytes,
            whole: self.unsure,
            slack_bytes: self.checkpoint_bytes / 4,
        };
        self.running = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
    }
}

fn job_run(disk: &dyn Disk, mut job: Job) -> Done {
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
        return Err(Box::new(Failed { job, unsure }));
    }
    // A segment that stays behind is skipped at the next start; it only takes room.
    for sequence in &job.segments {
        if let Err(error) = disk.remove(&segment_name(*sequence)) {
            tracing::warn!(%error, sequence, "old log segment not removed");
        }
    }
    if let Err(error) = disk.directory_sync() {
        tracing::warn!(%error, "directory not flushed after a checkpoint");
    }
    tracing::debug!(version = job.version, keys = job.dirty.len(), bytes = job.bytes, "checkpoint");
    Ok(())
}

impl Durable for DurableLog {
    fn append(
        &mut self,
        version: Version,
        ceiling: Option<Version>,
        mutations: &[Mutation],
    ) -> Result<(), AppendError> {
        self.log.append(version, ceiling, mutations)?;
        self.ceiling = ceiling.unwrap_or(self.ceiling);
        Ok(())
    }

    fn maintain(&mut self, version: Version, memory: &Arc<Memory>) {
        if self.running {
            self.checkpoint_end(memory);
        }
        if !self.running && self.log.bytes() >= self.checkpoint_bytes {
            self.checkpoint_begin(version, memory);
        }
    }
}

impl Drop for DurableLog {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by itself; the log has everything.
            let _ = thread.join();
        }
    }
}
