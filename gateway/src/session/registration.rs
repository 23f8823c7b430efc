//! Writes registrations, full reports that make a node ready, and agents' notes on their machines. All items that
//! arrive during one commit share the next one. Ten thousand agents that return at once therefore cost a few hundred
//! commits.
//!
//! Everything except a registration passes the fence of its session. If one item makes the transaction fail, the writer
//! halves the batch until it has found that item. The others commit. The writer also halves a batch that the store does
//! not take together.

use std::collections::BTreeSet;
use std::sync::Arc;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, Idempotency, Transaction, TransactionOption};
use borough_model::node::{Pressure, REGISTERED};
use borough_model::{Incarnation, TaskId};
use borough_store::journal::{Change, ChangeSet, Cursor, journal_head};
use borough_store::node::{
    NodeRegistration, NodeWriter, Registered, SessionFence, node_live_renew, node_packages_set,
    node_pressure_set, node_register, node_reported, node_writers,
};
use borough_store::request::request_id_random;
use borough_store::{CellSpace, StoreError, StoreResult, error_chain};
use tokio::sync::{mpsc, oneshot};

use super::write::{NotWritten, SessionMetrics, WriteFault, fault_of};

/// Most nodes in one transaction.
const NODES_MAX: usize = 64;
/// Most bytes of agents' data in one transaction. The store takes 10 MB. A node's row is written twice and includes
/// what operators have set.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// How often the store may refuse several nodes together before the batch is halved. A transaction that is too long, or
/// always in conflict, fails each time.
const RETRIES_TOGETHER: i64 = 3;
/// Nodes that wait for a commit. Beyond that, callers wait to enter the queue.
const QUEUE_MAX: usize = 1_024;

/// A registration, with a position at or after everything that was committed before it.
pub type RegistrationResult = Result<(Registered, Cursor), Arc<StoreError>>;

enum Pending {
    Registration(Box<NodeRegistration>, oneshot::Sender<RegistrationResult>),
    Noted(SessionFence, Noted, oneshot::Sender<Result<(), NotWritten>>),
}

/// What a session writes about its node besides tasks.
enum Noted {
    /// A full report was applied; the agent has these attempts and has not released them.
    Reported(Vec<(TaskId, Incarnation)>),
    Notes(NodeNotes),
}

impl Pending {
    fn what(&self) -> &'static str {
        match self {
            Self::Registration(..) => "registration",
            Self::Noted(_, Noted::Reported(_), _) => "return",
            Self::Noted(_, Noted::Notes(_), _) => "note",
        }
    }

    fn node(&self) -> String {
        match self {
            Self::Registration(registration, _) => registration.name.to_string(),
            Self::Noted(fence, ..) => fence.node.to_string(),
        }
    }

    fn is_waited_for(&self) -> bool {
        match self {
            Self::Registration(_, done) => !done.is_closed(),
            Self::Noted(_, _, done) => !done.is_closed(),
        }
    }

    /// Roughly the bytes that it writes.
    fn bytes(&self) -> usize {
        let text = |(key, value): (&String, &String)| key.len().saturating_add(value.len());
        match self {
            Self::Registration(registration, _) => registration.facts.attributes.iter().map(text).sum(),
            Self::Noted(_, Noted::Notes(notes), _) => notes.packages.iter().flatten().map(String::len).sum(),
            Self::Noted(_, Noted::Reported(_), _) => 0,
        }
    }
}

/// An agent's notes on its machine while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeNotes {
    /// The resources that it is short of; absent: the agent does not report them.
    pub short_of: Option<BTreeSet<Pressure>>,
    /// The installed packages; absent: the agent does not report them.
    pub packages: Option<BTreeSet<String>>,
}

/// The result of one item.
enum RegistrationOutcome {
    Registered(Box<Registered>),
    Written,
    Superseded,
}

/// The writer of one cell. Clones share it; it ends with the last one.
#[derive(Clone)]
pub struct Registrations {
    queue: mpsc::Sender<Pending>,
}

/// What a writer of the gateway's own transactions needs.
#[derive(Clone)]
pub struct WriterContext {
    pub db: Database,
    pub space: CellSpace,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
    pub metrics: SessionMetrics,
}

impl Registrations {
    /// Starts the writer.
    pub fn spawn(context: WriterContext) -> Self {
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(RegistrationWriter { context }.run(receiver));
        Self { queue }
    }

    /// Registers a node and puts the session of `registration` in force. `None` if this process is ending.
    pub async fn register(&self, registration: NodeRegistration) -> Option<RegistrationResult> {
        let (done, registered) = oneshot::channel();
        self.queue.send(Pending::Registration(Box::new(registration), done)).await.ok()?;
        registered.await.ok()
    }

    /// Writes that a full report of the session was applied. If the node has no old attempts left, it accepts tasks
    /// again. `present` are the attempts that the agent has and has not released. `None` if this process is ending.
    pub async fn reported(
        &self,
        fence: SessionFence,
        present: Vec<(TaskId, Incarnation)>,
    ) -> Option<Result<(), NotWritten>> {
        self.write(fence, Noted::Reported(present)).await
    }

    /// Writes an agent's notes on its machine. `None` if this process is ending.
    pub async fn noted(&self, fence: SessionFence, notes: NodeNotes) -> Option<Result<(), NotWritten>> {
        self.write(fence, Noted::Notes(notes)).await
    }

    async fn write(&self, fence: SessionFence, noted: Noted) -> Option<Result<(), NotWritten>> {
        let (done, written) = oneshot::channel();
        self.queue.send(Pending::Noted(fence, noted, done)).await.ok()?;
        written.await.ok()
    }
}

struct RegistrationWriter {
    context: WriterContext,
}

impl RegistrationWriter {
    async fn run(self, mut receiver: mpsc::Receiver<Pending>) {
        while let Some(first) = receiver.recv().await {
            let mut bytes = first.bytes();
            let mut batch = vec![first];
            while batch.len() < NODES_MAX && bytes < BATCH_BYTES_MAX {
                let Ok(next) = receiver.try_recv() else { break };
                bytes = bytes.saturating_add(next.bytes());
                batch.push(next);
            }
            self.batch_write(batch).await;
        }
    }

    /// Writes a batch, in parts if it fails as a whole. An item that cannot be written gets the reason: its agent comes
    /// back, or reports again.
    async fn batch_write(&self, mut batch: Vec<Pending>) {
        let error = match self.batch_try(&batch).await {
            Ok((outcomes, cursor)) => {
                for (pending, outcome) in batch.into_iter().zip(outcomes) {
                    self.answer(pending, outcome, cursor);
                }
                return;
            }
            Err(error) => Arc::new(error),
        };
        // A failure of several items blames none of them, even if all other callers have gone in the meantime.
        let alone = batch.len() == 1;
        batch.retain(Pending::is_waited_for);
        if batch.is_empty() {
            return;
        }
        if fault_of(&error) != WriteFault::Store && !alone {
            let rest = batch.split_off(batch.len() / 2);
            Box::pin(self.batch_write(batch)).await;
            Box::pin(self.batch_write(rest)).await;
            return;
        }
        for pending in batch {
            self.answer_error(pending, &error);
        }
    }

    async fn batch_try(&self, batch: &[Pending]) -> StoreResult<(Vec<RegistrationOutcome>, Cursor)> {
        let request = request_id_random(&*self.context.rng);
        let actor = match batch {
            [single] => format!("node/{}", single.node()),
            _ => "gateway".to_owned(),
        };
        let change = Change { request, actor, action: "node_register", at_ms: self.context.clock.wall_ms() };
        let (change, space, several) = (&change, &self.context.space, batch.len() > 1);
        let written =
            self.context.db.run_committed("node_register", Idempotency::Natural, |tx, _| async move {
                if several {
                    tx.set_option(TransactionOption::RetryLimit(RETRIES_TOGETHER))?;
                }
                let mut changes = ChangeSet::begin(&tx, space, change).await?;
                let head = journal_head(&tx, space).await?;
                // The writes of a session count as made before the registrations in the same batch.
                let mut outcomes = noted_write(&tx, space, &mut changes, batch).await?;
                for (pending, outcome) in batch.iter().zip(&mut outcomes) {
                    if let Pending::Registration(registration, _) = pending {
                        let (registered, writer) = node_register(&tx, &mut changes, registration).await?;
                        node_live_renew(&writer, space, REGISTERED, 0)?;
                        *outcome = RegistrationOutcome::Registered(Box::new(registered));
                    }
                }
                let changed = !changes.deltas().is_empty();
                changes.append(&tx)?;
                Ok::<_, StoreError>((outcomes, head, changed))
            });
        let ((outcomes, head, changed), committed) = written.await?;
        let own = committed.stamp.filter(|_| changed);
        let cursor = own.map_or(head, |stamp| Cursor { store_epoch: head.store_epoch, stamp });
        Ok((outcomes, cursor))
    }

    /// The caller may have gone in the meantime.
    fn answer(&self, pending: Pending, outcome: RegistrationOutcome, cursor: Cursor) {
        if matches!(outcome, RegistrationOutcome::Superseded) {
            self.context.metrics.superseded(pending.what());
        }
        match (pending, outcome) {
            (Pending::Registration(_, done), RegistrationOutcome::Registered(registered)) => {
                drop(done.send(Ok((*registered, cursor))));
            }
            (Pending::Noted(_, _, done), RegistrationOutcome::Written) => drop(done.send(Ok(()))),
            (Pending::Noted(_, _, done), RegistrationOutcome::Superseded) => {
                drop(done.send(Err(NotWritten::Superseded)))
            }
            // Outcomes are in the order of the items.
            (Pending::Registration(..), _) | (Pending::Noted(..), RegistrationOutcome::Registered(_)) => {}
        }
    }

    fn answer_error(&self, pending: Pending, error: &Arc<StoreError>) {
        if fault_of(error) == WriteFault::Item {
            self.context.metrics.refused(pending.what());
            tracing::warn!(
                cell = %self.context.space,
                node = pending.node(),
                what = pending.what(),
                error = %error_chain(&**error),
                "the store refused an item; the gateway has dropped it"
            );
        }
        match pending {
            Pending::Registration(_, done) => drop(done.send(Err(Arc::clone(error)))),
            Pending::Noted(_, _, done) => drop(done.send(Err(NotWritten::of(error)))),
        }
    }
}

/// Writes the notes and returns of a batch. Returns one outcome per item, also for registrations.
async fn noted_write(
    tx: &Transaction,
    space: &CellSpace,
    changes: &mut ChangeSet,
    batch: &[Pending],
) -> StoreResult<Vec<RegistrationOutcome>> {
    let fences = batch.iter().filter_map(|pending| match pending {
        Pending::Noted(fence, ..) => Some(*fence),
        Pending::Registration(..) => None,
    });
    let writers = node_writers(tx, space, fences.collect::<BTreeSet<_>>()).await?;
    let mut outcomes = Vec::with_capacity(batch.len());
    for pending in batch {
        let (writer, noted) = match pending {
            Pending::Noted(fence, noted, _) => (writers.get(fence), Some(noted)),
            Pending::Registration(..) => (None, None),
        };
        let Some((writer, noted)) = writer.zip(noted) else {
            outcomes.push(RegistrationOutcome::Superseded);
            continue;
        };
        match noted {
            Noted::Reported(present) => drop(node_reported(writer, changes, present).await?),
            Noted::Notes(notes) => notes_write(writer, changes, notes).await?,
        }
        outcomes.push(RegistrationOutcome::Written);
    }
    Ok(outcomes)
}

async fn notes_write(writer: &NodeWriter<'_>, changes: &mut ChangeSet, notes: &NodeNotes) -> StoreResult<()> {
    if let Some(short_of) = &notes.short_of {
        node_pressure_set(writer, changes, short_of).await?;
    }
    if let Some(packages) = &notes.packages {
        node_packages_set(writer, changes, packages).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use borough_kv::env::{ManualClock, SeededRng};
    use borough_kv::{EmbeddedEngine, Engine, FaultEngine, FaultPlan};
    use borough_model::node::{AgentIdentity, AgentProcess, DurableId, NodeFacts};
    use borough_model::{Name, NodeId, Resources};
    use borough_store::cell::{CellMeta, cell_create};

    use super::*;

    /// A registration of agent `durable` at node `node`, for a session with the number of its candidate.
    fn registration(node: u64, durable: u128, candidate: u64) -> NodeRegistration {
        let facts = NodeFacts {
            capacity: Resources { cpu_millis: 1_000, memory_bytes: 1 << 30, ..Resources::default() },
            port_first: 20_000,
            port_last: 20_009,
            attributes: std::collections::BTreeMap::new(),
            host: format!("10.0.0.{node}"),
            boot_id: "boot".to_owned(),
            agent_version: "0".to_owned(),
            cards: Vec::new(),
            domains: Vec::new(),
        };
        let identity = AgentIdentity::new(DurableId(durable), "").unwrap();
        let agent = Some(AgentProcess { identity, identity_before: None, instance: candidate });
        let name = Name::new(format!("n{node}")).unwrap();
        NodeRegistration { agent, ..NodeRegistration::new(name, facts, NodeId(candidate), candidate) }
    }

    /// A writer of an empty cell, over a store with the faults of `plan`.
    async fn writer(plan: FaultPlan) -> RegistrationWriter {
        let clock: Arc<dyn Clock> = ManualClock::at(1_000);
        let engine: Arc<dyn Engine> =
            Arc::new(EmbeddedEngine::ephemeral(Arc::clone(&clock), SeededRng::shared(1)));
        let space = CellSpace::new(Name::new("alpha").unwrap());
        let (quiet, made) = (Database::new(Arc::clone(&engine)), &space);
        let create = quiet.run("test", Idempotency::Natural, |tx, _| async move {
            cell_create(&tx, made, &CellMeta::default(), 1).await
        });
        create.await.unwrap();
        let db = Database::new(Arc::new(FaultEngine::new(engine, plan, SeededRng::shared(2))));
        let metrics = SessionMetrics::default();
        RegistrationWriter { context: WriterContext { db, space, clock, rng: SeededRng::shared(3), metrics } }
    }

    fn pending(registration: NodeRegistration) -> (Pending, oneshot::Receiver<RegistrationResult>) {
        let (done, registered) = oneshot::channel();
        (Pending::Registration(Box::new(registration), done), registered)
    }

    /// The transaction refuses one of two registrations, whose agent has hung up. The other agent must not get its
    /// refusal.
    #[tokio::test(start_paused = true)]
    async fn a_registration_is_not_refused_for_another_one() {
        let writer = writer(FaultPlan::none()).await;
        let (first, registered) = pending(registration(1, 1, 1));
        writer.batch_write(vec![first]).await;
        registered.await.unwrap().unwrap();
        let (refused, hung_up) = pending(registration(1, 2, 2));
        let (innocent, registered) = pending(registration(2, 3, 3));
        drop(hung_up);
        writer.batch_write(vec![refused, innocent]).await;
        assert!(registered.await.unwrap().unwrap().0.created);
    }

    /// Registrations that the store never takes together commit one by one.
    #[tokio::test(start_paused = true)]
    async fn registrations_that_the_store_never_takes_together_come_alone() {
        let writer = writer(FaultPlan { read_fails: 0.1, ..FaultPlan::none() }).await;
        let (batch, registered): (Vec<_>, Vec<_>) =
            (1..=64).map(|node| pending(registration(node, node.into(), node))).unzip();
        // 64 nodes are written together only if 200 reads succeed, once in 10^9 tries.
        let written = tokio::time::timeout(std::time::Duration::from_secs(300), writer.batch_write(batch));
        written.await.expect("registrations must be taken in parts");
        for registered in registered {
            assert!(registered.await.unwrap().unwrap().0.created);
        }
    }
}
