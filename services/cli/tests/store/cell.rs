//! A store with a cell in it, and the program run over it.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use borough_kv::embedded::{EmbeddedEngine, OpenOptions};
use borough_kv::env::{SeededRng, SystemClock};
use borough_kv::{Database, Idempotency};
use borough_model::job::{JobKind, JobSpec};
use borough_model::node::NodeFacts;
use borough_model::{JobId, Name, NodeId, RequestId, Resources};
use borough_store::cell::{CellMeta, cell_create};
use borough_store::job::job_submit;
use borough_store::journal::{Change, ChangeSet};
use borough_store::node::{NodeRegistration, node_register};
use borough_store::request::request_finish;
use borough_store::{CellSpace, StoreError};

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A folder of a test.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The name of a store in it, as the program takes it.
    pub(crate) fn store(&self, name: &str) -> String {
        format!("embedded:{}", self.path(name).display())
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// Opens a store in this process, runs `work` on it, and closes it.
pub(crate) fn with_store<Fut: Future<Output = ()>>(directory: &Path, work: impl FnOnce(Database) -> Fut) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = OpenOptions::new(directory, SystemClock::shared(), SeededRng::shared(1));
        let engine = EmbeddedEngine::open(options).unwrap();
        work(Database::new(std::sync::Arc::new(engine.clone()))).await;
        engine.close().await;
    });
}

/// Makes a cell with a node, some jobs and a request.
pub(crate) async fn cell_fill(db: &Database, cell: &str) {
    let space = CellSpace::new(name(cell));
    let facts = NodeFacts {
        capacity: Resources { cpu_millis: 4_000, memory_bytes: 1 << 30, ..Resources::default() },
        port_first: 20_000,
        port_last: 20_999,
        attributes: BTreeMap::new(),
        host: "127.0.0.1".to_owned(),
        boot_id: "boot".to_owned(),
        agent_version: "0.1.0".to_owned(),
        cards: Vec::new(),
        domains: Vec::new(),
    };
    let change =
        Change { request: RequestId(7), actor: "user/test".to_owned(), action: "fill", at_ms: 1_000 };
    let (space, change, facts) = (&space, &change, &facts);
    let filled = db.run("fill", Idempotency::Natural, |tx, _| async move {
        cell_create(&tx, space, &CellMeta::default(), 1_000).await?;
        let mut changes = ChangeSet::begin(&tx, space, change).await?;
        let arrival = NodeRegistration::new(name("n1"), facts.clone(), NodeId(1), 1);
        node_register(&tx, &mut changes, &arrival).await?;
        for (id, job) in [(1, "web"), (2, "cron"), (3, "api")] {
            let mut spec =
                JobSpec::defaults(name("ada"), name(job), JobKind::Service, vec!["run".to_owned()]);
            spec.count = 3;
            job_submit(&tx, &mut changes, &spec, JobId(id)).await?;
        }
        changes.append(&tx)?;
        request_finish(&tx, space, RequestId(7), b"digest", b"result", i64::MAX)?;
        Ok::<_, StoreError>(())
    });
    filled.await.unwrap();
}

/// A store with the cell `alpha`.
pub(crate) fn store_with_cell(directory: &Path) {
    with_store(directory, |db| async move { cell_fill(&db, "alpha").await });
}

pub(crate) fn borough(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_borough"));
    command.env_clear().env("USER", "alice").env("HOME", "/nonexistent");
    for kept in ["LD_LIBRARY_PATH", "PATH"] {
        command.envs(std::env::var_os(kept).map(|value| (kept, value)));
    }
    command.args(arguments).output().expect("the program runs")
}

pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs `borough … -o json`, which must end with `code`.
pub(crate) fn json(code: i32, arguments: &[&str]) -> serde_json::Value {
    let output = borough(&[arguments, &["-o", "json"]].concat());
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", errors(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}
