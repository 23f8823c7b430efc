//! Measures what attempts use.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_proto::v1;
use borough_shim::cgroup::CgroupUsage;
use borough_shim::process::{descendants, stat_read};

use crate::attempt::AttemptId;
use crate::machine::MeasurePlace;

/// Clock ticks per second, as the kernel shows them to everyone.
const TICKS_PER_S: u64 = 100;

/// Measures attempts. Leaves out those that cannot be measured.
pub(super) fn measure(places: Vec<MeasurePlace>) -> BTreeMap<AttemptId, CgroupUsage> {
    places.into_iter().filter_map(|place| Some((place.id.clone(), measure_one(&place)?))).collect()
}

/// Measures one attempt.
pub(super) fn measure_one(place: &MeasurePlace) -> Option<CgroupUsage> {
    place.leaf.sample().or_else(|| place.shim.map(processes_sample))
}

/// For hosts without cgroups: the sum over the descendants of the shim. It lacks the cpu time of processes that have
/// ended.
fn processes_sample(shim: u32) -> CgroupUsage {
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    let stats = descendants(shim).into_iter().filter_map(|pid| stat_read(pid).ok());
    stats.fold(CgroupUsage::default(), |sum, stat| CgroupUsage {
        cpu_us: sum.cpu_us.saturating_add(stat.cpu_ticks.saturating_mul(1_000_000 / TICKS_PER_S)),
        memory_bytes: sum.memory_bytes.saturating_add(stat.resident_pages.saturating_mul(page)),
        memory_peak_bytes: 0,
        processes: sum.processes.saturating_add(1),
    })
}

/// A measurement, and when it was taken (monotonic).
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedSample {
    pub usage: CgroupUsage,
    pub at: Duration,
}

/// Usage between two measurements; cpu is 0 in the first.
pub(super) fn usage(
    before: Option<TimedSample>,
    now: TimedSample,
    peak_before: u64,
    at_ms: i64,
) -> v1::Usage {
    let TimedSample { usage: sample, at } = now;
    let cpu_millis = before.map_or(0, |before| {
        let us = u64::try_from(at.saturating_sub(before.at).as_micros()).unwrap_or(u64::MAX).max(1);
        sample.cpu_us.saturating_sub(before.usage.cpu_us).saturating_mul(1000) / us
    });
    let peak = sample.memory_peak_bytes.max(sample.memory_bytes).max(peak_before);
    v1::Usage {
        at_ms,
        cpu_millis,
        memory_bytes: sample.memory_bytes,
        memory_peak_bytes: peak,
        processes: sample.processes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_a_rate_and_the_peak_stays() {
        let sample = |cpu_us, memory_bytes, seconds| TimedSample {
            usage: CgroupUsage { cpu_us, memory_bytes, ..CgroupUsage::default() },
            at: Duration::from_secs(seconds),
        };
        let first = sample(1_000_000, 50, 1);
        let found = usage(Some(first), sample(2_000_000, 20, 3), 50, 7);
        assert_eq!((found.cpu_millis, found.memory_bytes, found.memory_peak_bytes), (500, 20, 50));
        assert_eq!(usage(None, first, 0, 7).cpu_millis, 0);
    }

    #[test]
    fn processes_are_summed_where_there_is_no_cgroup() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let sample = processes_sample(std::process::id());
        assert!(sample.processes >= 1);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
