//! The mark of a dry run: a change is made up to its commit, and dropped there.

use std::sync::Arc;

use borough_model::journal::ValueChange;
use borough_model::{Delta, Name};
use borough_store::StoreError;
use parking_lot::Mutex;

/// The mark of a call that is a dry run, with what came of it. Every change goes through `Cells::admit_change`, which
/// marks the caller, and through `keyed_run`, which ends the transaction of a marked caller with an error. So no method
/// has code of its own for this, and none can forget it.
#[derive(Clone, Debug, Default)]
pub(crate) struct DryRunMark(Arc<Mutex<Option<DryRunOutcome>>>);

/// What a change would commit.
#[derive(Clone, Debug)]
pub(crate) struct DryRunOutcome {
    pub(crate) cell: Name,
    /// The name of the transaction.
    pub(crate) action: &'static str,
    /// What the call is about, such as `quota/ann/batch`; empty: nothing by a name.
    pub(crate) object: String,
    pub(crate) changes: bool,
    pub(crate) deltas: Vec<Delta>,
    /// What changes within rows, for people.
    pub(crate) values: Vec<ValueChange>,
}

impl DryRunMark {
    /// Keeps what the transaction would commit. The error ends it.
    pub(super) fn finish(&self, outcome: DryRunOutcome) -> StoreError {
        *self.0.lock() = Some(outcome);
        StoreError::refused("this was a dry run")
    }

    /// What came of it; `None`: the call did not get as far as a commit.
    pub(crate) fn take(&self) -> Option<DryRunOutcome> {
        self.0.lock().take()
    }
}
