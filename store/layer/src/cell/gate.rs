//! The gate as a transaction has read it: with the version it was read at, and, where it was open, a proof of that.

use borough_kv::{Transaction, Version};

use super::{CellGate, CellState};
use crate::error::{StoreError, StoreResult};
use crate::keys::CellSpace;

/// A cell's gate at one read version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateRead {
    space: CellSpace,
    version: Version,
    row: CellGate,
}

impl GateRead {
    /// `row` as `tx` has read it. Only this crate reads gates, so that no one else can make one up.
    pub(crate) async fn of(tx: &Transaction, space: &CellSpace, row: CellGate) -> StoreResult<Self> {
        Ok(Self { space: space.clone(), version: tx.read_version().await?, row })
    }

    /// What the gate was.
    pub fn row(&self) -> &CellGate {
        &self.row
    }

    /// The proof that the gate was open. Refuses with [`StoreError::CellClosed`] where it was not.
    pub fn open(&self) -> StoreResult<GateOpen> {
        gate_check_open(&self.space, self.row.state)?;
        Ok(GateOpen { space: self.space.clone(), version: self.version, store_epoch: self.row.store_epoch })
    }
}

/// Proof that a cell's gate was open at a read version.
///
/// Whoever places tasks by a commit that reads nothing commits at this version, and guards the gate: the commit fails
/// where the gate has changed since. Another version needs another proof, so a worker that reads again has to look at
/// the gate again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateOpen {
    space: CellSpace,
    version: Version,
    store_epoch: u64,
}

impl GateOpen {
    /// The cell.
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

/// Refuses unless `state` is open.
pub(crate) fn gate_check_open(space: &CellSpace, state: CellState) -> StoreResult<()> {
    match state {
        CellState::Open => Ok(()),
        CellState::Draining | CellState::Moved | CellState::Importing => {
            Err(StoreError::CellClosed { cell: space.to_string(), state: state.as_str() })
        }
    }
}
