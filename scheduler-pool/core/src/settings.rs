//! The settings of a cell that change where tasks are placed.

use borough_model::queue::QueueSpec;
use serde::{Deserialize, Serialize};

use crate::profile::ScoringProfile;
use crate::queueing::{Queueing, QueueingPolicy};

/// The settings of a cell that plans depend on. A snapshot uses the settings that it was made with. After a change the
/// worker builds a new snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CellSettings {
    /// How much of each dimension tasks may ask for in sum.
    pub overcommit: Overcommit,
    /// Node attributes that name failure domains, such as `node.name`, `rack`, `power`. A service without a spread of
    /// its own spreads over each of them with weight 1.
    pub failure_domains: Vec<String>,
    /// How nodes that fit are scored.
    pub profile: ScoringProfile,
    /// Which of several tasks of one priority is placed first.
    pub queueing: Queueing,
    /// Preemption evicts no task in the first milliseconds after its start.
    pub fresh_start_ms: u64,
    /// If true, a queue below its guarantee may evict tasks of queues above theirs. Only for the `hierarchical` policy.
    pub reclaim: bool,
}

/// How much tasks may ask for of a node's capacity, per dimension, in thousandths: 1000 is the capacity, 1500 half as
/// much again. Devices are never overcommitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overcommit {
    /// Processor time. Overcommit makes tasks slower.
    pub cpu_per_mille: u32,
    /// Memory. Overcommit can end tasks when the node runs short.
    pub memory_per_mille: u32,
    /// Local disk space.
    pub disk_per_mille: u32,
    /// Disk throughput, in bytes per second.
    pub disk_rate_per_mille: u32,
    /// Network throughput, in bytes per second.
    pub network_rate_per_mille: u32,
}

impl Default for Overcommit {
    fn default() -> Self {
        Self {
            cpu_per_mille: 1000,
            memory_per_mille: 1000,
            disk_per_mille: 1000,
            disk_rate_per_mille: 1000,
            network_rate_per_mille: 1000,
        }
    }
}

impl CellSettings {
    /// Returns true if queues reclaim their guarantees.
    pub(crate) fn reclaims(&self) -> bool {
        self.reclaim && self.queueing.policy == QueueingPolicy::Hierarchical
    }

    /// The time in which preemption leaves a started task alone, in milliseconds.
    pub(crate) fn fresh_start_ms(&self) -> i64 {
        i64::try_from(self.fresh_start_ms).unwrap_or(i64::MAX)
    }

    /// The settings of a cell as its store has them. An unknown profile or queueing policy becomes the default one,
    /// because a newer release may know more of them.
    pub fn of_stored(stored: &StoredSettings<'_>) -> Self {
        let queueing = stored.queueing.parse().unwrap_or_default();
        Self {
            overcommit: Overcommit::default(),
            failure_domains: stored.failure_domains.to_vec(),
            profile: stored.profile.parse().unwrap_or_default(),
            queueing: Queueing { queues: stored.queues.to_vec(), ..queueing },
            fresh_start_ms: stored.fresh_start_ms.unwrap_or_default(),
            reclaim: stored.reclaim.unwrap_or_default(),
        }
    }
}

/// The settings of a cell by the names and in the form that the store has; see [`CellSettings`].
#[derive(Clone, Copy, Debug, Default)]
pub struct StoredSettings<'a> {
    pub failure_domains: &'a [String],
    pub profile: &'a str,
    pub queueing: &'a str,
    pub queues: &'a [QueueSpec],
    pub fresh_start_ms: Option<u64>,
    pub reclaim: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_filled_by_the_profile_it_names() {
        let stored = |profile| StoredSettings { profile, ..StoredSettings::default() };
        let profile = |name| CellSettings::of_stored(&stored(name)).profile;
        assert_eq!(profile("worst-fit"), ScoringProfile::WORST_FIT);
        assert_eq!(profile("swarm-spread"), ScoringProfile::SWARM_SPREAD);
        assert_eq!(profile("from-the-future"), ScoringProfile::default());
    }
}
