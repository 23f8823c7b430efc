//! Without a server: the client waits for ever, this crate does not, and the process ends in order.
//!
//! The client's network can be started only once in a process. This program therefore replaces the usual harness, and
//! runs every case in a process of its own, started with the case's name.

#![cfg_attr(feature = "fdb", expect(clippy::expect_used, reason = "a test says what it expected"))]

#[cfg(feature = "fdb")]
mod cases {
    use std::io::{Read as _, Write as _};

    use borough_kv::{Database, ErrorCode, Idempotency, KvError, Transaction, TransactionOption};

    async fn no_cluster_answers() {
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

    /// Answers every client with the greeting of a server of `protocol`. A client of another protocol needs no more.
    fn server_of(protocol: u64) -> u16 {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let greet = move |mut stream: std::net::TcpStream| -> std::io::Result<()> {
            // `ConnectPacket` of `FlowTransport.actor.cpp`: its length, the protocol, the port to call back, the rest.
            let mut length = [0; 4];
            stream.read_exact(&mut length)?;
            let mut packet = vec![0; usize::try_from(u32::from_le_bytes(length)).unwrap_or(0).min(1024)];
            stream.read_exact(&mut packet)?;
            packet[..8].copy_from_slice(&protocol.to_le_bytes());
            packet[8..10].copy_from_slice(&port.to_le_bytes());
            stream.write_all(&[length.as_slice(), &packet].concat())?;
            std::io::copy(&mut stream, &mut std::io::sink()).map(drop)
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client may hang up at any time.
                std::thread::spawn(move || greet(stream));
            }
        });
        port
    }

    /// Older and newer: a request fails with that reason once its time is up and the client has noticed. A commit stays
    /// unknown, with the reason.
    async fn a_server_of_another_version() {
        let cases = [0x0fdb_00b0_6201_0001_u64, 0x0fdb_00b0_7400_0000].map(|protocol| async move {
            let cluster = format!("other:version@127.0.0.1:{}", server_of(protocol));
            let database = Database::new(borough_fdb::open(&cluster).expect("asks nothing yet"));
            // Less than the client's own time limit, so that the test is short.
            let hurry =
                |transaction: &Transaction| transaction.set_option(TransactionOption::TimeoutMs(1000));
            let read = |transaction: Transaction, _| async move {
                hurry(&transaction)?;
                transaction.get(b"k").await
            };
            let write = |transaction: Transaction, _| async move {
                hurry(&transaction)?;
                transaction.set(b"k", b"v")
            };
            let mut message = String::new();
            for _ in 0..30 {
                let error = database.run::<_, KvError, _, _>("read", Idempotency::ReadOnly, read).await;
                let error = error.expect_err("another version");
                message = error.to_string();
                match error.code {
                    ErrorCode::IncompatibleClient => break,
                    code => assert_eq!(code, ErrorCode::TransactionTimedOut, "{message}"),
                }
            }
            let of_version = format!("speaks protocol {protocol:x}");
            assert!(message.contains("another version") && message.contains(&of_version), "{message}");
            let error = database.run::<_, KvError, _, _>("write", Idempotency::Natural, write).await;
            let error = error.expect_err("another version");
            assert_eq!(error.code, ErrorCode::TransactionTimedOut, "{error}");
            assert!(error.to_string().contains(&of_version), "{error}");
        });
        futures::future::join_all(cases).await;
    }

    async fn with_shutdown() {
        no_cluster_answers().await;
        no_cluster_answers().await;
        borough_fdb::shutdown();
        assert!(
            borough_fdb::open("nobody:nothing@127.0.0.1:1").is_err(),
            "the client cannot be started again"
        );
    }

    fn a_missing_cluster_file_is_an_error() {
        let missing = borough_fdb::open("/nowhere/fdb.cluster").err().expect("no such file");
        assert!(matches!(missing, borough_fdb::FdbOpenError::Cluster { .. }), "{missing}");
    }

    fn a_malformed_cluster_file_is_an_error_of_its_own() {
        let file = std::env::temp_dir().join(format!("borough-malformed-{}.cluster", std::process::id()));
        for text in ["", "no cluster at all\n", "a:b@nowhere\n"] {
            std::fs::write(&file, text).expect("a file");
            let refused = borough_fdb::open(&file.to_string_lossy()).err().expect("not a cluster file");
            assert!(matches!(refused, borough_fdb::FdbOpenError::Malformed { .. }), "{text:?}: {refused}");
        }
        std::fs::remove_file(&file).expect("it was there");
    }

    /// Runs the case of `name` in this process; `None` if it does not exist.
    pub(super) fn run(name: &str) -> Option<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        match name {
            "with_shutdown" => runtime.block_on(with_shutdown()),
            "without_shutdown" => runtime.block_on(no_cluster_answers()),
            "a_server_of_another_version" => runtime.block_on(a_server_of_another_version()),
            "a_missing_cluster_file_is_an_error" => a_missing_cluster_file_is_an_error(),
            "a_malformed_cluster_file_is_an_error_of_its_own" => {
                a_malformed_cluster_file_is_an_error_of_its_own()
            }
            _ => return None,
        }
        Some(())
    }

    /// Runs every case in a process of its own; those that race with the process's end, several times.
    pub(super) fn run_all() {
        let program = std::env::current_exe().expect("this program");
        let cases = [
            ("with_shutdown", 5),
            ("without_shutdown", 5),
            ("a_server_of_another_version", 1),
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

/// Names the case that a process runs.
#[cfg(feature = "fdb")]
const CASE: &str = "BOROUGH_FDB_CASE";

#[cfg(feature = "fdb")]
fn main() {
    match std::env::var(CASE) {
        Ok(name) => cases::run(&name).expect("a case of that name"),
        Err(_) => cases::run_all(),
    }
}

/// Without the client there is nothing to run.
#[cfg(not(feature = "fdb"))]
fn main() {}
