//! The faults that may happen in a run.

use std::collections::BTreeSet;

/// All faults, by name.
pub(crate) const ALL: &[&str] = &[
    "pause_gateway",
    "pause_worker",
    "pause_controller",
    "pause_agent",
    "kill_gateway",
    "kill_worker",
    "kill_controller",
    "kill_agent",
    "reboot",
    "clone",
    "away_long",
    "link_cut",
    "link_reset",
    "half_close",
    "descriptors",
    "agent_disk_full",
    "clock_jump",
    "cell_drain",
    "large_specs",
    "request_repeated",
    "shared_address",
];

/// The faults of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan(BTreeSet<String>);

impl Plan {
    /// All faults, or exactly those that `BOROUGH_INJECT` lists, separated by commas.
    pub(crate) fn usual() -> Self {
        match std::env::var("BOROUGH_INJECT") {
            Ok(list) => Self(list.split(',').map(str::to_owned).collect()),
            Err(_) => Self(ALL.iter().copied().map(str::to_owned).collect()),
        }
    }

    /// Returns true if this fault may happen.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Those of `names` that may happen.
    pub(crate) fn of(&self, names: &[&'static str]) -> Vec<&'static str> {
        names.iter().copied().filter(|name| self.is_on(name)).collect()
    }
}
