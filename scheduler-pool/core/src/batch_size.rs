//! How many tasks a worker plans at once, and among how many nodes. A pure controller: the worker reports what became
//! of each batch.
//!
//! Large batches cost least per task. But the longer a batch takes, and the more nodes it touches, the more often
//! another worker's commit overtakes part of it.

const BATCH_MIN: usize = 32;
const BATCH_FIRST: usize = 256;
/// Candidates beyond the number of tasks: while nothing is lost, and when everything is.
const BEYOND: (usize, usize) = (50, 400);
const FULL: usize = 1000;
/// The part of the old heat that one batch leaves, in eighths.
const HEAT_KEPT: usize = 7;

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOutcome {
    /// The tasks that the plan placed.
    pub planned: usize,
    /// Those that lost their commit.
    pub lost: usize,
    /// True if more tasks wait than the batch had.
    pub more_waiting: bool,
}

/// The batch size of one worker, and how many candidates its searches collect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    batch: usize,
    batch_max: usize,
    /// The share of lately planned tasks that other workers' commits overtook, in thousandths.
    heat: usize,
}

impl BatchSize {
    /// A controller of batches of at most `batch_max` tasks.
    pub fn new(batch_max: usize) -> Self {
        let batch_max = batch_max.max(1);
        Self { batch: BATCH_FIRST.min(batch_max), batch_max, heat: 0 }
    }

    /// How many tasks to plan at once.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// How many candidates to collect beyond the number of tasks.
    pub fn beyond(&self) -> usize {
        BEYOND.0 + (BEYOND.1 - BEYOND.0) * self.heat / FULL
    }

    /// The share of lately planned tasks that lost their commit, in thousandths.
    pub fn heat(&self) -> usize {
        self.heat
    }

    /// Adapts to the outcome of a batch.
    pub fn committed(&mut self, outcome: BatchOutcome) {
        let BatchOutcome { planned, lost, more_waiting } = outcome;
        let share = (lost.min(planned) * FULL).checked_div(planned).unwrap_or(0);
        self.heat = (self.heat * HEAT_KEPT + share) / (HEAT_KEPT + 1);
        if share * 4 >= FULL {
            self.batch = (self.batch / 2).max(BATCH_MIN).min(self.batch_max);
        } else if lost == 0 && more_waiting {
            self.batch = (self.batch + self.batch / 8 + 1).min(self.batch_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_stays_within_its_bounds(
            max in 1..3000usize,
            batches in prop::collection::vec((0..3000usize, 0..3000usize, any::<bool>()), 0..200),
        ) {
            let mut batch_size = BatchSize::new(max);
            for (planned, lost, more_waiting) in batches {
                batch_size.committed(BatchOutcome { planned, lost, more_waiting });
                prop_assert!((1..=max).contains(&batch_size.batch()) && batch_size.batch() >= BATCH_MIN.min(max));
                prop_assert!((BEYOND.0..=BEYOND.1).contains(&batch_size.beyond()));
            }
        }
    }

    /// Tasks per second of one worker among others, in simulated time. A batch takes a millisecond and ten microseconds
    /// per task. The chance to lose a task grows with that time.
    fn rate(lost_per_ms: f64, mut batch: impl FnMut(usize, usize) -> usize) -> f64 {
        let (mut at_ms, mut placed, mut carry) = (0.0, 0.0, 0.0);
        let mut size = batch(0, 0);
        while at_ms < 60_000.0 {
            let took_ms = 1.0 + size as f64 / 100.0;
            let share = (lost_per_ms * took_ms).min(1.0);
            carry += share * size as f64;
            let lost = (carry as usize).min(size);
            carry -= lost as f64;
            // The commit is repeated without the losers, which takes as long again.
            at_ms += if lost > 0 { 2.0 * took_ms } else { took_ms };
            placed += (size - lost) as f64;
            size = batch(size, lost);
        }
        placed / 60.0
    }

    #[test]
    fn it_comes_near_the_best_fixed_batch_whatever_the_conflicts() {
        for lost_per_ms in [0.0, 0.001, 0.01, 0.03, 0.1] {
            let fixed = [32, 64, 128, 256, 512, 1024];
            let best = fixed.iter().map(|&size| rate(lost_per_ms, |_, _| size)).fold(0.0, f64::max);
            let mut batch_size = BatchSize::new(1024);
            let adapted = rate(lost_per_ms, |planned, lost| {
                if planned > 0 {
                    batch_size.committed(BatchOutcome { planned, lost, more_waiting: true });
                }
                batch_size.batch()
            });
            assert!(adapted > 0.7 * best, "{adapted} of {best} at {lost_per_ms}");
        }
    }

    #[test]
    fn candidates_grow_with_conflicts_and_fall_again() {
        let mut batch_size = BatchSize::new(1024);
        let outcome = |lost| BatchOutcome { planned: 100, lost, more_waiting: true };
        (0..30).for_each(|_| batch_size.committed(outcome(60)));
        assert!(batch_size.beyond() > 200 && batch_size.batch() == BATCH_MIN, "{batch_size:?}");
        (0..60).for_each(|_| batch_size.committed(outcome(0)));
        assert!(batch_size.beyond() < 60 && batch_size.batch() == 1024, "{batch_size:?}");
    }
}
