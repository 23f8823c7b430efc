//! The writers. Each changes rows of its own nodes through the store layer, with one journal entry per transaction, no
//! faster than its share of the offered rate.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, Idempotency};
use borough_model::node::{NodeFacts, node_packages_kept};
use borough_model::resource::Resources;
use borough_model::{Delta, Name, NodeId};
use borough_store::journal::{Change, ChangeSet, journal_floor};
use borough_store::node::{NodeRegistration, SessionFence, node_packages_set, node_register, node_writer};
use borough_store::request::request_id_random;
use borough_store::{CellSpace, StoreError, StoreResult};
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::journal::{JournalBook, JournalSample};
use crate::spec::machine_facts;

/// Nodes of each writer.
const NODES: u32 = 25;
/// The session in which the nodes are registered.
const SESSION: u64 = 1;
/// Bytes of the name of a package.
const PACKAGE_BYTES: usize = 100;
/// Pause after a write that the store refused.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
/// The longest measurable commit, in microseconds: ten minutes.
const COMMIT_US_MAX: u64 = 600_000_000;

/// The amount of writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadShape {
    pub writers: u32,
    /// Roughly the bytes of an entry.
    pub entry_bytes: usize,
    /// Most bytes of entries per second, of all writers.
    pub bytes_per_s: u64,
}

/// The writes since the last call.
#[derive(Debug)]
pub(super) struct Window {
    pub commits: u64,
    /// Bytes of their entries.
    pub bytes: u64,
    /// Transactions that the store refused.
    pub refused: u64,
    /// Microseconds of each transaction, with its retries.
    pub commit_us: Histogram<u64>,
}

impl Window {
    fn new() -> anyhow::Result<Self> {
        let commit_us = Histogram::new_with_bounds(1, COMMIT_US_MAX, 3)?;
        Ok(Self { commits: 0, bytes: 0, refused: 0, commit_us })
    }
}

/// State that the writers share.
struct LoadShared {
    db: Database,
    space: CellSpace,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    window: Mutex<Window>,
    book: Mutex<JournalBook>,
}

/// The running writers.
pub(super) struct SustainedLoad {
    shared: Arc<LoadShared>,
    writers: Vec<JoinHandle<()>>,
}

impl SustainedLoad {
    /// Registers the nodes and starts the writers.
    ///
    /// # Errors
    /// The store accepted no node.
    pub(super) async fn start(
        db: &Database,
        space: &CellSpace,
        shape: LoadShape,
        clock: &Arc<dyn Clock>,
        rng: &Arc<dyn Rng>,
    ) -> anyhow::Result<Self> {
        let shared = Arc::new(LoadShared {
            db: db.clone(),
            space: space.clone(),
            clock: Arc::clone(clock),
            rng: Arc::clone(rng),
            window: Mutex::new(Window::new()?),
            book: Mutex::default(),
        });
        let mut writers = Vec::new();
        for writer in 0..shape.writers {
            let nodes = shared.nodes_register(writer).await?;
            writers.push(tokio::spawn(Arc::clone(&shared).write(nodes, shape)));
        }
        Ok(Self { shared, writers })
    }

    /// Checks that every writer is running.
    ///
    /// # Errors
    /// One has ended.
    pub(super) fn works(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.writers.iter().any(JoinHandle::is_finished), "a writer has ended");
        Ok(())
    }

    /// The writes since the last call; begins the next window.
    ///
    /// # Errors
    /// None in practice: the bounds of the histogram are fixed.
    pub(super) fn window_take(&self) -> anyhow::Result<Window> {
        Ok(std::mem::replace(&mut *self.shared.window.lock(), Window::new()?))
    }

    /// The present size of the journal.
    ///
    /// # Errors
    /// The store could not be read.
    pub(super) async fn journal_size(&self) -> anyhow::Result<JournalSample> {
        let shared = &self.shared;
        let floor = shared.db.run("journal_floor", Idempotency::ReadOnly, |tx, _| async move {
            journal_floor(&tx, &shared.space).await
        });
        let floor = floor.await.context("the journal's floor")?;
        let mut book = shared.book.lock();
        if let Some(floor) = floor {
            book.trimmed(floor.trimmed_to.stamp);
        }
        Ok(book.size())
    }

    /// Ends the writers.
    pub(super) async fn end(self) {
        for writer in self.writers {
            writer.abort();
            writer.await.ok();
        }
    }
}

/// Two sets of packages that differ in every name, of about `bytes` bytes each.
fn package_sets(bytes: usize) -> [BTreeSet<String>; 2] {
    let count = (bytes / PACKAGE_BYTES).max(1);
    ["even", "odd"].map(|version| {
        let package = |number: usize| {
            let name = format!("package-{number:04}-");
            let padding = "x".repeat(PACKAGE_BYTES - name.len() - version.len() - 1);
            format!("{name}{padding}/{version}")
        };
        node_packages_kept((0..count).map(package))
    })
}

impl LoadShared {
    fn change(&self, action: &'static str) -> Change {
        let request = request_id_random(&*self.rng);
        Change { request, actor: "loadtest".to_owned(), action, at_ms: self.clock.wall_ms() }
    }

    async fn nodes_register(&self, writer: u32) -> anyhow::Result<Vec<NodeId>> {
        let mut nodes = Vec::new();
        for number in 0..NODES {
            let name = Name::new(format!("node-{writer}-{number}"))?;
            let id = NodeId(self.rng.next_u64().max(1));
            let arrival = &NodeRegistration::new(name, facts(), id, SESSION);
            let (change, space) = (&self.change("node_register"), &self.space);
            let register = self.db.run("node_register", Idempotency::Natural, |tx, _| async move {
                let mut changes = ChangeSet::begin(&tx, space, change).await?;
                node_register(&tx, &mut changes, arrival).await?;
                changes.append(&tx)
            });
            register.await?;
            nodes.push(id);
        }
        Ok(nodes)
    }

    /// Writes until it is aborted.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    async fn write(self: Arc<Self>, nodes: Vec<NodeId>, shape: LoadShape) {
        let sets = package_sets(shape.entry_bytes);
        let share = (shape.bytes_per_s / u64::from(shape.writers)).max(1);
        let (began, mut written) = (Instant::now(), 0_u64);
        for round in 0_usize.. {
            let due = Duration::from_micros(written.saturating_mul(1_000_000) / share);
            tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
            let node = nodes[round % nodes.len()];
            let packages = &sets[round / nodes.len() % 2];
            let begin = Instant::now();
            match self.entry_write(node, packages).await {
                Ok(bytes) => {
                    written += bytes;
                    let us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
                    let mut window = self.window.lock();
                    window.commits += 1;
                    window.bytes += bytes;
                    window.commit_us.saturating_record(us.max(1));
                }
                Err(_) => {
                    self.window.lock().refused += 1;
                    tokio::time::sleep(REFUSED_PAUSE).await;
                }
            }
        }
    }

    /// One transaction. Returns the bytes of its entry.
    async fn entry_write(&self, node: NodeId, packages: &BTreeSet<String>) -> StoreResult<u64> {
        let (change, space) = (&self.change("packages_set"), &self.space);
        let write = self.db.run_committed("packages_set", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let fence = SessionFence { node, session: SESSION };
            let writer = node_writer(&tx, space, fence).await?;
            let writer =
                writer.ok_or_else(|| StoreError::not_found(format!("the session of node {node}")))?;
            node_packages_set(&writer, &mut changes, packages).await?;
            let bytes = changes.deltas().iter().map(delta_bytes).sum::<usize>();
            changes.append(&tx)?;
            Ok::<_, StoreError>(bytes)
        });
        let (bytes, committed) = write.await?;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if let Some(stamp) = committed.stamp {
            self.book.lock().appended(stamp, bytes);
        }
        Ok(bytes)
    }
}

/// Bytes of a delta in the journal.
fn delta_bytes(delta: &Delta) -> usize {
    minicbor::to_vec(delta).map_or(0, |bytes| bytes.len())
}

fn facts() -> NodeFacts {
    let capacity = Resources { cpu_millis: 4_000, memory_bytes: 32 << 30, ..Resources::default() };
    machine_facts(capacity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_about_the_bytes_that_were_asked_for() {
        for bytes in [1_000, 16_384, 19_000] {
            let [even, odd] = package_sets(bytes);
            assert!(even.is_disjoint(&odd), "every write changes the row");
            for set in [even, odd] {
                let kept: usize = set.iter().map(String::len).sum();
                assert!(kept <= bytes && kept + PACKAGE_BYTES > bytes, "{kept} of {bytes}");
            }
        }
    }
}
