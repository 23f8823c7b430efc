//! What the jobs of a cell ask for, in sum over their wanted tasks. Kept up to date, so that a plan need not look at
//! all shapes for a mean.

use std::collections::BTreeMap;

use borough_model::Resources;

use super::columns::{DIMENSIONS_FIXED, fixed_amounts};

/// The sums over the wanted tasks of all jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CellDemand {
    tasks: u64,
    fixed: [u128; DIMENSIONS_FIXED],
    /// In thousandths, by kind. Kinds without demand have no entry.
    devices: BTreeMap<String, u128>,
}

impl CellDemand {
    /// Follows a change of the number of tasks that jobs want with these resources.
    pub(super) fn follow(&mut self, resources: &Resources, before: u32, after: u32) {
        let changed = |sum: u128, amount: u64| {
            let of = |tasks: u32| u128::from(amount) * u128::from(tasks);
            (sum + of(after)).saturating_sub(of(before))
        };
        self.tasks = (self.tasks + u64::from(after)).saturating_sub(u64::from(before));
        for (sum, amount) in self.fixed.iter_mut().zip(fixed_amounts(resources)) {
            *sum = changed(*sum, amount);
        }
        for (kind, &amount) in &resources.device_millis {
            let sum = changed(self.devices.get(kind).copied().unwrap_or(0), amount);
            if sum > 0 {
                self.devices.insert(kind.clone(), sum);
            } else {
                self.devices.remove(kind);
            }
        }
    }

    fn mean(&self, sum: u128) -> u64 {
        u64::try_from(sum / u128::from(self.tasks.max(1))).unwrap_or(u64::MAX)
    }

    /// The mean request of a wanted task, by fixed dimension.
    pub(crate) fn fixed_means(&self) -> [u64; DIMENSIONS_FIXED] {
        self.fixed.map(|sum| self.mean(sum))
    }

    /// The mean request of a wanted task, by kind of device, in thousandths.
    pub(crate) fn device_means(&self) -> impl Iterator<Item = (&str, u64)> {
        self.devices.iter().map(|(kind, &sum)| (kind.as_str(), self.mean(sum)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn resources(cpu_millis: u64, memory_bytes: u64, gpu_millis: u64) -> Resources {
        let mut resources = Resources { cpu_millis, memory_bytes, ..Resources::default() };
        if gpu_millis > 0 {
            resources.device_millis.insert("gpu".to_owned(), gpu_millis);
        }
        resources
    }

    proptest! {
        /// After any changes the sums are those over the tasks that are wanted now.
        #[test]
        fn sums_are_those_of_the_wanted_tasks(
            asked in prop::collection::vec((0..5000u64, 0..5000u64, 0..3000u64), 1..6),
            changes in prop::collection::vec((0..6usize, 0..50u32), 0..40),
        ) {
            let (mut demand, mut wanted) = (CellDemand::default(), vec![0u32; asked.len()]);
            for (job, after) in changes {
                let job = job % asked.len();
                let (cpu, memory, gpu) = asked[job];
                let before = std::mem::replace(&mut wanted[job], after);
                demand.follow(&resources(cpu, memory, gpu), before, after);
                let sum = |of: fn(&(u64, u64, u64)) -> u64| {
                    asked.iter().zip(&wanted).map(|(asked, &tasks)| of(asked) * u64::from(tasks)).sum::<u64>()
                };
                let tasks = wanted.iter().map(|&tasks| u64::from(tasks)).sum::<u64>().max(1);
                prop_assert_eq!(demand.fixed_means()[..2].to_vec(), vec![
                    sum(|asked| asked.0) / tasks, sum(|asked| asked.1) / tasks,
                ]);
                let gpu = sum(|asked| asked.2);
                let known: Vec<(&str, u64)> = demand.device_means().collect();
                let expected = if gpu > 0 { vec![("gpu", gpu / tasks)] } else { Vec::new() };
                prop_assert_eq!(known, expected);
            }
        }
    }
}
