//! How the tasks of a scheduler's jobs are divided among queues, so that several workers place them. A job belongs to
//! one queue. A large job is cut into slices of consecutive indexes, and its slices go to one queue after the other.

use std::ops::Range;

use borough_model::JobId;

use crate::seed::shard_of;
use crate::tables::CellJob;

/// The tasks of a slice: four batches of a worker. Smaller jobs are not worth a second worker.
pub const SLICE_TASKS: u32 = 4_096;

/// The number of queues per scheduler, and the size of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardDivision {
    /// Queues per scheduler, at least 1.
    pub shards: u32,
    /// Tasks per slice, at least 1. Usually [`SLICE_TASKS`].
    pub slice_tasks: u32,
}

impl ShardDivision {
    /// So many queues, and slices of the usual size.
    pub fn of(shards: u32) -> Self {
        Self { shards, slice_tasks: SLICE_TASKS }
    }

    /// The same with both numbers in their range.
    pub(crate) fn bounded(self) -> Self {
        Self { shards: self.shards.max(1), slice_tasks: self.slice_tasks.max(1) }
    }

    /// The number of queues that have slices of a job. Only one has a gang, because it is placed at once. Only one has
    /// a job with hard rules between tasks: two workers would overtake each other with every batch.
    pub(crate) fn queues_of(self, entry: &CellJob) -> u32 {
        let whole = entry.terms.constrained() || entry.spec_current().is_none_or(|spec| spec.is_gang());
        if whole { 1 } else { entry.count().div_ceil(self.slice_tasks).clamp(1, self.shards) }
    }

    /// The shard of the first slice of a job.
    pub(crate) fn shard_first(self, job: JobId) -> u32 {
        shard_of(job, self.shards)
    }

    /// The shard that is `place` places behind the first one of a job.
    pub(crate) fn shard_behind(self, job: JobId, place: u32) -> u32 {
        (self.shard_first(job) + place % self.shards) % self.shards
    }

    /// The slices that are `place` places behind the first one of a job, in each turn.
    pub(crate) fn slices(self, place: u32) -> JobSlices {
        JobSlices { place, shards: self.shards, tasks: self.slice_tasks }
    }
}

/// The slices of one job that belong to one queue: every `shards`-th one, from the slice number `place`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobSlices {
    place: u32,
    shards: u32,
    tasks: u32,
}

impl JobSlices {
    /// The first index at or after `index` that is in one of the slices.
    pub(crate) fn own_next(self, index: u32) -> u32 {
        let slice = index / self.tasks;
        let ahead = (self.place + self.shards - slice % self.shards) % self.shards;
        if ahead == 0 { index } else { slice.saturating_add(ahead).saturating_mul(self.tasks) }
    }

    /// The slices of a job with so many tasks.
    pub(crate) fn ranges(self, count: u32) -> impl Iterator<Item = Range<u32>> {
        let starts =
            (self.place..).step_by(self.shards as usize).map(move |slice| slice.saturating_mul(self.tasks));
        let within = starts.take_while(move |&start| start < count);
        within.map(move |start| start..start.saturating_add(self.tasks).min(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each task is in the slices of exactly one place, and both ways to find it agree.
        #[test]
        fn slices_share_out_every_task_once(shards in 1..7_u32, tasks in 1..9_u32, count in 0..200_u32) {
            let division = ShardDivision { shards, slice_tasks: tasks };
            let mut owners = vec![0; count as usize];
            for place in 0..shards {
                let slices = division.slices(place);
                for index in slices.ranges(count).flatten() {
                    owners[index as usize] += 1;
                    prop_assert_eq!(slices.own_next(index), index);
                }
                for index in 0..count {
                    let own = slices.own_next(index);
                    let first = slices.ranges(u32::MAX).find(|range| range.end > index).unwrap();
                    prop_assert_eq!(own, index.max(first.start));
                }
            }
            prop_assert!(owners.iter().all(|&owners| owners == 1), "{:?}", owners);
        }
    }
}
