//! Writes registrations, full reports that make a node ready, and agents' notes on their machines. All items share
//! transactions. Everything except a registration passes the fence of its session.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_kv::Transaction;
use borough_model::node::{Pressure, REGISTERED};
use borough_model::{Incarnation, TaskId};
use borough_store::journal::{ChangeSet, Cursor};
use borough_store::node::{
    NodeRegistration, NodeWriter, Registered, SessionFence, node_live_renew, node_packages_set,
    node_pressure_set, node_register, node_reported, node_silence_begin, node_silence_end, node_writers,
};
use borough_store::{CellSpace, StoreError, StoreResult};

use super::batch::{BatchItem, BatchWriter, Unwritten, WriteSize, WriterContext, Written};
use super::write::NotWritten;

/// A registration, with a position at or after everything that was committed before it.
pub type RegistrationResult = Result<(Registered, Cursor), Arc<StoreError>>;

/// What is written about a node besides tasks.
enum NodeWrite {
    Registration(Box<NodeRegistration>),
    Noted(SessionFence, Noted),
}

/// What a session writes about its node besides tasks.
enum Noted {
    /// A full report was applied; the agent has these attempts and has not released them.
    Reported(Vec<(TaskId, Incarnation)>),
    Notes(NodeNotes),
    /// Its agent does not answer, since so many milliseconds.
    Silent(u64),
}

/// An agent's notes on its machine while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeNotes {
    /// The resources that it is short of; absent: the agent does not report them.
    pub short_of: Option<BTreeSet<Pressure>>,
    /// The installed packages; absent: the agent does not report them.
    pub packages: Option<BTreeSet<String>>,
}

impl BatchItem for NodeWrite {
    /// The registered node, if the item registers one.
    type Answer = Option<Box<Registered>>;

    const ACTION: &'static str = "node_register";
    /// A node's row is written twice and includes what operators have set.
    const MOST: WriteSize = WriteSize { parts: 64, bytes: 1 << 20 };

    fn size(&self) -> WriteSize {
        let text = |(key, value): (&String, &String)| key.len().saturating_add(value.len());
        let bytes = match self {
            Self::Registration(registration) => registration.facts.attributes.iter().map(text).sum(),
            Self::Noted(_, Noted::Notes(notes)) => notes.packages.iter().flatten().map(String::len).sum(),
            Self::Noted(_, Noted::Reported(_) | Noted::Silent(_)) => 0,
        };
        WriteSize { parts: 1, bytes }
    }

    fn what(&self) -> &'static str {
        match self {
            Self::Registration(_) => "registration",
            Self::Noted(_, Noted::Reported(_)) => "return",
            Self::Noted(_, Noted::Notes(_)) => "note",
            Self::Noted(_, Noted::Silent(_)) => "silence",
        }
    }

    fn node(&self) -> String {
        match self {
            Self::Registration(registration) => registration.name.to_string(),
            Self::Noted(fence, _) => fence.node.to_string(),
        }
    }

    async fn write(
        tx: &Transaction,
        changes: &mut ChangeSet,
        items: &[&Self],
    ) -> StoreResult<Vec<Option<Self::Answer>>> {
        let space = changes.space().clone();
        // The writes of a session count as made before the registrations in the same batch.
        let mut answers = noted_write(tx, &space, changes, items).await?;
        // If one agent registers several times in one batch, the last session is in force.
        let mut last = BTreeMap::new();
        for (item, answer) in items.iter().zip(&mut answers) {
            if let Self::Registration(registration) = item {
                let (registered, writer) = node_register(tx, changes, registration).await?;
                last.insert(writer.node(), writer);
                *answer = Some(Some(Box::new(registered)));
            }
        }
        for writer in last.values() {
            node_live_renew(writer, &space, REGISTERED, 0, None).await?;
        }
        Ok(answers)
    }
}

/// The writer of one cell. Clones share it; it ends with the last one.
#[derive(Clone)]
pub struct Registrations {
    writer: BatchWriter<NodeWrite>,
}

impl Registrations {
    /// Starts the writer.
    pub fn spawn(context: WriterContext) -> Self {
        Self { writer: BatchWriter::spawn(context) }
    }

    /// Registers a node and puts the session of `registration` in force. `None` if this process is ending.
    pub async fn register(&self, registration: NodeRegistration) -> Option<RegistrationResult> {
        let write = NodeWrite::Registration(Box::new(registration));
        match self.writer.write(write).await? {
            Ok(Written { answer, cursor }) => answer.map(|registered| Ok((*registered, cursor))),
            Err(Unwritten::Refused(error) | Unwritten::Later { error, .. }) => Some(Err(error)),
            // A registration has no session before it is written.
            Err(Unwritten::Superseded) => None,
        }
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

    /// Writes that the agent of the session does not answer, since `silent_ms` milliseconds. `None` if this process is
    /// ending.
    pub async fn silent(&self, fence: SessionFence, silent_ms: u64) -> Option<Result<(), NotWritten>> {
        self.write(fence, Noted::Silent(silent_ms)).await
    }

    async fn write(&self, fence: SessionFence, noted: Noted) -> Option<Result<(), NotWritten>> {
        let written = self.writer.write(NodeWrite::Noted(fence, noted)).await?;
        Some(written.map(drop).map_err(NotWritten::from))
    }
}

/// Writes the notes and returns of a batch. Returns one answer per item, `None` for registrations.
async fn noted_write(
    tx: &Transaction,
    space: &CellSpace,
    changes: &mut ChangeSet,
    items: &[&NodeWrite],
) -> StoreResult<Vec<Option<Option<Box<Registered>>>>> {
    let fences = items.iter().filter_map(|item| match item {
        NodeWrite::Noted(fence, _) => Some(*fence),
        NodeWrite::Registration(_) => None,
    });
    let writers = node_writers(tx, space, fences.collect::<BTreeSet<_>>()).await?;
    let mut answers = Vec::with_capacity(items.len());
    for item in items {
        let (writer, noted) = match item {
            NodeWrite::Noted(fence, noted) => (writers.get(fence), Some(noted)),
            NodeWrite::Registration(_) => (None, None),
        };
        let Some((writer, noted)) = writer.zip(noted) else {
            answers.push(None);
            continue;
        };
        match noted {
            Noted::Reported(present) => drop(node_reported(writer, changes, present).await?),
            Noted::Notes(notes) => notes_write(writer, changes, notes).await?,
            Noted::Silent(silent_ms) => drop(node_silence_begin(writer, changes, *silent_ms).await?),
        }
        answers.push(Some(None));
    }
    Ok(answers)
}

/// A note proves that the agent answers.
async fn notes_write(writer: &NodeWriter<'_>, changes: &mut ChangeSet, notes: &NodeNotes) -> StoreResult<()> {
    node_silence_end(writer, changes).await?;
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
    use borough_kv::FaultPlan;
    use borough_kv::env::{Clock, ManualClock, SeededRng};
    use borough_model::node::{AgentIdentity, AgentProcess, DurableId, NodeFacts};
    use borough_model::{NodeId, Resources};
    use borough_store::cell::CellMeta;
    use borough_testkit::{MemoryStore, OpenCell, name, node_facts};

    use super::*;
    use crate::session::write::SessionMetrics;

    /// A registration of agent `durable` at node `node`, for a session with the number of its candidate.
    fn registration(node: u64, durable: u128, candidate: u64) -> NodeRegistration {
        let capacity = Resources { cpu_millis: 1_000, memory_bytes: 1 << 30, ..Resources::default() };
        let facts = NodeFacts { host: format!("10.0.0.{node}"), ..node_facts(capacity) };
        let identity = AgentIdentity::new(DurableId(durable), "").unwrap();
        let agent = Some(AgentProcess { identity, identity_before: None, instance: candidate });
        let name = name(&format!("n{node}"));
        NodeRegistration { agent, ..NodeRegistration::new(name, facts, NodeId(candidate), candidate) }
    }

    /// A writer of an empty cell, over a store with the faults of `plan`.
    async fn writer(plan: FaultPlan) -> Registrations {
        let clock: Arc<dyn Clock> = ManualClock::at(1_000);
        let store = MemoryStore::new(Arc::clone(&clock), SeededRng::shared(1));
        let space = OpenCell::create(store.quiet(), &CellMeta::default()).await.space;
        let db = store.faulty(plan, SeededRng::shared(2));
        let metrics = SessionMetrics::default();
        Registrations::spawn(WriterContext { db, space, clock, rng: SeededRng::shared(3), metrics })
    }

    /// A session waits until the mirror shows the position of its registration. One that changes no row writes no
    /// entry.
    #[tokio::test(start_paused = true)]
    async fn a_repeated_registration_has_the_position_of_the_last_entry() {
        let writer = writer(FaultPlan::none()).await;
        let (first, began) = writer.register(registration(1, 1, 1)).await.unwrap().unwrap();
        let (again, cursor) = writer.register(registration(1, 1, 1)).await.unwrap().unwrap();
        assert!(first.created && !again.created);
        assert_eq!(cursor, began);
    }

    /// The transaction refuses one of two registrations, whose agent hangs up during the commit. The other agent must
    /// not get its refusal.
    #[tokio::test(start_paused = true)]
    async fn a_registration_is_not_refused_for_another_one() {
        let writer = writer(FaultPlan::none()).await;
        writer.register(registration(1, 1, 1)).await.unwrap().unwrap();
        let mut refused = Box::pin(writer.register(registration(1, 2, 2)));
        let innocent = writer.register(registration(2, 3, 3));
        // One poll puts the refused registration into the queue before the other one; then its agent hangs up.
        assert!(futures::poll!(&mut refused).is_pending());
        drop(refused);
        assert!(innocent.await.unwrap().unwrap().0.created);
    }

    /// Registrations that the store never takes together commit one by one.
    #[tokio::test(start_paused = true)]
    async fn registrations_that_the_store_never_takes_together_come_alone() {
        let writer = writer(FaultPlan { read_fails: 0.1, ..FaultPlan::none() }).await;
        let register = |node: u64| writer.register(registration(node, node.into(), node));
        // 64 nodes are written together only if 200 reads succeed, once in 10^9 tries.
        let all = futures::future::join_all((1..=64).map(register));
        let all = tokio::time::timeout(std::time::Duration::from_secs(300), all).await;
        for registered in all.expect("registrations must be taken in parts") {
            assert!(registered.unwrap().unwrap().0.created);
        }
    }
}
