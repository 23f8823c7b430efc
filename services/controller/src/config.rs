//! What a controller is made with.

use std::time::Duration;

use borough_store::CellSpace;

/// Settings of one controller.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// The cell it leads, or stands by for.
    pub space: CellSpace,
    /// Its name in the lease, unique to this process.
    pub holder: String,
    /// Milliseconds without a heartbeat after which another may lead.
    pub lease_ms: u64,
    /// The number of the store's opening: leases of an older one are void.
    pub generation: u64,
    /// How often it looks without being woken: at leases, silent nodes, back-offs.
    pub tick: Duration,
}
