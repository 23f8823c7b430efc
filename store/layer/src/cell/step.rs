//! Steps of transactions on a cell as a whole.

use std::collections::BTreeMap;

use borough_kv::{RangeRequest, Transaction};
use borough_model::{Delta, Name};

use super::{CellGate, CellMeta, CellState, cell_gate_read};
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, CellGateKey, CellMetaKey, CellSpace};

/// Whether a step has created the thing or found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    Now,
    /// It existed already, and is unchanged.
    Before,
}

/// Creates the cell, open and in its first store epoch. An existing cell stays as it is. A cell whose import is not
/// complete is refused.
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
    // A new cell has no quotas.
    let meta = CellMeta { created_ms: at_ms, revision: 1, quotas_indexed: Some(true), ..meta.clone() };
    keys::write(tx, space, &CellGateKey {}, &gate)?;
    keys::write(tx, space, &CellMetaKey {}, &meta)?;
    Ok(Created::Now)
}

/// Every name that has a key in the store, in order, without conflicts. Its gate says whether it is a cell.
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

/// The cell's settings, with a read conflict.
pub async fn cell_meta_read(tx: &Transaction, space: &CellSpace) -> StoreResult<CellMeta> {
    let meta = keys::read(tx, space, &CellMetaKey {}).await?;
    meta.ok_or_else(|| StoreError::CellUnknown { cell: space.to_string() })
}

/// The attributes that name failure domains, without a conflict: an endpoint that is published during a change of them
/// may have the old ones or the new ones.
pub(crate) async fn failure_domains(tx: &Transaction, space: &CellSpace) -> StoreResult<Vec<String>> {
    let meta = keys::read_snapshot(tx, space, &CellMetaKey {}).await?;
    Ok(meta.map(|meta| meta.failure_domains).unwrap_or_default())
}

/// The rules that choose the scheduler of a new job, without a conflict: a job admitted during a change of the rules
/// may follow the old or the new ones.
pub(crate) async fn cell_scheduler_rules(
    tx: &Transaction,
    space: &CellSpace,
) -> StoreResult<BTreeMap<String, Name>> {
    let meta = keys::read_snapshot(tx, space, &CellMetaKey {}).await?;
    Ok(meta.and_then(|meta| meta.schedulers).unwrap_or_default())
}

/// Changes the cell's settings and records the change in the journal. Writes nothing if `edit` changes nothing.
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
    meta.quotas_indexed = before.quotas_indexed;
    if meta != before {
        meta.revision = before.revision.saturating_add(1);
        keys::write(tx, changes.space(), &CellMetaKey {}, &meta)?;
        changes.push(Delta::CellSettings { revision: meta.revision });
        changes.values_push(before.settings_changed(&meta));
    }
    Ok(meta)
}

/// Opens, drains or closes the cell. Writes nothing if the state is the same.
pub async fn cell_gate_set(
    tx: &Transaction,
    space: &CellSpace,
    state: CellState,
    at_ms: i64,
) -> StoreResult<CellGate> {
    let mut gate = cell_gate_read(tx, space).await?;
    if gate.state != state {
        let revision = gate.revision.saturating_add(1);
        gate = CellGate { state, revision, changed_ms: at_ms, ..gate };
        keys::write(tx, space, &CellGateKey {}, &gate)?;
    }
    Ok(gate)
}
