//! Decides which resources the machine is short of, from readings of what is free. One reading neither begins nor ends
//! a shortage: nodes must not come and go with every reading.

use borough_proto::v1;

/// The free resources of the machine, in thousandths. Absent values are not available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PressureReading {
    /// Memory for new tasks.
    pub memory_free: Option<u64>,
    /// Time in which all processes were stalled for lack of memory, over the last ten seconds (the kernel's pressure
    /// stall information, `full`).
    pub memory_stalled: Option<u64>,
    /// The disk of the agent's state.
    pub disk_free: Option<u64>,
    /// Process ids that are not in use.
    pub pids_free: Option<u64>,
}

/// The thresholds of shortages, in thousandths; 0 disables one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PressureLimits {
    /// A shortage if less memory is free.
    pub memory_free_min: u64,
    /// A shortage if all processes are stalled for lack of memory for more of the time.
    pub memory_stalled_max: u64,
    /// A shortage if less of the disk is free.
    pub disk_free_min: u64,
    /// A shortage if fewer process numbers are free.
    pub pids_free_min: u64,
}

impl Default for PressureLimits {
    fn default() -> Self {
        Self { memory_free_min: 30, memory_stalled_max: 100, disk_free_min: 50, pids_free_min: 50 }
    }
}

/// Readings in a row that begin a shortage.
const BEGIN_READINGS: u32 = 2;
/// Readings in a row that end a shortage. Each must be better than the limit by half.
const END_READINGS: u32 = 6;

/// What a reading means for one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Short,
    /// Neither: the state stays.
    Between,
    Enough,
}

impl Sign {
    fn of_free(free: Option<u64>, least: u64) -> Self {
        match free {
            Some(free) if free < least => Self::Short,
            Some(free) if free < least + least / 2 => Self::Between,
            Some(_) => Self::Enough,
            // A disabled threshold ends a shortage.
            None if least == 0 => Self::Enough,
            None => Self::Between,
        }
    }

    fn of_stalled(stalled: Option<u64>, most: u64) -> Self {
        match stalled {
            Some(_) if most == 0 => Self::Enough,
            Some(stalled) if stalled > most => Self::Short,
            Some(stalled) if stalled > most / 2 => Self::Between,
            // The kernel has no such value: only free memory counts.
            Some(_) | None => Self::Enough,
        }
    }

    /// The worse of two.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Short, _) | (_, Self::Short) => Self::Short,
            (Self::Between, _) | (_, Self::Between) => Self::Between,
            (Self::Enough, Self::Enough) => Self::Enough,
        }
    }
}

/// One resource that the machine can be short of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Level {
    short: bool,
    /// Readings in a row against the present state.
    against: u32,
}

impl Level {
    fn next(self, sign: Sign) -> Self {
        let (against, enough) = if self.short {
            (sign == Sign::Enough, END_READINGS)
        } else {
            (sign == Sign::Short, BEGIN_READINGS)
        };
        if !against {
            return Self { against: 0, ..self };
        }
        match self.against.saturating_add(1) {
            count if count >= enough => Self { short: !self.short, against: 0 },
            count => Self { against: count, ..self },
        }
    }
}

/// The resources that the machine is short of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PressureState {
    memory: Level,
    disk: Level,
    pids: Level,
}

impl PressureState {
    /// The state after the first reading. It counts at once, since the scheduler would place tasks before the second.
    pub(crate) fn first(reading: &PressureReading, limits: &PressureLimits) -> Self {
        (0..BEGIN_READINGS).fold(Self::default(), |pressure, _| pressure.next(reading, limits))
    }

    /// The state after one more reading.
    pub(crate) fn next(self, reading: &PressureReading, limits: &PressureLimits) -> Self {
        let left = Sign::of_free(reading.memory_free, limits.memory_free_min);
        let memory = left.with(Sign::of_stalled(reading.memory_stalled, limits.memory_stalled_max));
        Self {
            memory: self.memory.next(memory),
            disk: self.disk.next(Sign::of_free(reading.disk_free, limits.disk_free_min)),
            pids: self.pids.next(Sign::of_free(reading.pids_free, limits.pids_free_min)),
        }
    }

    /// All of them, for a report.
    pub(crate) fn report(self) -> v1::PressureReport {
        let kinds = [
            (self.memory, v1::NodePressure::Memory),
            (self.disk, v1::NodePressure::Disk),
            (self.pids, v1::NodePressure::Pids),
        ];
        let short_of = kinds.into_iter().filter(|(level, _)| level.short).map(|(_, kind)| kind.into());
        v1::PressureReport { short_of: short_of.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(free: u64) -> PressureReading {
        PressureReading { disk_free: Some(free), ..PressureReading::default() }
    }

    fn after(pressure: PressureState, readings: &[PressureReading]) -> PressureState {
        let limits = PressureLimits::default();
        readings.iter().fold(pressure, |pressure, reading| pressure.next(reading, &limits))
    }

    fn short_of(pressure: PressureState) -> Vec<v1::NodePressure> {
        pressure.report().short_of().collect()
    }

    #[test]
    fn one_bad_reading_is_none_and_one_good_one_is_no_recovery() {
        let (bad, good, between) = (disk(49), disk(75), disk(74));
        let begun = after(PressureState::default(), &[bad, good, bad]);
        assert_eq!(short_of(begun), []);
        let short = after(begun, &[bad]);
        assert_eq!(short_of(short), [v1::NodePressure::Disk]);
        let almost = after(short, &[good, good, good, good, good, between, good, good, good, good, good]);
        assert_eq!(short_of(almost), [v1::NodePressure::Disk], "a reading between begins the count again");
        assert_eq!(short_of(after(almost, &[good])), []);
    }

    /// An agent that was started again on a full disk must report the shortage at once: otherwise tasks would be
    /// placed, and fail.
    #[test]
    fn the_first_reading_counts_at_once() {
        let limits = PressureLimits::default();
        assert_eq!(short_of(PressureState::first(&disk(49), &limits)), [v1::NodePressure::Disk]);
        assert_eq!(short_of(PressureState::first(&disk(50), &limits)), []);
        let recovered = after(PressureState::first(&disk(49), &limits), &[disk(75); 6]);
        assert_eq!(short_of(recovered), [], "and ends as any other");
    }

    #[test]
    fn memory_is_lacking_where_little_is_left_or_everything_waits_for_it() {
        let memory = |free, stalled| PressureReading {
            memory_free: Some(free),
            memory_stalled: stalled,
            ..PressureReading::default()
        };
        let short = [v1::NodePressure::Memory];
        assert_eq!(short_of(after(PressureState::default(), &[memory(29, None); 2])), short);
        let stalled = after(PressureState::default(), &[memory(900, Some(101)); 2]);
        assert_eq!(short_of(stalled), short);
        assert_eq!(short_of(after(stalled, &[memory(900, Some(51)); 20])), short);
        assert_eq!(short_of(after(stalled, &[memory(900, Some(50)); 6])), []);
        assert_eq!(short_of(after(stalled, &[memory(40, Some(0)); 20])), short);
    }

    #[test]
    fn an_absent_value_changes_nothing_and_an_unwatched_one_is_not_short() {
        let short = after(PressureState::default(), &[disk(1), disk(1)]);
        assert_eq!(after(short, &[PressureReading::default(); 20]), after(short, &[disk(60)]));
        let off = PressureLimits { disk_free_min: 0, ..PressureLimits::default() };
        let unwatched = (0..6).fold(short, |pressure, _| pressure.next(&disk(0), &off));
        assert_eq!(short_of(unwatched), []);
    }
}
