//! Preemption as a job's owner sees it: whether its tasks take the places of others, and how its own give way.

use borough_model_derive::FileMessage;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::Band;
use super::defaults::band;
use super::file::kind::{Delay, Truth, Whole};
use crate::field_error::DELAY_MS_MAX;

/// What a job says of preemption.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Encode, Decode, Serialize, Deserialize, FileMessage,
)]
pub struct PreemptionSpec {
    /// Its tasks wait for room and evict nobody.
    #[n(0)]
    #[serde(default)]
    #[field(kind = Truth)]
    pub never: bool,
    /// Most milliseconds that a task which gives way to one of this job has between SIGTERM and SIGKILL; absent: its own
    /// grace.
    #[n(1)]
    #[serde(default)]
    #[field(file = "notice_max", kind = Delay::of(0, DELAY_MS_MAX))]
    pub notice_max_ms: Option<u64>,
    /// Its disruption budget: an eviction that leaves more than so many of its tasks without a place is chosen only where
    /// nothing else would do. Absent: there is none.
    #[n(2)]
    #[serde(default)]
    #[field(kind = Whole::any("a whole number of tasks that may be without a place"))]
    pub down_max: Option<u32>,
}

/// Whether another task evicted the last attempt of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastEviction {
    Evicted,
    NotEvicted,
}

/// The victims of a task have a priority below this; 0: it evicts nobody.
///
/// Only lower priorities give way, and none of the preemptor's own band where that is production or monitoring (Borg,
/// EuroSys 2015, §2.5). A task that was evicted itself evicts nobody of its own band. So one placement leads at most to one
/// eviction within each band, and to one from each band to a lower one: no cascades.
pub fn victims_below(priority: u32, preemption: Option<PreemptionSpec>, last: LastEviction) -> u32 {
    let band = band(priority);
    let lowest = match band {
        Band::BestEffort => 0,
        Band::Batch => 100,
        Band::Production => 200,
        Band::Monitoring => 300,
    };
    match band {
        _ if preemption.is_some_and(|preemption| preemption.never) => 0,
        Band::Production | Band::Monitoring => lowest,
        Band::BestEffort | Band::Batch if last == LastEviction::Evicted => lowest,
        Band::BestEffort | Band::Batch => priority,
    }
}

/// Below which priority the victims of a task are where its queue takes back what it is guaranteed; 0: it takes nothing back.
///
/// Only batch work and best effort do, within their band and never from a higher priority. Whether the task was evicted itself
/// makes no difference: who gives way has more than it is guaranteed, and so cannot take anything back in its turn.
pub fn claims_below(priority: u32, preemption: Option<PreemptionSpec>) -> u32 {
    let never = preemption.is_some_and(|preemption| preemption.never);
    match band(priority) {
        Band::BestEffort | Band::Batch if !never => priority.saturating_add(1),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lower_priorities_give_way_and_none_within_production() {
        let last = |evicted| if evicted { LastEviction::Evicted } else { LastEviction::NotEvicted };
        let below = |priority, evicted| victims_below(priority, None, last(evicted));
        for priority in 0..500 {
            for evicted in [false, true] {
                assert!(below(priority, evicted) <= priority, "{priority}");
            }
            let own_band =
                (0..=priority).any(|other| band(other) == band(priority) && (other < below(priority, false)));
            let batch_like = matches!(band(priority), Band::BestEffort | Band::Batch);
            assert!(batch_like || !own_band, "{priority} evicts within its band");
            let own_band =
                (0..=priority).any(|other| band(other) == band(priority) && other < below(priority, true));
            assert!(!own_band, "{priority}, evicted itself, evicts within its band");
        }
        assert_eq!(
            (below(150, false), below(150, true), below(50, false), below(50, true)),
            (150, 100, 50, 0)
        );
        assert_eq!((below(299, false), below(300, false)), (200, 300));
        let never = PreemptionSpec { never: true, ..PreemptionSpec::default() };
        assert_eq!(victims_below(399, Some(never), LastEviction::NotEvicted), 0);
        assert_eq!(
            (claims_below(150, Some(never)), claims_below(199, None), claims_below(0, None)),
            (0, 200, 1)
        );
    }

    #[test]
    fn nothing_is_taken_back_from_a_higher_priority_or_within_production() {
        for priority in 0..500 {
            let below = claims_below(priority, None);
            assert!(
                (0..below).all(|victim| victim <= priority && band(victim) != Band::Production),
                "{priority}"
            );
            assert_eq!(below > 0, priority < 200, "{priority}");
        }
    }
}
