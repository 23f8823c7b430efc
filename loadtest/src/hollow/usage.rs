//! The resources that a process uses.

use std::time::Duration;

use procfs::process::Process;

/// Memory, processor time, and writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessUsage {
    /// Resident, in bytes.
    pub rss_bytes: u64,
    pub cpu: Duration,
    /// Written to a disk since its start: pages that it made dirty. 0 if that is another user's secret.
    pub written_bytes: u64,
}

/// The present use of a process.
pub(crate) fn process_usage(pid: i32) -> anyhow::Result<ProcessUsage> {
    let process = Process::new(pid)?;
    let stat = process.stat()?;
    let rss_bytes = process.status()?.vmrss.unwrap_or_default() * 1024;
    let ticks = stat.utime + stat.stime;
    let cpu = Duration::from_micros(ticks.saturating_mul(1_000_000) / procfs::ticks_per_second().max(1));
    let written_bytes = process.io().map_or(0, |io| io.write_bytes.saturating_sub(io.cancelled_write_bytes));
    Ok(ProcessUsage { rss_bytes, cpu, written_bytes })
}

/// Resets the kernel's record of the process's peak memory: [`process_peak`] then covers the time since.
///
/// # Errors
/// The process is another user's, or gone.
pub(crate) fn peak_reset(pid: i32) -> anyhow::Result<()> {
    // "5" resets the high-water mark alone (proc(5), clear_refs).
    Ok(std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

/// The peak of the process's resident memory, in bytes.
pub(crate) fn process_peak(pid: i32) -> anyhow::Result<u64> {
    Ok(Process::new(pid)?.status()?.vmhwm.unwrap_or_default() * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_of_the_time_since_it_was_reset() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let taken = std::hint::black_box(vec![1_u8; 256 << 20]);
        assert!(process_peak(pid).unwrap() > 256 << 20);
        drop(taken);
        peak_reset(pid).unwrap();
        let after = process_peak(pid).unwrap();
        assert!(after < 256 << 20, "{after} bytes");
    }
}
