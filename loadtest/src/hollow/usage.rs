//! What a process takes of the machine.

use std::time::Duration;

use procfs::process::Process;

/// Memory and processor time.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessUsage {
    /// Resident, in bytes.
    pub rss_bytes: u64,
    /// Since its start.
    pub cpu: Duration,
}

/// What the process takes now.
pub fn process_usage(pid: i32) -> anyhow::Result<ProcessUsage> {
    let process = Process::new(pid)?;
    let stat = process.stat()?;
    let rss_bytes = process.status()?.vmrss.unwrap_or_default() * 1024;
    let ticks = stat.utime + stat.stime;
    let cpu = Duration::from_micros(ticks.saturating_mul(1_000_000) / procfs::ticks_per_second().max(1));
    Ok(ProcessUsage { rss_bytes, cpu })
}
