//! What an operator sets for a cell that changes how it is filled.

use borough_model::queue::QueueSpec;
use serde::{Deserialize, Serialize};

use crate::profile::ScoringProfile;
use crate::queueing::{Queueing, QueueingPolicy};

/// The settings of a cell that deciding depends on. A snapshot keeps those it was made with: after a change a new one
/// is built.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CellSettings {
    /// How much of each dimension may be promised.
    pub overcommit: Overcommit,
    /// Node attributes that name failure domains, such as `node.name`, `rack`, `power`. A service that says nothing of
    /// spread is spread over each of them with weight 1.
    pub failure_domains: Vec<String>,
    /// Which of the nodes that fit is best.
    pub profile: ScoringProfile,
    /// How those of one priority take turns.
    pub queueing: Queueing,
    /// For how many milliseconds after its start a task is left alone by preemption.
    pub fresh_start_ms: u64,
    /// Whether queues take back what they are guaranteed from those that have more; only where there are queues.
    pub reclaim: bool,
}

/// How much of a node's capacity may be promised, per dimension, in thousandths: 1000 is all of it and no more, 1500
/// half as much again. Devices are never promised twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overcommit {
    /// Of processor time.
    pub cpu_per_mille: u32,
    /// Of memory.
    pub memory_per_mille: u32,
    /// Of local disk.
    pub disk_per_mille: u32,
    /// Of disk access.
    pub disk_rate_per_mille: u32,
    /// Of network.
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
    /// Whether queues take anything back.
    pub(crate) fn reclaims(&self) -> bool {
        self.reclaim && self.queueing.policy == QueueingPolicy::Hierarchical
    }

    /// The protection of a fresh start as a span of time.
    pub(crate) fn fresh_start_ms(&self) -> i64 {
        i64::try_from(self.fresh_start_ms).unwrap_or(i64::MAX)
    }

    /// The settings of a cell whose stored settings name these. An unknown profile or queueing policy is the default one: a
    /// newer program may know more of them.
    pub fn of_cell(
        failure_domains: Vec<String>,
        profile: &str,
        (queueing, queues): (&str, Vec<QueueSpec>),
        (fresh_start_ms, reclaim): (u64, bool),
    ) -> Self {
        let profile = profile.parse().unwrap_or_default();
        let queueing = Queueing { queues, ..queueing.parse().unwrap_or_default() };
        Self { failure_domains, profile, queueing, fresh_start_ms, reclaim, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_filled_by_the_profile_it_names() {
        let profile = |name| CellSettings::of_cell(Vec::new(), name, ("", Vec::new()), (0, false)).profile;
        assert_eq!(profile("worst-fit"), ScoringProfile::WORST_FIT);
        assert_eq!(profile("swarm-spread"), ScoringProfile::SWARM_SPREAD);
        assert_eq!(profile("from-the-future"), ScoringProfile::BEST_FIT);
    }
}
