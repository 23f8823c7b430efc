//! The conformance suite on the embedded engine: in memory, on a disk, and with faults.

use std::sync::Arc;
use std::time::Duration;

use borough_conformance::{
    CheckFailure, edges_checked, metadata_version_of_old_read, programs_whole, run_all, run_tolerant,
};
use borough_kv::contract::limits::{METADATA_VERSION_KEY, RECOVERY_VERSION_JUMP};
use borough_kv::embedded::OpenOptions;
use borough_kv::env::{ManualClock, SeededRng, SystemClock};
use borough_kv::{EmbeddedEngine, Engine, EngineTransaction, ErrorCode, FaultEngine, FaultPlan, Isolation};

/// One seed per run, from the kernel unless `BOROUGH_SEED` sets it.
fn seed() -> u64 {
    let given = std::env::var("BOROUGH_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| SeededRng::from_kernel().1)
}

fn ephemeral(seed: u64) -> Arc<dyn Engine> {
    Arc::new(EmbeddedEngine::ephemeral(SystemClock::shared(), SeededRng::shared(seed)))
}

fn report<T>(result: Result<T, CheckFailure>) {
    if let Err(failure) = result {
        panic!(
            "{failure}\nagain with: BOROUGH_SEED={} cargo test -p borough-kv --test conformance",
            failure.seed
        );
    }
}

#[tokio::test]
async fn in_memory() {
    let seed = seed();
    report(run_all(|| ephemeral(seed), seed).await);
}

#[tokio::test]
async fn on_a_disk() {
    let seed = seed();
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions::new(directory.path(), SystemClock::shared(), SeededRng::shared(seed));
    let engine = EmbeddedEngine::open(OpenOptions { fsync: false, ..options }).unwrap();
    report(run_all(|| Arc::new(engine.clone()), seed).await);
}

#[tokio::test(start_paused = true)]
async fn with_faults() {
    for plan in [FaultPlan::standard(), FaultPlan::heavy()] {
        let seed = seed();
        let faulty = || {
            let engine = FaultEngine::new(ephemeral(seed), plan.clone(), SeededRng::shared(seed ^ 1));
            Arc::new(engine) as Arc<dyn Engine>
        };
        report(run_tolerant(faulty, seed).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_parallel() {
    let seed = seed();
    report(run_tolerant(|| ephemeral(seed), seed).await);
}

#[tokio::test(start_paused = true)]
async fn at_every_edge_of_what_is_read() {
    report(edges_checked(&ephemeral(1), true).await);
}

/// The number of whole-store programs in a run; `BOROUGH_PROGRAMS` sets it.
fn programs() -> u64 {
    std::env::var("BOROUGH_PROGRAMS").ok().and_then(|count| count.parse().ok()).unwrap_or(300)
}

#[tokio::test(start_paused = true)]
async fn programs_in_stores_of_their_own() {
    let first = seed() >> 16;
    let ran = programs_whole(|| Ok(ephemeral(first)), first..first + programs()).await;
    // The number of a program is the lower part of a seed.
    report(ran.map_err(|failure| CheckFailure { seed: failure.seed << 16, ..failure }));
}

/// Programs that once failed: 6570249556006 reads the metadata version without its own writes.
#[tokio::test(start_paused = true)]
async fn programs_that_failed_once() {
    for number in [6_570_249_556_006] {
        report(programs_whole(|| Ok(ephemeral(number)), number..number + 1).await);
    }
}

/// One transaction by hand, where the runner would retry.
#[expect(clippy::disallowed_methods, reason = "the case looks at single transactions")]
fn begin(engine: &EmbeddedEngine) -> Box<dyn EngineTransaction> {
    engine.begin()
}

#[tokio::test]
async fn the_metadata_version_is_known_however_old_the_read_version() {
    let clock = ManualClock::at(0);
    let engine = EmbeddedEngine::ephemeral(clock.clone(), SeededRng::shared(1));
    // More than the window, and more than the rows in memory trim by themselves.
    let older = async || {
        for second in 0..20_u8 {
            clock.advance(Duration::from_secs(1));
            let writer = begin(&engine);
            writer.set(b"trims", &[second]).unwrap();
            writer.commit().await.unwrap();
        }
    };
    metadata_version_of_old_read(|| Arc::from(begin(&engine)), older).await.unwrap();
    // A version that was set by hand brought no metadata version.
    let given = begin(&engine);
    given.set_read_version(RECOVERY_VERSION_JUMP + 1).unwrap();
    let code = given.get(METADATA_VERSION_KEY, Isolation::Snapshot).await.unwrap_err().code;
    assert_eq!(code, ErrorCode::TransactionTooOld);
}
