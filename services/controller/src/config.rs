//! The configuration of a controller.

use std::time::Duration;

use borough_store::CellSpace;

use crate::garbage::GarbageMetrics;

/// Settings of one controller.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// The cell that it leads, or stands by for.
    pub space: CellSpace,
    /// Its name in the lease, unique to this process.
    pub holder: String,
    /// Milliseconds without a heartbeat after which another controller may lead.
    pub lease_ms: u64,
    /// The generation of the store: leases of an older one are void.
    pub generation: u64,
    /// The interval of checks without an event: of leases, silent nodes, back-offs.
    pub tick: Duration,
    pub garbage: GarbageMetrics,
}
