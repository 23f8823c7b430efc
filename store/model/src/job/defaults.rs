//! The values of fields that a job file leaves out.

use crate::id::Name;
use crate::job::{Band, HealthCheck, JobKind, JobSpec, LogSpec, Probe, RestartMode, RestartSpec, TaskSpec};
use crate::resource::Resources;

/// Milliseconds between SIGTERM and SIGKILL: 5 s.
pub const GRACE_MS: u64 = 5_000;
/// Milliseconds between the withdrawal of an endpoint and SIGTERM. Jobs behind load balancers set more.
pub const DRAIN_DELAY_MS: u64 = 0;
/// Bytes of a log file: 10 MiB.
pub const LOG_FILE_BYTES_MAX: u64 = 10 << 20;
/// Log files kept per stream.
pub const LOG_FILES_MAX: u32 = 3;
/// Milliseconds without progress after which a wait for a service fails: 10 minutes, as Kubernetes has it.
pub const PROGRESS_DEADLINE_MS: u64 = 600_000;
/// All tasks of a job get the same share of its traffic.
pub const WEIGHT: u32 = 1;
/// A tenth of a core, in thousandths of a core.
pub const CPU_MILLIS: u64 = 100;
/// Bytes of memory: 64 MiB.
pub const MEMORY_BYTES: u64 = 64 << 20;
/// Priority of a service: production.
pub const PRIORITY_SERVICE: u32 = 200;
/// Priority of a batch job: batch.
pub const PRIORITY_BATCH: u32 = 100;
/// Milliseconds between probes.
pub const PROBE_INTERVAL_MS: u64 = 5_000;
/// Milliseconds after which a probe fails.
pub const PROBE_TIMEOUT_MS: u64 = 2_000;
/// Failures of a probe in a row after which the agent restarts the task.
pub const PROBE_FAILURES_MAX: u32 = 3;
/// Milliseconds after the start in which failures do not count.
pub const PROBE_INITIAL_GRACE_MS: u64 = 10_000;

impl Default for LogSpec {
    /// 10 MiB × 3 files per stream.
    fn default() -> Self {
        Self { file_bytes_max: LOG_FILE_BYTES_MAX, files_max: LOG_FILES_MAX }
    }
}

impl RestartSpec {
    /// A service restarts after every exit, without a limit. A batch task restarts after failures, three times. The
    /// first pause is half a second, and each further failure doubles it, up to a minute. An attempt of two minutes
    /// resets the count.
    pub fn for_kind(kind: JobKind) -> Self {
        let (mode, attempts_max) = match kind {
            JobKind::Service | JobKind::Daemon | JobKind::AllocSet => (RestartMode::Always, None),
            JobKind::Batch => (RestartMode::OnFailure, Some(3)),
        };
        Self { mode, attempts_max, backoff_initial_ms: 500, backoff_max_ms: 60_000, reset_after_ms: 120_000 }
    }

    /// Returns true if no exit ends a task for good, so that its job runs until somebody stops it.
    pub fn is_endless(&self) -> bool {
        self.mode == RestartMode::Always && self.attempts_max.is_none()
    }
}

impl HealthCheck {
    /// A check of `probe` with the default timing.
    pub fn of(probe: Probe) -> Self {
        Self {
            probe,
            interval_ms: PROBE_INTERVAL_MS,
            timeout_ms: PROBE_TIMEOUT_MS,
            failures_max: PROBE_FAILURES_MAX,
            initial_grace_ms: PROBE_INITIAL_GRACE_MS,
        }
    }
}

/// The resources of a task that requests none.
pub(super) fn resources() -> Resources {
    Resources { cpu_millis: CPU_MILLIS, memory_bytes: MEMORY_BYTES, ..Resources::default() }
}

/// The priority of a job that names none.
pub(super) fn priority(kind: JobKind) -> u32 {
    match kind {
        JobKind::Service | JobKind::Daemon | JobKind::AllocSet => PRIORITY_SERVICE,
        JobKind::Batch => PRIORITY_BATCH,
    }
}

/// The count of a job that names none. The controller counts the tasks of a daemon job.
pub(super) fn count(kind: JobKind) -> u32 {
    match kind {
        JobKind::Service | JobKind::Batch | JobKind::AllocSet => 1,
        JobKind::Daemon => 0,
    }
}

impl TaskSpec {
    /// A task that runs `command` with every default: a tenth of a core, 64 MiB, no ports, no health check.
    pub fn of(command: Vec<String>) -> Self {
        Self::initial(command)
    }
}

impl JobSpec {
    /// A job of one task that runs `command`, with every default.
    pub fn defaults(user: Name, name: Name, kind: JobKind, command: Vec<String>) -> Self {
        Self::initial(user, name, kind, TaskSpec::of(command))
    }
}

/// The highest priority.
pub const PRIORITY_MAX: u32 = 399;

/// The band of a priority; those above the highest count as monitoring.
pub fn band(priority: u32) -> Band {
    match priority {
        0..=99 => Band::BestEffort,
        100..=199 => Band::Batch,
        200..=299 => Band::Production,
        300.. => Band::Monitoring,
    }
}
