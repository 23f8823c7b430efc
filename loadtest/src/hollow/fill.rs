//! The tasks that nodes run while their connections break. Exactly so many of them fit a node. They are submitted
//! through the public API until all of them run.

use std::time::Duration;

use borough_client::{Client, JobFilter};
use borough_proto::v1;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::fleet::{Counters, Fleet};
use super::{CPU_MILLIS, MEMORY_BYTES};
use crate::spec;

/// The user of the jobs that fill the nodes.
const USER: &str = "loadtest";
/// Jobs submitted at once.
const SUBMITTERS: usize = 16;
/// Interval of checks of the running tasks.
const LOOK: Duration = Duration::from_millis(200);
/// Interval of listing the running tasks from the gateway: each reads every task of the cell.
const LIST: Duration = Duration::from_secs(2);
/// Processor time of a node that is left for tasks offered meanwhile.
const CPU_MILLIS_LEFT: u64 = 1_000;

/// Resources of which exactly `per_node` fit a node: memory for nine tenths of another stays free.
pub(super) fn share(per_node: u32) -> v1::Resources {
    let per_node = u64::from(per_node.max(1));
    v1::Resources {
        cpu_millis: ((CPU_MILLIS - CPU_MILLIS_LEFT) / per_node).max(1),
        memory_bytes: MEMORY_BYTES * 10 / (10 * per_node + 9),
        ..v1::Resources::default()
    }
}

/// A service whose tasks only take `resources`. Its environment has `spec_bytes` bytes.
pub(super) fn service(
    user: &str,
    name: String,
    count: u32,
    resources: v1::Resources,
    spec_bytes: usize,
) -> v1::JobSpec {
    let padding = (spec_bytes > 0).then(|| ("PADDING".to_owned(), "x".repeat(spec_bytes)));
    let task = v1::TaskSpec {
        command: vec!["serve".to_owned()],
        environment: padding.into_iter().collect(),
        resources: Some(resources),
        grace_ms: 2_000,
        log: Some(v1::LogSpec { file_bytes_max: 65_536, files_max: 1 }),
        weight: 1,
        ..v1::TaskSpec::default()
    };
    spec::service(user, name, count, task)
}

/// Number and tasks of each job of `tasks` tasks in all.
pub(super) fn jobs_of(tasks: u32, per_job: u32) -> impl Iterator<Item = (u32, u32)> {
    let each = per_job.max(1);
    (0..tasks.div_ceil(each)).map(move |number| (number, each.min(tasks - number * each)))
}

/// The tasks that fill the nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    pub per_node: u32,
    /// Tasks of a job.
    pub per_job: u32,
    /// Bytes of each job's environment.
    pub spec_bytes: usize,
}

/// Submits the jobs and waits until the gateway reports all their tasks as running. Returns how long that took.
///
/// # Errors
/// A refused job, or tasks that do not run within `wait`.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
pub(super) async fn nodes_fill(
    client: &Client,
    fleet: &Fleet,
    fill: Fill,
    wait: Duration,
) -> anyhow::Result<Duration> {
    let nodes = u32::try_from(fleet.shared.options.hellos.len())?;
    let tasks = nodes.saturating_mul(fill.per_node);
    let began = std::time::Instant::now();
    let due = |what: &str, count: u64| -> anyhow::Result<()> {
        let late = began.elapsed() > wait;
        anyhow::ensure!(!late, "{count} of {tasks} tasks {what} within {wait:?}");
        Ok(())
    };
    let running = || Counters::get(&fleet.shared.counters.running);
    let before = running();
    stream::iter(jobs_of(tasks, fill.per_job))
        .map(|(number, count)| {
            let spec = service(USER, format!("fill-{number}"), count, share(fill.per_node), fill.spec_bytes);
            async move { client.job_submit(spec, 0).await.map(|_| ()) }
        })
        .buffer_unordered(SUBMITTERS)
        .try_collect::<Vec<()>>()
        .await?;
    while running() - before < u64::from(tasks) {
        due("were started", running() - before)?;
        tokio::time::sleep(LOOK).await;
    }
    let filter = JobFilter { user: USER.to_owned(), ..JobFilter::default() };
    loop {
        let jobs = client.job_list(&filter).await?;
        let counts = jobs.iter().filter_map(|job| job.tasks.as_ref());
        let known: u64 = counts.map(|counts| u64::from(counts.running)).sum();
        if known >= u64::from(tasks) {
            return Ok(began.elapsed());
        }
        due("were reported to run", known)?;
        tokio::time::sleep(LIST).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_holds_so_many_and_has_capacity_left_for_small_ones() {
        for per_node in [1, 7, 100, 1_000] {
            let share = share(per_node);
            let fits = MEMORY_BYTES / share.memory_bytes;
            assert_eq!(fits, u64::from(per_node), "memory decides");
            let left = MEMORY_BYTES - u64::from(per_node) * share.memory_bytes;
            assert!(left >= 16 << 20, "{left} bytes are left beside {per_node}");
            assert!(CPU_MILLIS - u64::from(per_node) * share.cpu_millis >= CPU_MILLIS_LEFT);
        }
    }

    #[test]
    fn jobs_have_all_tasks_between_them() {
        assert_eq!(jobs_of(25, 10).collect::<Vec<_>>(), [(0, 10), (1, 10), (2, 5)]);
        assert_eq!(jobs_of(0, 10).count(), 0);
    }
}
