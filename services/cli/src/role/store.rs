//! Opens stores: `embedded:DIRECTORY` for one process, `fdb:CLUSTER` for many.
//!
//! A role or verb takes `--store` as a [`StoreLocation`] and opens it with [`store_open`]. The result contains the
//! engine for a database, and is closed last.

use std::path::Path;
use std::sync::Arc;

use borough_kv::Engine;
use borough_kv::embedded::{EmbeddedEngine, OpenError, OpenOptions};
use borough_kv::env::{Clock, Rng, SeededRng};
use borough_kv::fault::{FaultEngine, FaultPlan};
use borough_store::cell::StoreOpened;
use borough_store::error_chain;

use super::failed;
use crate::args::{EMBEDDED, StoreLocation};
use crate::exit::{Code, Failure};

/// What to do if an embedded store does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreMissing {
    /// Make an empty one: for roles and imports.
    Create,
    /// Refuse: reading a missing store is a mistake.
    Refuse,
}

/// A store to open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreWanted<'a> {
    pub(crate) location: &'a StoreLocation,
    pub(crate) missing: StoreMissing,
    /// Bytes of an embedded store's rows in memory. `None`: what the engine takes by itself.
    pub(crate) memory: Option<usize>,
}

/// An open store.
pub(crate) struct RoleStore {
    engine: Arc<dyn Engine>,
    /// The same engine, to be closed: only then can another process open its directory.
    embedded: Option<EmbeddedEngine>,
}

impl RoleStore {
    /// The engine, to be wrapped or to make a database of.
    pub(crate) fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.engine)
    }

    /// Whether other processes may use the store.
    pub(crate) fn opened(&self) -> StoreOpened {
        if self.embedded.is_some() { StoreOpened::Alone } else { StoreOpened::Shared }
    }

    /// Commits the waiting requests and unlocks the directory. Every later operation of its databases fails.
    pub(crate) async fn close(self) {
        if let Some(engine) = self.embedded {
            engine.close().await;
        }
    }
}

/// The engine. If a test gives a seed, with the faults that its contract allows.
pub(crate) fn engine_faulty(engine: Arc<dyn Engine>, seed: Option<u64>) -> Arc<dyn Engine> {
    match seed {
        Some(seed) => Arc::new(FaultEngine::new(engine, FaultPlan::standard(), SeededRng::shared(seed))),
        None => engine,
    }
}

/// Opens a store. An embedded one is read whole, which blocks. A FoundationDB cluster is not contacted yet: if it
/// cannot be reached, the first transaction fails.
pub(crate) fn store_open(
    wanted: StoreWanted<'_>,
    clock: &Arc<dyn Clock>,
    rng: &Arc<dyn Rng>,
) -> Result<RoleStore, Failure> {
    match wanted.location {
        StoreLocation::Embedded(directory) => {
            if wanted.missing == StoreMissing::Refuse {
                embedded_find(directory)?;
            }
            let options = OpenOptions::new(directory, Arc::clone(clock), Arc::clone(rng));
            let memory_bytes = wanted.memory.unwrap_or(options.memory_bytes);
            let options = OpenOptions { memory_bytes, ..options };
            let engine = EmbeddedEngine::open(options).map_err(|error| embedded_failure(&error))?;
            Ok(RoleStore { engine: Arc::new(engine.clone()), embedded: Some(engine) })
        }
        StoreLocation::Fdb(_) if wanted.memory.is_some() => {
            let text =
                "--store-memory is for an embedded store: FoundationDB has its rows in processes of its own";
            Err(Failure::new(Code::Usage, text))
        }
        StoreLocation::Fdb(cluster) => {
            let engine = borough_fdb::open(cluster).map_err(|error| fdb_failure(&error))?;
            Ok(RoleStore { engine, embedded: None })
        }
    }
}

/// What the log of a store has lost of acknowledged commits at its end, for people; `None`: nothing. Changes nothing.
pub(crate) async fn store_loss(
    directory: &Path,
    clock: &Arc<dyn Clock>,
    rng: &Arc<dyn Rng>,
) -> Result<Option<String>, Failure> {
    embedded_find(directory)?;
    let options = OpenOptions::new(directory, Arc::clone(clock), Arc::clone(rng));
    match EmbeddedEngine::open(options) {
        Ok(engine) => {
            engine.close().await;
            Ok(None)
        }
        Err(OpenError::Lost { loss, .. }) => Ok(Some(loss.to_string())),
        // The missing part may be the file that records the end of the log. Other damage is refused again.
        Err(OpenError::Damaged { detail, .. }) => Ok(Some(detail)),
        Err(error) => Err(embedded_failure(&error)),
    }
}

/// Opens such a store, and closes it, which accepts the loss.
pub(crate) async fn store_accept_loss(
    directory: &Path,
    clock: &Arc<dyn Clock>,
    rng: &Arc<dyn Rng>,
) -> Result<(), Failure> {
    let options = OpenOptions::new(directory, Arc::clone(clock), Arc::clone(rng));
    let engine = EmbeddedEngine::open(OpenOptions { accept_loss: true, ..options });
    engine.map_err(|error| embedded_failure(&error))?.close().await;
    Ok(())
}

/// Checks that a directory has a store, without touching it.
fn embedded_find(directory: &Path) -> Result<(), Failure> {
    // The file that every opened directory has.
    let there = |directory: &Path| directory.join("FORMAT").is_file();
    if there(directory) {
        return Ok(());
    }
    let failure = Failure::new(Code::NotFound, format!("no store in {}", directory.display()));
    if there(&directory.join("store")) {
        let hint = format!("the store of `borough dev` is {EMBEDDED}{}/store", directory.display());
        return Err(failure.with_hint(hint));
    }
    Err(failure.with_hint(format!("the store of `borough dev --dir DIR` is {EMBEDDED}DIR/store")))
}

fn embedded_failure(error: &OpenError) -> Failure {
    let failure = failed("cannot open the store", error);
    match error {
        // Its own words begin with the store and its place.
        OpenError::Io { .. } => Failure::new(Code::StoreFailed, error_chain(error)),
        OpenError::Locked { .. } => failure.with_hint(
            "end that process, which may be a dev cell, or use another directory",
        ),
        OpenError::Newer { .. } => {
            failure.with_hint("nothing was touched; use the newer program, or another directory")
        }
        OpenError::Older { .. } => failure.with_hint(
            "nothing was touched; export it with the program that wrote it, and import it into a new store",
        ),
        OpenError::Lost { location, .. } => failure.with_hint(format!(
            "nothing was touched; restore the directory, or give up what is missing for good with `borough store \
             accept-loss --store {EMBEDDED}{location}`"
        )),
        OpenError::Damaged { .. } => {
            failure.with_hint(
                "nothing was touched; restore the directory, or use another one (`borough dev --remove` ends what runs \
                 in that of `dev`, and removes it)",
            )
        }
    }
}

fn fdb_failure(error: &borough_fdb::FdbOpenError) -> Failure {
    let failure = failed("cannot open the store", error);
    match error {
        borough_fdb::FdbOpenError::NotBuilt { .. } => failure.with_hint(
            "use the build with FoundationDB (`cargo build --release --features fdb`), or an embedded store",
        ),
        borough_fdb::FdbOpenError::Cluster { .. } | borough_fdb::FdbOpenError::Malformed { .. } => {
            failure.with_hint("give the path of a readable cluster file, or description:id@address:port")
        }
        borough_fdb::FdbOpenError::Client { .. } => failure,
    }
}

#[cfg(test)]
mod tests {
    use borough_kv::env::SystemClock;

    use super::*;

    fn opened(directory: &Path, missing: StoreMissing) -> Result<RoleStore, Failure> {
        let location = StoreLocation::Embedded(directory.to_owned());
        let wanted = StoreWanted { location: &location, missing, memory: None };
        store_open(wanted, &SystemClock::shared(), &SeededRng::shared(1))
    }

    #[tokio::test]
    async fn a_store_that_is_not_there_is_made_or_refused() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("store");
        let failure = opened(&directory, StoreMissing::Refuse).err().unwrap();
        assert_eq!(failure.code(), Code::NotFound);
        assert!(!directory.exists());
        opened(&directory, StoreMissing::Create).ok().unwrap().close().await;
        opened(&directory, StoreMissing::Refuse).ok().unwrap().close().await;
        let failure = opened(root.path(), StoreMissing::Refuse).err().unwrap();
        assert!(failure.hint().unwrap().ends_with("/store"), "{failure:?}");
    }

    #[tokio::test]
    async fn a_store_that_another_has_is_refused_with_what_helps() {
        let root = tempfile::tempdir().unwrap();
        let first = opened(root.path(), StoreMissing::Create).ok().unwrap();
        let failure = opened(root.path(), StoreMissing::Create).err().unwrap();
        assert!(failure.message().contains("in use"), "{failure:?}");
        assert!(failure.hint().is_some());
        first.close().await;
    }

    #[cfg(not(feature = "fdb"))]
    #[test]
    fn a_build_without_foundationdb_names_the_build_that_has_it() {
        let location = StoreLocation::Fdb("/etc/foundationdb/fdb.cluster".to_owned());
        let open = |memory| {
            let wanted = StoreWanted { location: &location, missing: StoreMissing::Create, memory };
            store_open(wanted, &SystemClock::shared(), &SeededRng::shared(1)).err().unwrap()
        };
        assert!(open(Some(1 << 30)).message().contains("--store-memory"), "only for an embedded store");
        let failure = open(None);
        assert!(failure.message().contains("without the feature `fdb`"), "{failure:?}");
        assert!(failure.hint().unwrap().contains("--features fdb"), "{failure:?}");
    }
}
