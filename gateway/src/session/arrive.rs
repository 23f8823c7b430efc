//! Nodes on their way into the store: registrations, full reports that make a node ready, and what agents note of the
//! machine. Those of all nodes that
//! come while one commit is under way share the next one, so that ten thousand agents that return at once are a few
//! hundred commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, Idempotency, Transaction};
use borough_model::node::{NodeFacts, NodeLive, Pressure};
use borough_model::{Name, NodeId};
use borough_store::journal::{Change, ChangeSet, Cursor, journal_head};
use borough_store::node::{
    Registered, node_live_renew, node_packages_set, node_pressure_set, node_register, node_reported,
};
use borough_store::request::request_id_random;
use borough_store::{CellSpace, StoreError, StoreResult};
use tokio::sync::{mpsc, oneshot};

/// Nodes in one transaction at most.
const NODES_MAX: usize = 64;
/// Nodes that wait for a commit; more wait before that.
const QUEUE_MAX: usize = 1_024;

/// A node whose agent has opened a session.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its name.
    pub name: Name,
    /// What its agent says of it.
    pub facts: NodeFacts,
    /// Its id where the name is new.
    pub candidate: NodeId,
    /// Its lease, which names the session.
    pub live: NodeLive,
}

/// A registration, and a position at or after everything that was committed before it.
pub type Arrived = StoreResult<(Registered, Cursor)>;

enum Pending {
    Arrival(Box<Arrival>, oneshot::Sender<Arrived>),
    Reported { node: NodeId, lost: u32, stale: u32, done: oneshot::Sender<StoreResult<()>> },
    Noted { node: NodeId, notes: NodeNotes, done: oneshot::Sender<StoreResult<()>> },
}

/// What an agent says of its machine while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeNotes {
    /// What it is short of; absent: it does not say.
    pub short_of: Option<BTreeSet<Pressure>>,
    /// The packages that are installed; absent: it does not say.
    pub packages: Option<BTreeSet<String>>,
}

/// What became of one of them.
enum Outcome {
    Registered(Box<Registered>),
    Written,
}

/// The writer of one cell. Clones feed the same one; it ends with the last.
#[derive(Clone)]
pub struct Arrivals {
    queue: mpsc::Sender<Pending>,
}

impl Arrivals {
    /// Starts the writer.
    pub fn spawn(db: Database, space: CellSpace, clock: Arc<dyn Clock>, rng: Arc<dyn Rng>) -> Self {
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(Writer { db, space, clock, rng }.run(receiver));
        Self { queue }
    }

    /// Registers a node and makes the session of `arrival` the one its lease names. `None` where this process is
    /// ending.
    pub async fn register(&self, arrival: Arrival) -> Option<Arrived> {
        let (done, registered) = oneshot::channel();
        self.queue.send(Pending::Arrival(Box::new(arrival), done)).await.ok()?;
        registered.await.ok()
    }

    /// A full report of `node` was applied: with nothing old left on it, it takes tasks again. `None` where this
    /// process is ending.
    pub async fn reported(&self, node: NodeId, lost: u32, stale: u32) -> Option<StoreResult<()>> {
        let (done, reported) = oneshot::channel();
        self.queue.send(Pending::Reported { node, lost, stale, done }).await.ok()?;
        reported.await.ok()
    }

    /// Writes what an agent has noted of its machine. `None` where this process is ending.
    pub async fn noted(&self, node: NodeId, notes: NodeNotes) -> Option<StoreResult<()>> {
        let (done, noted) = oneshot::channel();
        self.queue.send(Pending::Noted { node, notes, done }).await.ok()?;
        noted.await.ok()
    }
}

struct Writer {
    db: Database,
    space: CellSpace,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
}

impl Writer {
    async fn run(self, mut receiver: mpsc::Receiver<Pending>) {
        let mut batch = Vec::with_capacity(NODES_MAX);
        while receiver.recv_many(&mut batch, NODES_MAX).await > 0 {
            match self.batch_try(&batch).await {
                Ok((outcomes, cursor)) => {
                    for (pending, outcome) in batch.drain(..).zip(outcomes) {
                        answer(pending, Ok((outcome, cursor)));
                    }
                }
                // What is wrong with one must not hold up the others.
                Err(_) if batch.len() > 1 => {
                    for pending in batch.drain(..) {
                        let alone = self.batch_try(std::slice::from_ref(&pending)).await;
                        answer_alone(pending, alone);
                    }
                }
                Err(error) => {
                    if let Some(alone) = batch.pop() {
                        answer_alone(alone, Err(error));
                    }
                }
            }
        }
    }

    async fn batch_try(&self, batch: &[Pending]) -> StoreResult<(Vec<Outcome>, Cursor)> {
        let request = request_id_random(&*self.rng);
        let actor = match batch {
            [Pending::Arrival(arrival, _)] => format!("node/{}", arrival.name),
            [Pending::Reported { node, .. } | Pending::Noted { node, .. }] => format!("node/{node}"),
            _ => "gateway".to_owned(),
        };
        let change = Change { request, actor, action: "node_register", at_ms: self.clock.wall_ms() };
        let (change, space) = (&change, &self.space);
        let written = self.db.run_committed("node_register", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let head = journal_head(&tx, space).await?;
            let mut outcomes = Vec::with_capacity(batch.len());
            let mut beats = BTreeMap::new();
            for pending in batch {
                outcomes.push(match pending {
                    Pending::Arrival(arrival, _) => {
                        let Arrival { name, facts, candidate, live } = &**arrival;
                        let registered = node_register(&tx, &mut changes, name, facts, *candidate).await?;
                        beats.insert(registered.row.id, live.clone());
                        Outcome::Registered(Box::new(registered))
                    }
                    Pending::Noted { node, notes, .. } => {
                        notes_write(&tx, &mut changes, *node, notes).await?;
                        Outcome::Written
                    }
                    Pending::Reported { node, lost, stale, .. } => {
                        node_reported(&tx, &mut changes, *node, *lost, *stale).await?;
                        Outcome::Written
                    }
                });
            }
            node_live_renew(&tx, space, &beats)?;
            let changed = !changes.deltas().is_empty();
            changes.append(&tx)?;
            Ok::<_, StoreError>((outcomes, head, changed))
        });
        let ((outcomes, head, changed), committed) = written.await?;
        let own = committed.stamp.filter(|_| changed);
        let cursor = own.map_or(head, |stamp| Cursor { store_epoch: head.store_epoch, stamp });
        Ok((outcomes, cursor))
    }
}

fn answer_alone(pending: Pending, alone: StoreResult<(Vec<Outcome>, Cursor)>) {
    match alone {
        Ok((outcomes, cursor)) => {
            if let Some(outcome) = outcomes.into_iter().next() {
                answer(pending, Ok((outcome, cursor)));
            }
        }
        Err(error) => answer(pending, Err(error)),
    }
}

async fn notes_write(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    notes: &NodeNotes,
) -> StoreResult<()> {
    if let Some(short_of) = &notes.short_of {
        node_pressure_set(tx, changes, node, short_of).await?;
    }
    if let Some(packages) = &notes.packages {
        node_packages_set(tx, changes, node, packages).await?;
    }
    Ok(())
}

/// Who asked may have gone in the meantime.
fn answer(pending: Pending, outcome: StoreResult<(Outcome, Cursor)>) {
    match (pending, outcome) {
        (Pending::Arrival(_, done), Ok((Outcome::Registered(registered), cursor))) => {
            done.send(Ok((*registered, cursor))).ok();
        }
        (Pending::Arrival(_, done), Err(error)) => drop(done.send(Err(error))),
        (Pending::Reported { done, .. } | Pending::Noted { done, .. }, outcome) => {
            drop(done.send(outcome.map(|_| ())))
        }
        // Outcomes are in the order of what was asked.
        (Pending::Arrival(..), Ok((Outcome::Written, _))) => {}
    }
}
