//! What may happen in a run, and what is left out because a known defect would end every run.

use std::collections::BTreeSet;

/// Everything that is injected, by name.
pub const ALL: &[&str] = &[
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

/// What is off, each with the defect that is known and not mended.
pub const OFF: &[(&str, &str)] = &[];

/// What is on in a run.
#[derive(Clone, Debug)]
pub struct Plan(BTreeSet<String>);

impl Plan {
    /// Everything but what is off; or exactly what `BOROUGH_INJECT` lists, separated by commas.
    pub fn usual() -> Self {
        if let Ok(list) = std::env::var("BOROUGH_INJECT") {
            return Self(list.split(',').map(str::to_owned).collect());
        }
        let off = |name: &str| OFF.iter().any(|(off, _)| *off == name);
        Self(ALL.iter().filter(|name| !off(name)).map(|name| (*name).to_owned()).collect())
    }

    /// Whether the kinds were listed, so that nothing that is known to fail is left out.
    pub fn is_named(&self) -> bool {
        std::env::var_os("BOROUGH_INJECT").is_some()
    }

    /// Whether this may happen.
    pub fn is_on(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Those of `names` that may happen.
    pub fn of(&self, names: &[&'static str]) -> Vec<&'static str> {
        names.iter().copied().filter(|name| self.is_on(name)).collect()
    }
}
