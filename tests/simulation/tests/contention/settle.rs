//! Waits for a cell at rest: every job has what it wants, or the scheduler says why not.

use std::time::Duration;

use borough_simulation::rest::unsettled;
use borough_store::check::{CheckMode, cell_violations};

use crate::cell::Cell;

/// The longest time for a cell to come to rest: back-offs, leases, tolerances and cool-downs are all far below.
const PATIENCE: Duration = Duration::from_secs(180);

/// Waits until the cell is at rest. Then no stored rows may contradict each other. Returns the broken rules.
pub(crate) async fn settled(cell: &Cell) -> Vec<String> {
    let began = cell.clock.monotonic();
    loop {
        let rows = cell.rows().await;
        let open = unsettled(&rows, cell.clock.wall_ms());
        if open.is_empty() {
            return cell_violations(&rows, CheckMode::Settled).iter().map(ToString::to_string).collect();
        }
        if cell.clock.monotonic().saturating_sub(began) > PATIENCE {
            return open;
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
}
