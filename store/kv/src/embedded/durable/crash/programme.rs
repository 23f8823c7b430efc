//! The programme itself: openings of a store on one disk, and their ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::super::open::store_open_with;
use super::super::{OpenError, OpenOptions};
use super::client::{batch_run, rows_read};
use super::disk::{DiskFault, DiskImage, SimDisk};
use super::model::{Ending, Model, differ};
use super::turns::InTurns;
use crate::contract::ErrorCode;
use crate::embedded::EmbeddedEngine;
use crate::env::{ManualClock, SeededRng};

/// Events over all seeds, so that a programme that reaches nothing is noticed.
#[derive(Debug, Default)]
pub(super) struct CrashEvents {
    attempts: u64,
    commits: u64,
    conflicts: u64,
    no_space: u64,
    kills: u64,
    closings: u64,
    /// Batches whose append failed that were found afterwards, and those that were not.
    open_kept: u64,
    open_lost: u64,
    /// Power cuts that lost acknowledged batches which were not flushed.
    undone: u64,
    /// Faults in the middle of a run and of an opening, by kind and call.
    in_attempts: BTreeMap<String, u64>,
    in_openings: BTreeMap<String, u64>,
}

impl CrashEvents {
    /// The events that a few hundred seeds must reach.
    fn check(&self) {
        let Self { conflicts, no_space, kills, closings, open_kept, open_lost, undone, .. } = self;
        let counts = [conflicts, no_space, kills, closings, open_kept, open_lost, undone];
        assert!(counts.iter().all(|count| **count > 0), "{self:?}");
        for expected in [
            "PowerCut log Write",
            "PowerCut log FileFlush",
            "PowerCut log Create",
            "PowerCut checkpoint Write",
            "PowerCut checkpoint FileFlush",
            "PowerCut directory DirectoryFlush",
            "FileFlush log FileFlush",
            "FileFlush checkpoint FileFlush",
            "DirectoryFlush directory DirectoryFlush",
            "Write log Write",
            "PowerCut DURABLE Write",
            "PowerCut DURABLE FileFlush",
            "FileFlush DURABLE FileFlush",
            "Write DURABLE Write",
        ] {
            assert!(self.in_attempts.contains_key(expected), "no {expected} in {self:?}");
        }
        for expected in [
            "PowerCut log Write",
            "PowerCut DURABLE Write",
            "PowerCut DURABLE FileFlush",
            "FileFlush DURABLE FileFlush",
            "Write DURABLE Write",
            "PowerCut parent ParentFlush",
            "PowerCut FORMAT.new Rename",
            "FileFlush log FileFlush",
            "DirectoryFlush parent ParentFlush",
        ] {
            assert!(self.in_openings.contains_key(expected), "no {expected} in {self:?}");
        }
    }
}

fn note(counts: &mut BTreeMap<String, u64>, happened: Vec<(DiskFault, String)>) {
    for (fault, what) in happened {
        *counts.entry(format!("{fault:?} {what}")).or_default() += 1;
    }
}

/// The state of one seed.
pub(super) struct CrashWorld {
    pub(super) rng: ChaCha8Rng,
    pub(super) disk: SimDisk,
    pub(super) model: Model,
    /// How the runs since the last opening have ended.
    ending: Ending,
    segment_bytes: u64,
    checkpoint_bytes: u64,
    memory_bytes: usize,
}

/// One opening of the store.
pub(super) struct StoreOpening {
    pub(super) engine: EmbeddedEngine,
    pub(super) clock: Arc<ManualClock>,
}

impl CrashWorld {
    /// The world of a seed. Its high half is the stream of the generator: another programme on the same sizes.
    pub(super) fn new(seed: u64) -> Self {
        let (seed, stream) = (seed & u64::from(u32::MAX), seed >> 32);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let disk = SimDisk::new(DiskImage::new(), rng.random());
        let segment_bytes = 1 << rng.random_range(11..14);
        // Half of the seeds have no checkpoints, which take most of the time.
        let checkpoint_bytes = if rng.random_bool(0.5) { 1 << rng.random_range(12..16) } else { 1 << 30 };
        // Nearly every row is cold, or none is. Of a generator of its own: what a seed does otherwise stays the same.
        let mut of_memory = ChaCha8Rng::seed_from_u64(!seed);
        let memory_bytes =
            if of_memory.random_bool(0.5) { of_memory.random_range(0..2_000) } else { usize::MAX };
        rng.set_stream(stream);
        let (model, ending) = (Model::default(), Ending::Kill);
        Self { rng, disk, model, ending, segment_bytes, checkpoint_bytes, memory_bytes }
    }

    pub(super) fn with_sizes(seed: u64, segment_bytes: u64, checkpoint_bytes: u64) -> Self {
        Self { segment_bytes, checkpoint_bytes, ..Self::new(seed) }
    }

    pub(super) fn without_checkpoints(seed: u64) -> Self {
        Self { checkpoint_bytes: 1 << 30, ..Self::new(seed) }
    }

    /// The disk after a power cut.
    pub(super) fn power_cut(&mut self) {
        self.ending = Ending::PowerCut;
        let image = self.disk.power_cut();
        self.disk = SimDisk::new(image, self.rng.random());
    }

    /// One try to open the store, on the present disk.
    pub(super) fn try_open(&mut self) -> Result<StoreOpening, OpenError> {
        let clock = ManualClock::at(0);
        let rng = SeededRng::shared(self.rng.random());
        let options = OpenOptions::new("simulated", clock.clone(), Arc::clone(&rng));
        let options = OpenOptions {
            segment_bytes: self.segment_bytes,
            checkpoint_bytes: self.checkpoint_bytes,
            memory_bytes: self.memory_bytes,
            disk: Some(Arc::new(self.disk.clone())),
            ..options
        };
        let mut opened = store_open_with(&options, Box::new(InTurns(Arc::clone(self.disk.turns()))))?;
        opened.durable = self.model.recorder(opened.durable);
        Ok(StoreOpening { engine: EmbeddedEngine::stepped(opened, clock.clone(), rng), clock })
    }

    /// Opens the store, in as many tries as needed, and checks its rows.
    pub(super) fn open(&mut self, reached: &mut CrashEvents) -> StoreOpening {
        let attempt = loop {
            if self.rng.random_bool(0.4) {
                let fault = self.fault_draw();
                self.disk.fault_after(self.rng.random_range(1..32), fault);
            }
            match self.try_open() {
                Ok(attempt) => break attempt,
                Err(OpenError::Io { .. }) => {}
                Err(other) => panic!("after a crash: {other}"),
            }
            let happened = self.disk.happened();
            assert!(!happened.is_empty(), "an opening failed for no reason");
            note(&mut reached.in_openings, happened);
            self.disk_after_crash();
        };
        self.disk.fault_cancel();
        self.disk.happened();
        self.recovered_check(&attempt, reached);
        attempt
    }

    fn recovered_check(&mut self, attempt: &StoreOpening, reached: &mut CrashEvents) {
        let (version, rows) = rows_read(&attempt.engine).expect("an open store is read");
        self.model.version_reopened(version);
        let ending = std::mem::replace(&mut self.ending, Ending::Kill);
        let recovered = self.model.recovered(&rows, ending);
        match recovered.open_kept {
            Some(true) => reached.open_kept += 1,
            Some(false) => reached.open_lost += 1,
            None => {}
        }
        reached.undone += u64::from(recovered.undone);
    }

    fn fault_draw(&mut self) -> DiskFault {
        match self.rng.random_range(0..10) {
            0..6 => DiskFault::PowerCut,
            6..8 => DiskFault::FileFlush,
            8 => DiskFault::DirectoryFlush,
            _ => DiskFault::Write,
        }
    }

    /// The disk for the next opening. After a power cut it has what that left. Otherwise the machine keeps running, or
    /// its power is cut now.
    fn disk_after_crash(&mut self) {
        if self.disk.is_dead() || self.rng.random_bool(0.3) {
            self.power_cut();
        } else {
            self.disk = self.disk.kill();
        }
    }

    /// Runs the workload until the end of the run.
    pub(super) fn attempt_run(&mut self, attempt: &StoreOpening, reached: &mut CrashEvents) {
        reached.attempts += 1;
        if self.rng.random_bool(0.85) {
            let fault = self.fault_draw();
            self.disk.fault_after(self.rng.random_range(1..250), fault);
        }
        self.workload_run(attempt, reached);
    }

    fn workload_run(&mut self, attempt: &StoreOpening, reached: &mut CrashEvents) {
        let mut codes = Vec::new();
        for _ in 0..self.rng.random_range(0..40) {
            let pause = if self.rng.random_range(0..8) == 0 { 6_000_000 } else { 20_000 };
            attempt.clock.advance(Duration::from_micros(self.rng.random_range(0..pause)));
            if self.rng.random_range(0..30) == 0 {
                attempt.clock.advance(Duration::from_secs(3600));
                attempt.engine.step();
            }
            if self.rng.random_range(0..25) == 0 {
                let free_bytes =
                    if self.rng.random_bool(0.5) { self.rng.random_range(0..1 << 14) } else { 1 << 30 };
                self.disk.free_set(free_bytes);
            }
            if !batch_run(&attempt.engine, &mut self.rng, &mut self.model, &mut codes) {
                break;
            }
            let calls = self.rng.random_range(0..60);
            self.disk.turns().grant(calls);
            if self.disk.is_dead() {
                break;
            }
        }
        for code in codes {
            reached.commits += u64::from(code.is_none());
            reached.conflicts += u64::from(code == Some(ErrorCode::NotCommitted));
            reached.no_space += u64::from(code == Some(ErrorCode::NoSpace));
        }
        if let Ok((version, rows)) = rows_read(&attempt.engine) {
            self.model.version_seen(version);
            differ(&self.model.rows(), &rows);
        }
    }

    /// Ends a run that may still be active, in one of the possible ways.
    pub(super) fn attempt_end(&mut self, attempt: StoreOpening, reached: &mut CrashEvents) {
        let close = self.rng.random_bool(0.3);
        let attempt = if close {
            // Waits for the checkpoint's end.
            self.disk.turns().free();
            drop(attempt);
            None
        } else {
            Some(attempt)
        };
        note(&mut reached.in_attempts, self.disk.happened());
        let alive = u64::from(!self.disk.is_dead());
        reached.closings += if close { alive } else { 0 };
        reached.kills += if close { 0 } else { alive };
        self.disk_after_crash();
        // Only now, so that the engine's remaining work belongs to a process that is gone.
        drop(attempt);
        self.disk.free_set(1 << 30);
    }
}

fn seed_run(seed: u64, reached: &mut CrashEvents) {
    let mut world = CrashWorld::new(seed);
    world.model.flushes_later = seed % 4 < 2;
    for _ in 0..world.rng.random_range(1..5) {
        let attempt = world.open(reached);
        world.attempt_run(&attempt, reached);
        world.attempt_end(attempt, reached);
    }
    // Opening twice in a row changes nothing.
    for _ in 0..2 {
        let attempt = world.open(reached);
        world.attempt_end(attempt, reached);
    }
}

/// Names the seed in a failure.
struct Naming(u64);

impl Drop for Naming {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}: BOROUGH_SEED={} cargo test -p borough-kv --lib crash", self.0, self.0);
        }
    }
}

pub(super) fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let given = |name: &str| std::env::var(name).ok();
    match (given("BOROUGH_SEED"), given("BOROUGH_CRASH_SEEDS")) {
        (Some(seed), _) => number(&seed)..number(&seed) + 1,
        (None, Some(seeds)) => match seeds.split_once("..") {
            Some((first, end)) => number(first)..number(end),
            None => 0..number(&seeds),
        },
        (None, None) => 0..count,
    }
}

pub(super) fn each_seed(count: u64, mut run: impl FnMut(u64)) {
    for seed in seeds(count) {
        let _naming = Naming(seed);
        run(seed);
    }
}

/// Seeds of an ordinary run, in each of the two halves.
const SEEDS: u64 = 500;

/// Every other seed from `first` on: two halves run in parallel.
fn half_run(first: u64) {
    let mut reached = CrashEvents::default();
    each_seed(2 * SEEDS, |seed| {
        if seed % 2 == first {
            seed_run(seed, &mut reached);
        }
    });
    if seeds(2 * SEEDS).count() >= 600 {
        reached.check();
    }
    eprintln!("{reached:#?}");
}

#[test]
fn what_was_acknowledged_survives_every_crash_of_even_seeds() {
    half_run(0);
}

#[test]
fn what_was_acknowledged_survives_every_crash_of_odd_seeds() {
    half_run(1);
}

/// The log survives a failed flush of the directory at a checkpoint, and goes on. The power is cut later: what the
/// flush was for may be there, or what it was to remove.
#[test]
fn a_failed_flush_of_the_directory_loses_nothing_at_a_later_power_cut() {
    let mut reached = CrashEvents::default();
    each_seed(600, |seed| {
        let mut world = CrashWorld::with_sizes(seed, 1 << 13, 1 << 11);
        for _ in 0..2 {
            let attempt = world.open(&mut reached);
            // Within the first segments, and not long before the end.
            world.disk.fault_after(world.rng.random_range(1..60), DiskFault::DirectoryFlush);
            world.workload_run(&attempt, &mut reached);
            note(&mut reached.in_attempts, world.disk.happened());
            world.power_cut();
            drop(attempt);
        }
        drop(world.open(&mut reached));
    });
    let failed = reached.in_attempts.get("DirectoryFlush directory DirectoryFlush");
    assert!(failed.is_some_and(|count| *count > 0), "no flush failed: {reached:?}");
}

/// Seeds that once failed. Twenty thousand seeds are too many for every run.
#[test]
fn seeds_that_found_something_pass() {
    // Both: a failed flush of the directory lost the mark of a first opening, and the store was reported as damaged.
    // The next two: a failed flush of the directory for a new segment of the log lost the name of the checkpoint, whose
    // own flush succeeded afterwards. The last two notice an engine that was broken on purpose: a record that makes
    // others durable does not say so, and an opening writes only the last record again.
    for seed in [6212, 19_371, 1 << 32 | 888, 2 << 32 | 174, 1029, 2168] {
        let _naming = Naming(seed);
        seed_run(seed, &mut CrashEvents::default());
    }
}
