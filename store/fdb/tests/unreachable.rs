//! Without a server: the client's own patience is for ever, ours is not, and the process ends as it should.

#![cfg(feature = "fdb")]
#![expect(clippy::expect_used, reason = "a test says what it expected")]

use borough_kv::{Database, ErrorCode, Idempotency, KvError, Transaction, TransactionOption};

async fn nobody_answers() {
    let engine =
        borough_fdb::open("nobody:nothing@127.0.0.1:1").expect("opening asks nothing of the cluster");
    let database = Database::new(engine);
    let read = |transaction: Transaction, _| async move {
        transaction.set_option(TransactionOption::TimeoutMs(200))?;
        transaction.get(b"k").await
    };
    let error = database.run::<_, KvError, _, _>("read", Idempotency::ReadOnly, read).await;
    assert_eq!(error.expect_err("nobody answers").code, ErrorCode::TransactionTimedOut);
}

/// Runs this binary's own test of `name` in a process of its own and gives how that ended.
fn process_of(name: &str) -> std::process::ExitStatus {
    let mut command = std::process::Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", name, "--ignored", "--test-threads=1"]).stdout(std::process::Stdio::null());
    command.status().expect("a process")
}

#[tokio::test]
#[ignore = "run by the test below, in a process of its own"]
async fn with_shutdown() {
    nobody_answers().await;
    nobody_answers().await;
    borough_fdb::shutdown();
    assert!(borough_fdb::open("nobody:nothing@127.0.0.1:1").is_err(), "the client cannot be started again");
}

#[tokio::test]
#[ignore = "run by the test below, in a process of its own"]
async fn without_shutdown() {
    nobody_answers().await;
}

#[test]
fn the_process_ends_well_with_and_without_a_shutdown() {
    for name in ["with_shutdown", "without_shutdown"] {
        for _ in 0..5 {
            let status = process_of(name);
            assert!(status.success(), "{name}: {status}");
        }
    }
}

#[test]
fn a_missing_cluster_file_is_an_error() {
    let missing = borough_fdb::open("/nowhere/fdb.cluster").err().expect("no such file");
    assert!(matches!(missing, borough_fdb::OpenError::Cluster { .. }), "{missing}");
}
