//! The conformance suite on a FoundationDB cluster: the one named by `BOROUGH_FDB_CLUSTER_FILE`.

#![cfg(feature = "fdb")]

use std::sync::Arc;

use borough_kv::conformance::{programs_compared, run_all, run_tolerant};
use borough_kv::env::{SeededRng, SystemClock};
use borough_kv::{EmbeddedEngine, Engine, FaultEngine, FaultPlan};

/// One test at a time has the cluster: one of them clears all of it.
static CLUSTER: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// One test, since the client's network thread lives once per process and the suite is written for one cluster.
#[tokio::test(flavor = "multi_thread")]
async fn the_backend_keeps_the_contract() {
    let Ok(cluster) = std::env::var("BOROUGH_FDB_CLUSTER_FILE") else {
        println!("not run: BOROUGH_FDB_CLUSTER_FILE names no cluster");
        return;
    };
    let _alone = CLUSTER.lock().await;
    let given = std::env::var("BOROUGH_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| SeededRng::from_kernel().1);
    let engine = borough_fdb::open(&cluster).expect("the cluster opens");
    let result = run_all(|| Arc::clone(&engine), seed).await;
    result.unwrap_or_else(|failure| panic!("{failure} (BOROUGH_SEED={seed})"));
    let faulty = || {
        let engine = FaultEngine::new(Arc::clone(&engine), FaultPlan::standard(), SeededRng::shared(seed));
        Arc::new(engine) as Arc<dyn Engine>
    };
    let result = run_tolerant(faulty, seed.wrapping_add(1)).await;
    result.unwrap_or_else(|failure| panic!("{failure} (BOROUGH_SEED={seed})"));
}

/// Programs on a cluster that is thrown away (`BOROUGH_FDB_THROW_AWAY` says that it may be cleared), beside the
/// embedded engine: every answer has to be the same.
#[tokio::test(flavor = "multi_thread")]
async fn programs_answer_as_on_the_embedded_engine() {
    let (Ok(cluster), Ok(_)) =
        (std::env::var("BOROUGH_FDB_CLUSTER_FILE"), std::env::var("BOROUGH_FDB_THROW_AWAY"))
    else {
        println!("not run: no cluster that may be cleared");
        return;
    };
    let _alone = CLUSTER.lock().await;
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("BOROUGH_SEED").unwrap_or_else(|| SeededRng::from_kernel().1 >> 16);
    let seeds = first..first + number("BOROUGH_PROGRAMS").unwrap_or(100);
    let engine = borough_fdb::open(&cluster).expect("the cluster opens");
    let embedded = || -> Arc<dyn Engine> {
        Arc::new(EmbeddedEngine::ephemeral(SystemClock::shared(), SeededRng::shared(first)))
    };
    let result = programs_compared(|| Ok(embedded()), || Ok(Arc::clone(&engine)), seeds).await;
    result.unwrap_or_else(|failure| panic!("{failure}\nagain with: BOROUGH_SEED={}", failure.seed));
}
