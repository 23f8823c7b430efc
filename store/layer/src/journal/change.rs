//! Collects the deltas of one transaction and appends them as one entry.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use borough_kv::{Transaction, Versionstamp};
use borough_model::audit::{AuditRevisions, AuditedCall};
use borough_model::journal::ValueChange;
use borough_model::{Delta, JournalEntry, RequestId};

use super::{JournalPart, PART_BYTES_MAX};
use crate::error::{StoreError, StoreResult};
use crate::gate::{GateOpen, cell_gate_read, gate_check_open};
use crate::key_kind::KeyKind;
use crate::keys::{self, CellGateKey, CellSpace, JournalHeadKey, JournalKey};
use crate::row::CellState;

/// Who changes what, and when. Made outside the transaction's closure, so it is the same for every try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The request or batch.
    pub request: RequestId,
    /// The author: `user/<name>`, `scheduler/<shard>`, `controller`, `gateway`, `node/<name>`.
    pub actor: String,
    /// The name of the transaction.
    pub action: &'static str,
    /// Wall time of the writer, milliseconds since 1970; for people only.
    pub at_ms: i64,
}

/// The gate that a change has read, as a conflict of its transaction.
#[derive(Clone, Copy, Debug)]
struct GateSeen {
    store_epoch: u64,
    state: CellState,
}

/// The changes of one transaction. Layer functions add to it; [`ChangeSet::append`] ends it.
#[derive(Debug)]
pub struct ChangeSet {
    space: CellSpace,
    gate: GateSeen,
    change: Change,
    deltas: Vec<Delta>,
    /// What has changed within rows, for people.
    values: Vec<ValueChange>,
    /// The calls that the transaction is made of.
    calls: Vec<AuditedCall>,
    /// The revisions of what was changed, of rows that have no deltas.
    revised: Option<AuditRevisions>,
}

impl ChangeSet {
    /// Begins a change of `space`: reads the cell's gate with a conflict. Fails if the cell has moved or its import is
    /// not complete.
    pub async fn begin(tx: &Transaction, space: &CellSpace, change: &Change) -> StoreResult<Self> {
        let gate = cell_gate_read(tx, space).await?;
        if matches!(gate.state, CellState::Moved | CellState::Importing) {
            return Err(StoreError::CellClosed { cell: space.to_string(), state: gate.state.as_str() });
        }
        let gate = GateSeen { store_epoch: gate.store_epoch, state: gate.state };
        Ok(Self {
            space: space.clone(),
            gate,
            change: change.clone(),
            deltas: Vec::new(),
            values: Vec::new(),
            calls: Vec::new(),
            revised: None,
        })
    }

    /// As [`ChangeSet::begin`], and fails unless the cell is open: for new work, such as admission.
    pub async fn begin_open(tx: &Transaction, space: &CellSpace, change: &Change) -> StoreResult<Self> {
        let mut changes = Self::begin(tx, space, change).await?;
        changes.open()?;
        Ok(changes)
    }

    /// Begins a change that reads nothing, for `commit_at(gate.version())`. Guards the gate, so that the commit fails
    /// if it has changed since.
    pub fn begin_at(tx: &Transaction, gate: &GateOpen, change: &Change) -> StoreResult<Self> {
        keys::guard(tx, gate.space(), &CellGateKey {})?;
        let seen = GateSeen { store_epoch: gate.store_epoch(), state: CellState::Open };
        Ok(Self {
            space: gate.space().clone(),
            gate: seen,
            change: change.clone(),
            deltas: Vec::new(),
            values: Vec::new(),
            calls: Vec::new(),
            revised: None,
        })
    }

    /// The change as one of an open cell, which steps that start work ask for. Fails with [`StoreError::CellClosed`] if
    /// the gate, as this transaction has read it, is not open.
    pub fn open(&mut self) -> StoreResult<OpenChanges<'_>> {
        gate_check_open(&self.space, self.gate.state)?;
        Ok(OpenChanges(self))
    }

    /// The cell that is changed.
    pub fn space(&self) -> &CellSpace {
        &self.space
    }

    /// The epoch of the store.
    pub fn store_epoch(&self) -> u64 {
        self.gate.store_epoch
    }

    /// Wall time of the writer, milliseconds since 1970.
    pub fn at_ms(&self) -> i64 {
        self.change.at_ms
    }

    /// Who makes the changes, such as `user/ada`.
    pub fn actor(&self) -> &str {
        &self.change.actor
    }

    /// The request that makes the changes.
    pub fn request(&self) -> RequestId {
        self.change.request
    }

    /// The deltas added so far.
    pub fn deltas(&self) -> &[Delta] {
        &self.deltas
    }

    /// Adds a delta. Call it together with the write of the row.
    pub fn push(&mut self, delta: Delta) {
        self.deltas.push(delta);
    }

    /// Adds labels or settings that the transaction has changed, beside the delta with their row.
    pub fn values_push(&mut self, changed: Vec<ValueChange>) {
        self.values.extend(changed);
    }

    /// Names a call that the transaction is made of, for the audit.
    pub fn call_push(&mut self, call: AuditedCall) {
        self.calls.push(call);
    }

    /// Notes the revisions of the object of the call, of a kind that has no deltas.
    pub fn revised(&mut self, before: u64, after: u64) {
        self.revised = Some(AuditRevisions { before, after });
    }

    /// What has changed within rows so far, for people.
    pub fn values(&self) -> &[ValueChange] {
        &self.values
    }

    /// Returns true if the transaction changes what people see, as far as its changes are added here.
    pub fn has_effect(&self) -> bool {
        let revised = self.revised.as_ref().is_some_and(|revised| revised.before != revised.after);
        revised || !self.deltas.is_empty() || !self.values.is_empty()
    }

    /// Returns true if [`ChangeSet::append`] writes an entry.
    pub fn has_entry(&self) -> bool {
        !self.deltas.is_empty() || !self.calls.is_empty()
    }

    /// Appends the entry, in as many parts as needed, and moves the head. Writes nothing without deltas or calls.
    ///
    /// The write is blind: producers do not conflict with each other. This is the last step of the closure. The cursor
    /// of the entry is known once the commit's stamp is (see [`super::Cursor`]).
    pub fn append(self, tx: &Transaction) -> StoreResult<()> {
        if !self.has_entry() {
            return Ok(());
        }
        let (mut calls, revised) = (self.calls, self.revised);
        if !calls.is_empty() {
            let objects = objects_revised(&self.space, &self.deltas);
            for call in &mut calls {
                call.revisions =
                    call.object.as_ref().and_then(|object| objects.get(object)).copied().or(revised);
            }
        }
        let calls = Some(calls).filter(|calls| !calls.is_empty());
        let Change { request, actor, action, at_ms } = self.change;
        let values = Some(self.values).filter(|values| !values.is_empty());
        let (action, deltas) = (action.to_owned(), self.deltas);
        let entry = JournalEntry { request, actor, action, at_ms, deltas, values, calls };
        let parts = entry_split(&entry, PART_BYTES_MAX)?;
        for (part, value) in (0_u32..).zip(&parts) {
            let key = JournalKey { store_epoch: self.gate.store_epoch, stamp: Versionstamp::MAX, part };
            keys::write_stamped_key(tx, &self.space, &key, value)?;
        }
        keys::write_stamped_value(tx, &self.space, &JournalHeadKey {})
    }
}

/// A change of a cell whose gate is open in this transaction. Only [`ChangeSet::open`] makes one, so a step that takes
/// it starts nothing in a cell that drains or has moved.
#[derive(Debug)]
pub struct OpenChanges<'c>(&'c mut ChangeSet);

impl Deref for OpenChanges<'_> {
    type Target = ChangeSet;

    fn deref(&self) -> &ChangeSet {
        self.0
    }
}

impl DerefMut for OpenChanges<'_> {
    fn deref_mut(&mut self) -> &mut ChangeSet {
        self.0
    }
}

/// The revisions before and after `deltas` of each object that has some, by its name in a call: `job/USER/NAME`,
/// `node/NAME`, `service/USER/NAME`, `member/CELL` or `cell/NAME`. Each step of a row counts its revision up by one, so
/// the first delta tells what was before.
fn objects_revised(space: &CellSpace, deltas: &[Delta]) -> BTreeMap<String, AuditRevisions> {
    let mut objects = BTreeMap::new();
    for delta in deltas {
        let (object, revision) = match delta {
            Delta::Job { row, .. } => (format!("job/{}/{}", row.user, row.name), row.revision),
            Delta::Node { row } => (format!("node/{}", row.name), row.revision),
            Delta::MergedService { row } => (format!("service/{}/{}", row.user, row.name), row.revision),
            Delta::Member { row } => (format!("member/{}", row.cell), row.revision),
            Delta::FederatedJob { row } => {
                (format!("federated_job/{}/{}", row.user(), row.name()), row.revision)
            }
            Delta::CellSettings { revision } => (format!("cell/{space}"), *revision),
            _ => continue,
        };
        let first = AuditRevisions { before: revision.saturating_sub(1), after: revision };
        objects.entry(object).or_insert(first).after = revision;
    }
    objects
}

/// Cuts the entry's CBOR into parts of at most `bytes_max`.
pub(super) fn entry_split(entry: &JournalEntry, bytes_max: usize) -> StoreResult<Vec<JournalPart>> {
    let unencodable = |detail: String| StoreError::Unencodable { kind: KeyKind::Journal, detail };
    let bytes = minicbor::to_vec(entry).map_err(|error| unencodable(error.to_string()))?;
    let chunks: Vec<&[u8]> = bytes.chunks(bytes_max.max(1)).collect();
    let parts = u32::try_from(chunks.len()).map_err(|_| unencodable("too many parts".to_owned()))?;
    Ok(chunks.into_iter().map(|chunk| JournalPart { parts, bytes: chunk.to_vec() }).collect())
}
