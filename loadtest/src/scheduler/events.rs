//! The events of a background load that really happened.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::workload::{BackgroundLoad, DeletedTasks};
use crate::result::{Stats, StatsSet as _};

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackgroundEvent {
    /// A task that fits nowhere was admitted.
    UnschedulableAdmitted,
    /// Such a task was stopped.
    UnschedulableStopped,
    /// A task that preempts others was admitted.
    PreemptorAdmitted,
    /// The end of an evicted task was reported.
    VictimEnded,
    NodeAdded,
    NodeRemoved,
    /// A task was deleted, and ended.
    TaskDeleted,
    /// A task was deleted, and stays.
    TaskStopping,
}

impl BackgroundEvent {
    const ALL: [Self; 8] = [
        Self::UnschedulableAdmitted,
        Self::UnschedulableStopped,
        Self::PreemptorAdmitted,
        Self::VictimEnded,
        Self::NodeAdded,
        Self::NodeRemoved,
        Self::TaskDeleted,
        Self::TaskStopping,
    ];

    /// Its name in result lines.
    fn text(self) -> &'static str {
        match self {
            Self::UnschedulableAdmitted => "unschedulable_admitted",
            Self::UnschedulableStopped => "unschedulable_stopped",
            Self::PreemptorAdmitted => "preemptors_admitted",
            Self::VictimEnded => "victims_ended",
            Self::NodeAdded => "nodes_added",
            Self::NodeRemoved => "nodes_removed",
            Self::TaskDeleted => "tasks_deleted",
            Self::TaskStopping => "tasks_stopping",
        }
    }

    /// Returns true if a run of this load is meant to see it.
    fn belongs_to(self, load: &BackgroundLoad) -> bool {
        match self {
            Self::UnschedulableAdmitted => load.unschedulable_per_s > 0 || load.churn,
            Self::UnschedulableStopped => load.churn,
            Self::PreemptorAdmitted => load.preempting_per_s > 0,
            Self::VictimEnded => load.confirms,
            Self::NodeAdded => load.churn || load.nodes_late > 0,
            Self::NodeRemoved => load.churn || load.nodes_late > 0,
            Self::TaskDeleted => load.deleted_per_s > 0 && load.deleted == DeletedTasks::End,
            Self::TaskStopping => load.deleted_per_s > 0 && load.deleted == DeletedTasks::Stay,
        }
    }
}

/// How often each event has happened.
#[derive(Debug, Default)]
pub(super) struct BackgroundEvents([AtomicU64; BackgroundEvent::ALL.len()]);

/// The counts of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EventCounts([u64; BackgroundEvent::ALL.len()]);

impl BackgroundEvents {
    /// Counts an event.
    pub(super) fn happened(&self, event: BackgroundEvent) {
        self.happened_times(event, 1);
    }

    /// Counts so many events at once.
    pub(super) fn happened_times(&self, event: BackgroundEvent, times: usize) {
        let times = u64::try_from(times).unwrap_or(u64::MAX);
        for (one, counter) in BackgroundEvent::ALL.into_iter().zip(&self.0) {
            if one == event {
                counter.fetch_add(times, Ordering::Relaxed);
            }
        }
    }

    /// The counts so far.
    pub(super) fn counts(&self) -> EventCounts {
        EventCounts(self.0.each_ref().map(|counter| counter.load(Ordering::Relaxed)))
    }
}

impl EventCounts {
    /// Adds the events of `load` since `before` to `stats`. Names those that never happened in `events_missing`.
    pub(super) fn stats(self, before: Self, load: &BackgroundLoad, stats: &mut Stats) {
        let mut missing = Vec::new();
        let counts = self.0.iter().zip(before.0).map(|(now, before)| now.saturating_sub(before));
        for (event, count) in BackgroundEvent::ALL.into_iter().zip(counts) {
            if event.belongs_to(load) {
                stats.set(event.text(), json!(count));
                if count == 0 {
                    missing.push(event.text());
                }
            }
        }
        if !missing.is_empty() {
            stats.set("events_missing", json!(missing));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_never_happened_is_named() {
        let load = BackgroundLoad { churn: true, ..BackgroundLoad::default() };
        let (events, mut stats) = (BackgroundEvents::default(), Stats::new());
        events.happened(BackgroundEvent::NodeAdded);
        let before = events.counts();
        events.happened_times(BackgroundEvent::NodeAdded, 3);
        events.happened(BackgroundEvent::UnschedulableAdmitted);
        events.counts().stats(before, &load, &mut stats);
        assert_eq!((&stats["nodes_added"], &stats["nodes_removed"]), (&json!(3), &json!(0)));
        assert_eq!(stats["events_missing"], json!(["unschedulable_stopped", "nodes_removed"]));
        assert!(!stats.contains_key("tasks_deleted"));
    }
}
