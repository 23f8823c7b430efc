//! The store of a cell under test: a directory of the embedded engine. With `BOROUGH_TEST_ENGINE=fdb`, a FoundationDB
//! server for the cell alone.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use borough_agent::ProcessGuard;
use borough_kv::Database;
use borough_kv::embedded::{EmbeddedEngine, OpenOptions};
use borough_kv::env::{SeededRng, SystemClock};
use borough_shim::process::ProcessId;
use borough_shim::record::{ProcessKind, process_record};
use tempfile::TempDir;

/// Selects the engine of cells under test.
const ENGINE_VARIABLE: &str = "BOROUGH_TEST_ENGINE";
/// Seconds for a new server to accept its configuration.
const CONFIGURE_SECONDS: &str = "60";
/// On a disk with less than 5 per cent free, a server admits hardly any transaction. A build fills a disk quickly.
const FULL_DISK: &str = "--knob_min_available_space_ratio=0.001";

/// Returns true if tests run on FoundationDB.
pub fn is_fdb() -> bool {
    std::env::var(ENGINE_VARIABLE).is_ok_and(|engine| engine == "fdb")
}

/// The store of one cell.
pub enum TestStore {
    /// A directory, which `dev` makes.
    Embedded(PathBuf),
    Fdb(FdbServer),
}

/// A FoundationDB server of one process, in memory, on loopback. Dropping it, or killing the test, ends it.
pub struct FdbServer {
    cluster_file: PathBuf,
    process: Child,
    /// A separate one: the guard of a cell also ends its processes when the cell is only stopped.
    _guard: ProcessGuard,
    /// A separate one, since a server refuses to work on the small disk that a cell may be given.
    _directory: TempDir,
}

impl FdbServer {
    fn start() -> Self {
        let temporary =
            tempfile::Builder::new().prefix("borough-fdb-").tempdir().expect("the server's directory");
        let directory = temporary.path();
        let guard = ProcessGuard::new(directory).expect("a guard");
        let cluster_file = directory.join("fdb.cluster");
        // Nobody reserves it until the server has it: if another process is faster, the test fails.
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        fs::write(&cluster_file, format!("borough:test@127.0.0.1:{port}")).expect("the cluster file");
        let out = fs::File::create(directory.join("out")).expect("a log");
        let process = Command::new("fdbserver")
            .arg("--cluster-file")
            .arg(&cluster_file)
            .args(["--public-address", &format!("127.0.0.1:{port}"), "--listen-address", "public"])
            .arg("--datadir")
            .arg(directory.join("data"))
            .arg("--logdir")
            .arg(directory.join("log"))
            .arg(FULL_DISK)
            .stdin(Stdio::null())
            .stdout(out.try_clone().expect("a log"))
            .stderr(out)
            .spawn()
            .expect("fdbserver starts");
        let own = ProcessId::find(process.id()).expect("fdbserver attempts");
        process_record(&directory.join("records"), ProcessKind::Agent, own, Vec::new())
            .expect("fdbserver is recorded");
        let server = Self { cluster_file, process, _guard: guard, _directory: temporary };
        let configured = Command::new("fdbcli")
            .arg("-C")
            .arg(&server.cluster_file)
            .args(["--timeout", CONFIGURE_SECONDS, "--exec", "configure new single memory"])
            .output()
            .expect("fdbcli runs");
        assert!(configured.status.success(), "{configured:?}");
        server
    }
}

impl Drop for FdbServer {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// A store that is open in the test itself, while nobody else needs an embedded one.
pub struct OpenStore {
    pub db: Database,
    embedded: Option<Arc<EmbeddedEngine>>,
}

impl OpenStore {
    /// Closes it.
    pub async fn close(self) {
        drop(self.db);
        if let Some(embedded) = self.embedded {
            embedded.close().await;
        }
    }
}

impl TestStore {
    /// The store of a cell in `root`; a server has a directory of its own.
    ///
    /// # Panics
    /// A server is needed and does not start.
    pub fn start(root: &Path) -> Self {
        match is_fdb() {
            true => Self::Fdb(FdbServer::start()),
            // The path that `borough dev` uses.
            false => Self::Embedded(root.join("dev").join("store")),
        }
    }

    /// The value of `--store`; absent for the default.
    pub fn location(&self) -> Option<String> {
        match self {
            Self::Embedded(_) => None,
            Self::Fdb(server) => Some(format!("fdb:{}", server.cluster_file.display())),
        }
    }

    /// Opens it.
    ///
    /// # Panics
    /// It cannot be opened: another process has an embedded one, or it is damaged.
    pub fn open(&self) -> OpenStore {
        match self {
            Self::Embedded(directory) => {
                let (rng, _) = SeededRng::from_kernel();
                let options = OpenOptions::new(directory, SystemClock::shared(), rng);
                let engine = Arc::new(EmbeddedEngine::open(options).expect("the store opens"));
                OpenStore { db: Database::new(Arc::<EmbeddedEngine>::clone(&engine)), embedded: Some(engine) }
            }
            Self::Fdb(server) => {
                let cluster = server.cluster_file.to_str().expect("a path");
                let engine = borough_fdb::open(cluster).expect("a client of the server");
                OpenStore { db: Database::new(engine), embedded: None }
            }
        }
    }
}
