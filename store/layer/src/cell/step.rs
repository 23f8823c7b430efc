//! Steps of transactions on a cell as a whole.

use std::collections::BTreeMap;

use borough_kv::{RangeRequest, Transaction};
use borough_model::{Delta, Name};

use super::{CellGate, CellMeta, CellState, GateRead};
use crate::error::{StoreError, StoreResult};
use crate::journal::{ChangeSet, gate_read};
use crate::keys::{
    self, CellGateKey, CellMetaKey, CellSpace, JournalFloorKey, JournalHeadKey, JournalKey, Prefix,
};

/// Whether a thing was created now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// Now.
    Now,
    /// It was there already, and is unchanged.
    Before,
}

/// Creates the cell, open and in its first store epoch. An existing one stays as it is; one that is still being
/// imported is refused, since not all of it is there.
pub async fn cell_create(
    tx: &Transaction,
    space: &CellSpace,
    meta: &CellMeta,
    at_ms: i64,
) -> StoreResult<Created> {
    if let Some(gate) = keys::read(tx, space, &CellGateKey {}).await? {
        return match gate.state {
            CellState::Importing => {
                Err(StoreError::CellClosed { cell: space.to_string(), state: gate.state.as_str() })
            }
            CellState::Open | CellState::Draining | CellState::Moved => Ok(Created::Before),
        };
    }
    let gate = CellGate { store_epoch: 1, state: CellState::Open, revision: 1, changed_ms: at_ms };
    let meta = CellMeta { created_ms: at_ms, revision: 1, ..meta.clone() };
    keys::write(tx, space, &CellGateKey {}, &gate)?;
    keys::write(tx, space, &CellMetaKey {}, &meta)?;
    Ok(Created::Now)
}

/// Every cell that has a key in the store, by name, without conflicts; whether it is one its gate says.
pub async fn cell_list(tx: &Transaction) -> StoreResult<Vec<Name>> {
    let mut found = Vec::new();
    let mut begin = CellSpace::federation().range().end;
    loop {
        let request = RangeRequest::between(begin, CellSpace::spaces_end()).limit(1).snapshot();
        let rows = tx.range_all(request).await?;
        let Some((key, _)) = rows.first() else { return Ok(found) };
        let (name, end) = CellSpace::of_key(key);
        found.extend(name);
        begin = end;
    }
}

/// The cell's gate, with a read conflict. Refuses a cell that is not in this store.
pub async fn cell_gate_read(tx: &Transaction, space: &CellSpace) -> StoreResult<CellGate> {
    gate_read(tx, space).await
}

/// The cell's gate, with a read conflict, and the version it was read at.
pub async fn cell_gate_at(tx: &Transaction, space: &CellSpace) -> StoreResult<GateRead> {
    let row = gate_read(tx, space).await?;
    GateRead::of(tx, space, row).await
}

/// The cell's settings, with a read conflict.
pub async fn cell_meta_read(tx: &Transaction, space: &CellSpace) -> StoreResult<CellMeta> {
    let meta = keys::read(tx, space, &CellMetaKey {}).await?;
    meta.ok_or_else(|| StoreError::CellUnknown { cell: space.to_string() })
}

/// The rules that choose the scheduler of a new job, without a conflict: a job that is admitted while they change is
/// admitted by the ones or the others.
pub(crate) async fn cell_scheduler_rules(
    tx: &Transaction,
    space: &CellSpace,
) -> StoreResult<BTreeMap<String, Name>> {
    let meta = keys::read_snapshot(tx, space, &CellMetaKey {}).await?;
    Ok(meta.and_then(|meta| meta.schedulers).unwrap_or_default())
}

/// Changes the cell's settings, and tells so; what `edit` leaves alike is not written.
pub async fn cell_meta_change(
    tx: &Transaction,
    changes: &mut ChangeSet,
    edit: impl FnOnce(&mut CellMeta),
) -> StoreResult<CellMeta> {
    let before = cell_meta_read(tx, changes.space()).await?;
    let mut meta = before.clone();
    edit(&mut meta);
    meta.created_ms = before.created_ms;
    meta.revision = before.revision;
    if meta != before {
        meta.revision = before.revision.saturating_add(1);
        keys::write(tx, changes.space(), &CellMetaKey {}, &meta)?;
        changes.push(Delta::CellSettings { revision: meta.revision });
    }
    Ok(meta)
}

/// Opens, drains or closes the cell. Setting what is set already writes nothing.
pub async fn cell_gate_set(
    tx: &Transaction,
    space: &CellSpace,
    state: CellState,
    at_ms: i64,
) -> StoreResult<CellGate> {
    let mut gate = gate_read(tx, space).await?;
    if gate.state != state {
        gate.state = state;
        gate_write(tx, space, &mut gate, at_ms)?;
    }
    Ok(gate)
}

/// Begins a new epoch of the store, after a restore, an import or a move: the journal of the old one is removed
/// (its stamps may be higher than any the store gives now), and cursors of it are refused.
///
/// `expected` is the epoch that ends: repeating the step after an unknown result changes nothing.
pub async fn cell_epoch_begin(
    tx: &Transaction,
    space: &CellSpace,
    expected: u64,
    at_ms: i64,
) -> StoreResult<CellGate> {
    let mut gate = gate_read(tx, space).await?;
    if gate.store_epoch != expected {
        return Ok(gate);
    }
    keys::clear_prefix(tx, space, &Prefix::<JournalKey>::all())?;
    keys::clear(tx, space, &JournalHeadKey {})?;
    keys::clear(tx, space, &JournalFloorKey {})?;
    gate.store_epoch = gate.store_epoch.saturating_add(1);
    gate_write(tx, space, &mut gate, at_ms)?;
    Ok(gate)
}

fn gate_write(tx: &Transaction, space: &CellSpace, gate: &mut CellGate, at_ms: i64) -> StoreResult<()> {
    gate.revision = gate.revision.saturating_add(1);
    gate.changed_ms = at_ms;
    keys::write(tx, space, &CellGateKey {}, gate)
}
