//! When the tasks of a silent cell are promised to others, and which tasks stay when the cell is back.
//!
//! - `watch`: what the leader of a federation has seen with its own looks.
//! - `decide`: which parts of jobs fail over now, and why the others do not.
//! - `settle`: the counts of each cell after a return, until each task is promised once again.

mod decide;
mod hold;
mod settle;
mod watch;

pub use decide::{
    FAILOVER_CELLS_MAX, FAILOVER_WINDOW_MS, FailoverOutcome, FailoverVerdict, LOOKS_FAILED_MIN, PromisedPart,
    WATCHED_MS_MIN, failover_decide,
};
pub use hold::FailoverHold;
pub use settle::{
    KeptSide, SETTLE_MS_MAX, SettleCell, SettleOutcome, SettleStep, SettleWait, Settlement, settle_step,
};
pub use watch::{CellLook, CellLooked, CellSilence, FederationWatch, WATCH_GAP_MS};
