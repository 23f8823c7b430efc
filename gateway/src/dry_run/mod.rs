//! Dry runs: the service makes a change as its own method would, and the transaction is dropped before its commit.
//!
//! Every change goes through `Cells::admit_change` and `keyed_run`. The first marks the caller, and the second ends the
//! transaction of a marked caller with an error. So no method has code of its own for this, and none can forget it.

mod service;

use std::sync::Arc;

use borough_store::StoreError;
use borough_store::journal::ChangeSet;
use parking_lot::Mutex;

pub(crate) use service::DryRunServer;

use crate::cell::CellContext;
use crate::watch::sentences;

/// Objects that an answer names at most.
const EFFECTS_MAX: usize = 1_000;

/// The mark of a call that is a dry run, with what came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct DryRunMark(Arc<Mutex<Option<DryRunOutcome>>>);

/// What a change would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DryRunOutcome {
    pub(crate) changes: bool,
    /// Subjects with what would happen to them.
    pub(crate) effects: Vec<(String, String)>,
    pub(crate) left_out: usize,
}

impl DryRunMark {
    /// Keeps what the transaction would commit. The error ends it.
    pub(crate) fn finish(&self, cell: &CellContext, changes: &ChangeSet, action: &str) -> StoreError {
        let deltas = changes.deltas();
        let effects = cell.mirror.read(|state| sentences(state, deltas, action, EFFECTS_MAX));
        let left_out = effects.all.saturating_sub(effects.shown.len());
        let outcome = DryRunOutcome { changes: changes.has_effect(), effects: effects.shown, left_out };
        *self.0.lock() = Some(outcome);
        StoreError::refused("this was a dry run")
    }

    /// What came of it; `None`: the call did not get as far as a commit.
    fn take(&self) -> Option<DryRunOutcome> {
        self.0.lock().take()
    }
}
