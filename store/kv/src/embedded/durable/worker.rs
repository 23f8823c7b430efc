//! The log and its checkpoints as the sequencer uses them: append now, checkpoint in the background.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use bytes::Bytes;

use super::checkpoint::checkpoint_write;
use super::disk::Disk;
use super::log::{Log, segment_name};
use crate::contract::Version;
use crate::embedded::memory::Memory;
use crate::embedded::mutation::Mutation;
use crate::embedded::sequencer::{AppendError, Durable};

/// One checkpoint to write.
struct Job {
    version: Version,
    ceiling: Version,
    dirty: BTreeSet<Bytes>,
    memory: Arc<Memory>,
    /// Segments that are not needed afterwards.
    segments: Vec<u64>,
    bytes: u64,
}

/// What became of a job: nothing to give back where it succeeded.
type Done = Result<(), Job>;

/// The log, and the thread that writes checkpoints.
pub(super) struct DurableLog {
    log: Log,
    ceiling: Version,
    checkpoint_bytes: u64,
    jobs: Option<mpsc::Sender<Job>>,
    done: mpsc::Receiver<Done>,
    running: bool,
    thread: Option<JoinHandle<()>>,
}

impl DurableLog {
    pub(super) fn start(
        log: Log,
        disk: Arc<dyn Disk>,
        ceiling: Version,
        checkpoint_bytes: u64,
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
            thread: Some(thread),
        })
    }

    fn checkpoint_end(&mut self, memory: &Memory) {
        let Ok(done) = self.done.try_recv() else { return };
        self.running = false;
        memory.unpin();
        if let Err(job) = done {
            memory.dirty_return(job.dirty);
            self.log.unroll(job.segments);
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
        let job = Job { version, ceiling: self.ceiling, dirty, memory: Arc::clone(memory), segments, bytes };
        self.running = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
    }
}

fn job_run(disk: &dyn Disk, job: Job) -> Done {
    if let Err(error) = checkpoint_write(disk, job.version, job.ceiling, &job.dirty, &job.memory) {
        tracing::warn!(%error, bytes = job.bytes, "checkpoint failed; the log is kept");
        return Err(job);
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
