//! Without a server: the client's own patience is for ever, ours is not, and the process ends as it should.
//!
//! A program of its own instead of the usual harness: the client's network can be started once in a process, so every
//! case is a process, this one started again with the case's name.

#![cfg_attr(feature = "fdb", expect(clippy::expect_used, reason = "a test says what it expected"))]

#[cfg(feature = "fdb")]
mod cases {
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

    async fn with_shutdown() {
        nobody_answers().await;
        nobody_answers().await;
        borough_fdb::shutdown();
        assert!(
            borough_fdb::open("nobody:nothing@127.0.0.1:1").is_err(),
            "the client cannot be started again"
        );
    }

    fn a_missing_cluster_file_is_an_error() {
        let missing = borough_fdb::open("/nowhere/fdb.cluster").err().expect("no such file");
        assert!(matches!(missing, borough_fdb::OpenError::Cluster { .. }), "{missing}");
    }

    fn a_malformed_cluster_file_is_an_error_of_its_own() {
        let file = std::env::temp_dir().join(format!("borough-malformed-{}.cluster", std::process::id()));
        for text in ["", "no cluster at all\n", "a:b@nowhere\n"] {
            std::fs::write(&file, text).expect("a file");
            let refused = borough_fdb::open(&file.to_string_lossy()).err().expect("not a cluster file");
            assert!(matches!(refused, borough_fdb::OpenError::Malformed { .. }), "{text:?}: {refused}");
        }
        std::fs::remove_file(&file).expect("it was there");
    }

    /// Runs the case of `name` in this process; `None` where there is none.
    pub(super) fn run(name: &str) -> Option<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        match name {
            "with_shutdown" => runtime.block_on(with_shutdown()),
            "without_shutdown" => runtime.block_on(nobody_answers()),
            "a_missing_cluster_file_is_an_error" => a_missing_cluster_file_is_an_error(),
            "a_malformed_cluster_file_is_an_error_of_its_own" => {
                a_malformed_cluster_file_is_an_error_of_its_own()
            }
            _ => return None,
        }
        Some(())
    }

    /// Runs every case in processes of its own; those that race with the process's end, several times.
    pub(super) fn run_all() {
        let program = std::env::current_exe().expect("this program");
        let cases = [
            ("with_shutdown", 5),
            ("without_shutdown", 5),
            ("a_missing_cluster_file_is_an_error", 1),
            ("a_malformed_cluster_file_is_an_error_of_its_own", 1),
        ];
        for (name, times) in cases {
            for _ in 0..times {
                let status = std::process::Command::new(&program).env(super::CASE, name).status();
                let status = status.expect("a process");
                assert!(status.success(), "{name}: {status}");
            }
        }
    }
}

/// Names the case a process is to run.
#[cfg(feature = "fdb")]
const CASE: &str = "BOROUGH_FDB_CASE";

#[cfg(feature = "fdb")]
fn main() {
    match std::env::var(CASE) {
        Ok(name) => cases::run(&name).expect("a case of that name"),
        Err(_) => cases::run_all(),
    }
}

/// Nothing to run without the client.
#[cfg(not(feature = "fdb"))]
fn main() {}
