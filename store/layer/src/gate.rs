//! The gate as a transaction has read it: its row, the read version, and, if the gate was open, a proof of that.

use borough_kv::{Transaction, Version};

use crate::error::{StoreError, StoreResult};
use crate::keys::{self, CellGateKey, CellSpace};
use crate::row::{CellGate, CellState};

/// A cell's gate at one read version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateRead {
    space: CellSpace,
    version: Version,
    row: CellGate,
}

impl GateRead {
    /// Only this crate reads gates, so that no one else can invent one.
    pub(crate) async fn of(tx: &Transaction, space: &CellSpace, row: CellGate) -> StoreResult<Self> {
        Ok(Self { space: space.clone(), version: tx.read_version().await?, row })
    }

    /// The gate's row at the read version.
    pub fn row(&self) -> &CellGate {
        &self.row
    }

    /// The proof that the gate was open. Fails with [`StoreError::CellClosed`] if it was not.
    pub fn open(&self) -> StoreResult<GateOpen> {
        gate_check_open(&self.space, self.row.state)?;
        Ok(GateOpen { space: self.space.clone(), version: self.version, store_epoch: self.row.store_epoch })
    }
}

/// Proof that a cell's gate was open at a read version.
///
/// A commit that places tasks without reading runs at this version and guards the gate: it fails if the gate has
/// changed since. Another version needs another proof, so a worker that reads again must also read the gate again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateOpen {
    space: CellSpace,
    version: Version,
    store_epoch: u64,
}

impl GateOpen {
    /// The cell whose gate it is.
    pub fn space(&self) -> &CellSpace {
        &self.space
    }

    /// The version at which the gate was open.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The epoch of the store at that version.
    pub fn store_epoch(&self) -> u64 {
        self.store_epoch
    }
}

/// The cell's gate, with a read conflict. Fails for a cell that is not in this store.
pub async fn cell_gate_read(tx: &Transaction, space: &CellSpace) -> StoreResult<CellGate> {
    let gate = keys::read(tx, space, &CellGateKey {}).await?;
    gate.ok_or_else(|| StoreError::CellUnknown { cell: space.to_string() })
}

/// Fails unless `state` is open.
pub(crate) fn gate_check_open(space: &CellSpace, state: CellState) -> StoreResult<()> {
    match state {
        CellState::Open => Ok(()),
        CellState::Draining | CellState::Moved | CellState::Importing => {
            Err(StoreError::CellClosed { cell: space.to_string(), state: state.as_str() })
        }
    }
}
