//! The measured load of the machine: smoothed readings of its processors and memory, with the requests of the tasks
//! whose use they include.
//!
//! Both are smoothed with the same weights, so the mean includes the use and the request of a new task to the same
//! degree. The scheduler adds the rest of the request. A burst of placements between two reports therefore does not all
//! go to the node that looks idle.

use std::time::Duration;

use borough_model::Resources;
use borough_model::node::LoadMeasured;
use borough_proto::convert::measured_to_message;
use borough_proto::v1;
use borough_proto::v1::task_status::Phase;

use super::state::{AgentState, AttemptState};

/// The time constant of the exponentially weighted mean: a reading's weight is its age over this plus its age.
const MEAN_OVER: Duration = Duration::from_secs(30);
/// After so long without a reading, the load is unknown.
const READ_WITHIN: Duration = Duration::from_secs(60);

/// The time of all processors since the boot, in any unit of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessorTime {
    /// In use, or taken by the hypervisor.
    pub busy: u64,
    /// Unused, or waiting for a disk.
    pub idle: u64,
    pub processors: u64,
}

/// One reading of the machine. Absent values are not available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadReading {
    pub processor: Option<ProcessorTime>,
    /// Memory for new tasks, including what the kernel would reclaim.
    pub memory_free_bytes: Option<u64>,
    /// All memory of the machine.
    pub memory_total_bytes: Option<u64>,
}

/// The use and the requests of the node's own tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnTasks {
    /// Their measured use, in the units of the capacity.
    pub used_cpu_millis: u64,
    /// The same of memory, with files that the kernel keeps for them.
    pub used_memory_bytes: u64,
    /// The requests of the running ones.
    pub asked_cpu_millis: u64,
    /// The same of memory.
    pub asked_memory_bytes: u64,
}

impl OwnTasks {
    /// Counts attempts that run or are being stopped.
    pub(crate) fn of(state: &AgentState) -> Self {
        let running = |attempt: &&AttemptState| matches!(attempt.phase(), Phase::Running | Phase::Stopping);
        let asked = |attempt: &AttemptState| attempt.assignment.as_ref()?.spec.as_ref()?.resources.clone();
        state.attempts.values().filter(running).fold(Self::default(), |sum, attempt| {
            let used = attempt.usage.unwrap_or_default();
            let asked = asked(attempt).unwrap_or_default();
            Self {
                used_cpu_millis: sum.used_cpu_millis.saturating_add(used.cpu_millis),
                used_memory_bytes: sum.used_memory_bytes.saturating_add(used.memory_bytes),
                asked_cpu_millis: sum.asked_cpu_millis.saturating_add(asked.cpu_millis),
                asked_memory_bytes: sum.asked_memory_bytes.saturating_add(asked.memory_bytes),
            }
        })
    }
}

/// The smoothed load of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineLoad {
    /// The node's capacity for tasks.
    capacity: Resources,
    processor: Option<ProcessorTime>,
    mean: Option<LoadMeasured>,
    /// The time of the last reading (monotonic).
    at: Duration,
}

impl MachineLoad {
    /// An unknown load, of a machine with this capacity for tasks.
    pub(crate) fn new(capacity: Option<&v1::Resources>) -> Self {
        let (cpu_millis, memory_bytes) = capacity.map_or((0, 0), |all| (all.cpu_millis, all.memory_bytes));
        Self { capacity: Resources { cpu_millis, memory_bytes, ..Resources::default() }, ..Self::default() }
    }

    /// The load after one more reading, at `now` (monotonic). `reference_millis` converts the machine's processor time
    /// to that of the capacity.
    #[must_use]
    pub(crate) fn next(
        self,
        reading: &LoadReading,
        own: &OwnTasks,
        reference_millis: impl Fn(u64) -> u64,
        now: Duration,
    ) -> Self {
        let known = self.known(now);
        let idle =
            self.processor.zip(reading.processor).and_then(|(before, after)| idle_millis(before, after));
        let processor = reading.processor.or(self.processor);
        let (Some(idle), Some(memory_free)) = (idle, reading.memory_free_bytes) else {
            let mean = self.mean.map(|mean| still_covered(mean, own));
            return Self { processor, mean, ..self };
        };
        // The use is the capacity without what is idle or free: the machine may have more than its capacity for tasks,
        // and run other things. If it runs nothing else, the measured use of the tasks is more precise.
        let left = |capacity: u64, free: u64| capacity.saturating_sub(free);
        let used = own.used_cpu_millis.min(self.capacity.cpu_millis);
        // What the tasks use beyond what the whole machine does are files that the kernel would reclaim.
        let busy = reading.memory_total_bytes.unwrap_or(0).saturating_sub(memory_free);
        let memory_used = own.used_memory_bytes.min(busy).min(self.capacity.memory_bytes);
        let taken = LoadMeasured {
            cpu_millis: left(self.capacity.cpu_millis, reference_millis(idle)).max(used),
            memory_bytes: left(self.capacity.memory_bytes, memory_free).max(memory_used),
            covered_cpu_millis: own.asked_cpu_millis,
            covered_memory_bytes: own.asked_memory_bytes,
        };
        let mean = known.map_or(taken, |mean| smoothed(mean, taken, now.saturating_sub(self.at)));
        Self { processor, mean: Some(still_covered(mean, own)), at: now, ..self }
    }

    /// The load as known at `now` (monotonic).
    pub(crate) fn known(&self, now: Duration) -> Option<LoadMeasured> {
        self.mean.filter(|_| now.saturating_sub(self.at) <= READ_WITHIN)
    }

    /// The load to report, if it must be reported again: it became known or unknown, or changed by a large part, and
    /// the last report is old enough.
    pub(crate) fn next_report(
        &self,
        sent: Option<&SentLoad>,
        now: Duration,
        pause: Duration,
    ) -> Option<SentLoad> {
        let known = self.known(now);
        let due = match sent.map(|sent| (sent.load, sent.at)) {
            None => true,
            Some((None, _)) => known.is_some(),
            Some((Some(before), at)) => known.is_none_or(|known| {
                now.saturating_sub(at) >= pause && known.differs(&before, &self.capacity)
            }),
        };
        due.then_some(SentLoad { load: known, at: now })
    }
}

/// The last reported load, and when it was reported (monotonic).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentLoad {
    load: Option<LoadMeasured>,
    at: Duration,
}

impl SentLoad {
    /// The load as a message.
    pub(crate) fn report(&self) -> v1::LoadReport {
        v1::LoadReport { load: self.load.as_ref().map(measured_to_message) }
    }
}

/// Thousandths of processors that were idle between two readings; `None` if no time has passed, or the counters were
/// reset.
fn idle_millis(before: ProcessorTime, after: ProcessorTime) -> Option<u64> {
    let busy = after.busy.checked_sub(before.busy)?;
    let idle = after.idle.checked_sub(before.idle)?;
    let all = u128::from(after.processors).saturating_mul(1000);
    let passed = u128::from(busy) + u128::from(idle);
    let millis = (all.saturating_mul(u128::from(idle))).checked_div(passed)?;
    u64::try_from(millis).ok()
}

/// Removes the requests of ended tasks from the measured part, with or without a reading.
fn still_covered(mean: LoadMeasured, own: &OwnTasks) -> LoadMeasured {
    LoadMeasured {
        covered_cpu_millis: mean.covered_cpu_millis.min(own.asked_cpu_millis),
        covered_memory_bytes: mean.covered_memory_bytes.min(own.asked_memory_bytes),
        ..mean
    }
}

/// The mean after one more reading, `passed` after the previous one.
fn smoothed(mean: LoadMeasured, taken: LoadMeasured, passed: Duration) -> LoadMeasured {
    let passed = passed.as_millis();
    let over = passed.saturating_add(MEAN_OVER.as_millis());
    let moved = |mean: u64, taken: u64| {
        let by = u128::from(mean.abs_diff(taken)).saturating_mul(passed) / over;
        let by = u64::try_from(by).unwrap_or(u64::MAX);
        if taken > mean { mean.saturating_add(by) } else { mean.saturating_sub(by) }
    };
    LoadMeasured {
        cpu_millis: moved(mean.cpu_millis, taken.cpu_millis),
        memory_bytes: moved(mean.memory_bytes, taken.memory_bytes),
        covered_cpu_millis: moved(mean.covered_cpu_millis, taken.covered_cpu_millis),
        covered_memory_bytes: moved(mean.covered_memory_bytes, taken.covered_memory_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn machine() -> MachineLoad {
        let capacity = v1::Resources { cpu_millis: 4_000, memory_bytes: 8 * GIB, ..v1::Resources::default() };
        MachineLoad::new(Some(&capacity))
    }

    fn reading(busy: u64, idle: u64, memory_free_bytes: u64) -> LoadReading {
        LoadReading {
            processor: Some(ProcessorTime { busy, idle, processors: 4 }),
            memory_free_bytes: Some(memory_free_bytes),
            memory_total_bytes: Some(8 * GIB),
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn next(load: MachineLoad, reading: LoadReading, own: OwnTasks, seconds: u64) -> MachineLoad {
        load.next(&reading, &own, |millis| millis, at(seconds))
    }

    fn asked(asked_cpu_millis: u64) -> OwnTasks {
        OwnTasks { asked_cpu_millis, ..OwnTasks::default() }
    }

    #[test]
    fn two_readings_make_a_load_and_later_ones_a_mean() {
        let none = OwnTasks::default();
        let once = next(machine(), reading(100, 100, 6 * GIB), none, 5);
        assert_eq!(once.known(at(5)), None, "counters since the boot say nothing of now");
        let twice = next(once, reading(400, 200, 6 * GIB), none, 10);
        let known = twice.known(at(10)).unwrap();
        assert_eq!((known.cpu_millis, known.memory_bytes), (3_000, 2 * GIB));
        // Idle for six seconds: a sixth of the way down, since 6 / (6 + 30) = 1 / 6.
        let later = next(twice, reading(400, 800, 6 * GIB), none, 16);
        assert_eq!(later.known(at(16)).unwrap().cpu_millis, 2_500);
        assert_eq!(later.known(at(77)), None, "not read for too long");
        // A later reading begins a new mean.
        let again = next(later, reading(400, 900, 8 * GIB), none, 90);
        assert_eq!(again.known(at(90)), Some(LoadMeasured::default()));
    }

    #[test]
    fn counters_that_stand_still_or_are_reset_give_no_load() {
        let none = OwnTasks::default();
        let begun = next(machine(), reading(500, 500, GIB), none, 5);
        let still = next(begun, reading(500, 500, GIB), none, 6);
        assert_eq!(still.known(at(6)), None);
        let again = next(still, reading(10, 10, GIB), none, 11);
        assert_eq!(again.known(at(11)), None);
        let after = next(again, reading(10, 20, GIB), none, 16);
        assert_eq!(after.known(at(16)).unwrap().cpu_millis, 0);
        let silent = next(after.clone(), LoadReading::default(), none, 21);
        assert_eq!(silent.known(at(21)), after.known(at(16)), "a look that shows nothing changes nothing");
    }

    #[test]
    fn a_part_of_a_machine_is_as_full_as_its_tasks_make_it_or_the_rest_leaves_it() {
        // 16 processors, of which 4 are for tasks.
        let wide = |busy, idle| LoadReading {
            processor: Some(ProcessorTime { busy, idle, processors: 16 }),
            memory_free_bytes: Some(100 * GIB),
            memory_total_bytes: Some(104 * GIB),
        };
        let using = OwnTasks { used_cpu_millis: 2_500, used_memory_bytes: 3 * GIB, ..OwnTasks::default() };
        let load = next(next(machine(), wide(0, 0), using, 0), wide(40, 120), using, 5);
        let known = load.known(at(5)).unwrap();
        assert_eq!(known.cpu_millis, 2_500, "12 are idle, its tasks use 2.5");
        assert_eq!(known.memory_bytes, 3 * GIB, "far more is free than it has for tasks");
        let caching = OwnTasks { used_memory_bytes: 7 * GIB, ..using };
        let load = next(next(machine(), wide(0, 0), caching, 0), wide(40, 120), caching, 5);
        assert_eq!(load.known(at(5)).unwrap().memory_bytes, 4 * GIB, "no more than the machine uses");
        let full = next(next(machine(), wide(0, 0), using, 0), wide(150, 10), using, 5);
        assert_eq!(full.known(at(5)).unwrap().cpu_millis, 3_000, "one is idle");
        let beyond = OwnTasks { used_cpu_millis: 9_000, ..OwnTasks::default() };
        let most = next(next(machine(), wide(0, 0), beyond, 0), wide(40, 120), beyond, 5);
        assert_eq!(most.known(at(5)).unwrap().cpu_millis, 4_000, "no more than it has");
    }

    #[test]
    fn what_tasks_ask_for_is_covered_as_the_mean_takes_them_in_and_leaves_with_them() {
        let idle = |seconds: u64| reading(0, seconds * 100, 8 * GIB);
        let begun = next(next(machine(), idle(0), asked(1_000), 0), idle(5), asked(1_000), 5);
        assert_eq!(begun.known(at(5)).unwrap().covered_cpu_millis, 1_000);
        let more = next(begun, idle(11), asked(2_200), 11);
        assert_eq!(more.known(at(11)).unwrap().covered_cpu_millis, 1_200, "a sixth of what came");
        let fewer = next(more, idle(17), asked(500), 17);
        assert_eq!(fewer.known(at(17)).unwrap().covered_cpu_millis, 500);
    }

    #[test]
    fn only_a_large_change_is_reported_and_not_too_often() {
        let (none, pause) = (OwnTasks::default(), at(15));
        let unknown = machine().next_report(None, at(0), pause).unwrap();
        assert_eq!(unknown.report(), v1::LoadReport::default());
        assert_eq!(machine().next_report(Some(&unknown), at(100), pause), None);
        let known = next(next(machine(), reading(0, 0, GIB), none, 0), reading(300, 300, GIB), none, 5);
        let sent = known.next_report(Some(&unknown), at(5), pause).unwrap();
        assert_eq!(sent.report().load.unwrap().cpu_millis, 2_000);
        // 4,000 thousandths in 64 steps: 62 each.
        let moved = |cpu_millis| MachineLoad {
            mean: known.mean.map(|mean| LoadMeasured { cpu_millis, ..mean }),
            ..known.clone()
        };
        assert_eq!(moved(2_061).next_report(Some(&sent), at(40), pause), None);
        assert!(moved(2_062).next_report(Some(&sent), at(40), pause).is_some());
        assert_eq!(moved(4_000).next_report(Some(&sent), at(19), pause), None, "reported a moment ago");
        assert!(known.next_report(Some(&sent), at(66), pause).unwrap().load.is_none(), "reported at once");
    }

    proptest::proptest! {
        /// Whatever the readings are, a load is within the node's capacity and its tasks' requests.
        #[test]
        fn a_load_is_within_the_node(
            readings in proptest::collection::vec(
                (proptest::num::u64::ANY, proptest::num::u64::ANY, 0..10_000_u64, proptest::num::u64::ANY), 1..20),
            asked in proptest::collection::vec(proptest::num::u64::ANY, 20),
        ) {
            let mut load = machine();
            for (step, ((busy, idle, processors, memory), asked)) in (1..).zip(readings.into_iter().zip(asked)) {
                let reading = LoadReading {
                    processor: Some(ProcessorTime { busy, idle, processors }),
                    memory_free_bytes: Some(memory),
                    memory_total_bytes: Some(idle),
                };
                let own = OwnTasks {
                    used_cpu_millis: busy,
                    used_memory_bytes: asked,
                    asked_cpu_millis: asked,
                    asked_memory_bytes: asked,
                };
                load = next(load, reading, own, step * 5);
                if let Some(known) = load.known(at(step * 5)) {
                    proptest::prop_assert!(known.cpu_millis <= 4_000 && known.memory_bytes <= 8 * GIB);
                    proptest::prop_assert!(known.covered_cpu_millis <= asked);
                }
            }
        }
    }
}
