//! Preemption as the owner of a job sees it: whether its tasks evict others, and how others may evict them.

use borough_model_derive::FileMessage;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::Band;
use super::defaults::band;
use super::file::kind::{Delay, Truth, Whole};
use crate::field_error::DELAY_MS_MAX;

/// The preemption rules of a job.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    Encode,
    Decode,
    Serialize,
    Deserialize,
    FileMessage,
)]
pub struct PreemptionSpec {
    /// Whether its tasks wait for room instead of evicting others.
    #[n(0)]
    #[serde(default)]
    #[field(kind = Truth, default = "`false`")]
    pub never: bool,
    /// The most time between SIGTERM and SIGKILL for a victim of this job; absent: the victim's own grace.
    #[n(1)]
    #[serde(default)]
    #[field(file = "notice_max", kind = Delay::of(0, DELAY_MS_MAX), default = "the victim's own grace")]
    pub notice_max_ms: Option<u64>,
    /// Its disruption budget for evictions. The scheduler chooses an eviction that leaves more than so many of its
    /// tasks without a node only if no other victims suffice. Absent: that of a service's `update`, or none.
    #[n(2)]
    #[serde(default)]
    #[field(kind = Whole::any("a whole number of tasks that may be without a place"), default = "what `unavailable_max` and `unavailable_percent_max` of a service's `update` say, or no budget")]
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
/// Victims have a lower priority. Production and monitoring evict no task of their own band (Borg, EuroSys 2015, §2.5).
/// An evicted task evicts nobody of its own band either. One placement therefore leads to at most one eviction within
/// each band and one from each band to a lower one, and evictions do not cascade.
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

/// The victims of a task that reclaims the guarantee of its queue have a priority below this; 0: it reclaims nothing.
///
/// Only batch and best effort reclaim, within their band, and never from a higher priority. An evicted task may reclaim
/// too: the queue of a victim has more than its guarantee, so it cannot reclaim in return.
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
