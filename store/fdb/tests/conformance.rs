//! The conformance suite on a FoundationDB cluster: the one named by `BOROUGH_FDB_CLUSTER_FILE`.

#![cfg(feature = "fdb")]

use std::sync::Arc;

use borough_conformance::{
    edges_checked, metadata_version_of_old_read, programs_compared, run_all, run_tolerant,
};
use borough_kv::env::{SeededRng, SystemClock};
use borough_kv::exercise::not_exercised;
use borough_kv::{
    Database, EmbeddedEngine, Engine, ErrorCode, FaultEngine, FaultPlan, Idempotency, KvError, Transaction,
    TransactionOption,
};
use prometheus_client::registry::Registry;

/// One test at a time uses the cluster: one of them clears all of it.
static CLUSTER: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// One test, since the client's network thread starts once per process and the suite is written for one cluster.
#[tokio::test(flavor = "multi_thread")]
async fn the_backend_keeps_the_contract() {
    let Ok(cluster) = std::env::var("BOROUGH_FDB_CLUSTER_FILE") else {
        not_exercised("the conformance suite on FoundationDB", "BOROUGH_FDB_CLUSTER_FILE names no cluster");
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

/// The edges of each read's dependence. Those at the ends of the keyspace run only on a disposable cluster.
#[tokio::test(flavor = "multi_thread")]
async fn at_every_edge_of_what_is_read() {
    let Ok(cluster) = std::env::var("BOROUGH_FDB_CLUSTER_FILE") else {
        not_exercised("the edges of reads on FoundationDB", "BOROUGH_FDB_CLUSTER_FILE names no cluster");
        return;
    };
    let _alone = CLUSTER.lock().await;
    let engine = borough_fdb::open(&cluster).expect("the cluster opens");
    let whole = std::env::var("BOROUGH_FDB_THROW_AWAY").is_ok();
    edges_checked(&engine, whole).await.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Several clusters in one process: an unreachable one delays none of the others, and each reports its own client's
/// status.
#[tokio::test(flavor = "multi_thread")]
async fn several_clusters_work_in_one_process() {
    let Ok(cluster) = std::env::var("BOROUGH_FDB_CLUSTER_FILE") else {
        not_exercised("clusters beside each other", "BOROUGH_FDB_CLUSTER_FILE names no cluster");
        return;
    };
    let _alone = CLUSTER.lock().await;
    let string = std::fs::read_to_string(&cluster).expect("the cluster file");
    let here = Database::new(borough_fdb::open(&cluster).expect("by its file"));
    let again = Database::new(borough_fdb::open(string.trim()).expect("by its connection string"));
    let nobody = Database::new(borough_fdb::open("nobody:nothing@127.0.0.1:1").expect("asks nothing yet"));
    let mut registries = [Registry::default(), Registry::default()];
    here.metrics_register(&mut registries[0]);
    nobody.metrics_register(&mut registries[1]);
    let unanswered = nobody.run::<_, KvError, _, _>("read", Idempotency::ReadOnly, |tx, _| async move {
        tx.set_option(TransactionOption::TimeoutMs(500))?;
        tx.get(b"k").await
    });
    let answered = async {
        for number in 0..50_u32 {
            let value = number.to_be_bytes();
            let write = |tx: Transaction, _| async move { tx.set(b"beside", &value) };
            here.run::<_, KvError, _, _>("write", Idempotency::Natural, write).await.expect("committed");
            let read = |tx: Transaction, _| async move { tx.get(b"beside").await };
            let seen =
                again.run::<_, KvError, _, _>("read", Idempotency::ReadOnly, read).await.expect("read");
            assert_eq!(seen.as_deref(), Some(value.as_slice()));
        }
    };
    let (unanswered, ()) = tokio::join!(unanswered, answered);
    assert_eq!(unanswered.expect_err("nobody answers").code, ErrorCode::TransactionTimedOut);
    let stat = |registry: &Registry| {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).expect("text");
        let line = text.lines().find_map(|line| line.strip_prefix("store_fdb_client_healthy "));
        line.expect("the client's figure").to_owned()
    };
    let known = tokio::time::timeout(std::time::Duration::from_secs(60), async {
        while stat(&registries[0]) != "1" {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    });
    known.await.expect("the client that is answered is well");
    assert_eq!(stat(&registries[1]), "0", "the one that is not is not");
}

/// The data that comes with a read version outlives the five seconds, as on the embedded engine.
#[tokio::test(flavor = "multi_thread")]
async fn the_metadata_version_is_known_however_old_the_read_version() {
    let Ok(cluster) = std::env::var("BOROUGH_FDB_CLUSTER_FILE") else {
        not_exercised("the metadata version on FoundationDB", "BOROUGH_FDB_CLUSTER_FILE names no cluster");
        return;
    };
    let _alone = CLUSTER.lock().await;
    let engine = borough_fdb::open(&cluster).expect("the cluster opens");
    #[expect(clippy::disallowed_methods, reason = "the case looks at single transactions")]
    let begin = || Arc::from(engine.begin());
    let older = async || tokio::time::sleep(std::time::Duration::from_secs(8)).await;
    metadata_version_of_old_read(begin, older).await.expect("as the contract says");
}

/// Programs on a disposable cluster (`BOROUGH_FDB_THROW_AWAY` allows to clear it) and on the embedded engine: every
/// answer must be the same.
#[tokio::test(flavor = "multi_thread")]
async fn programs_answer_as_on_the_embedded_engine() {
    let (Ok(cluster), Ok(_)) =
        (std::env::var("BOROUGH_FDB_CLUSTER_FILE"), std::env::var("BOROUGH_FDB_THROW_AWAY"))
    else {
        not_exercised("programs on both engines", "no cluster is named that may be cleared");
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
