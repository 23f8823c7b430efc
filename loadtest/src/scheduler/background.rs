//! The background load of a measured workload: unschedulable work, nodes that come and go, tasks that are stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use borough_model::job::JobSpec;

use super::confirm::victims_confirm;
use super::workload::{Workload, node_facts, preempting_spec, unschedulable_spec};
use super::world::BenchCell;

/// As `scheduler_perf`'s churn.
pub(super) const CHURN: Duration = Duration::from_secs(1);

/// Runs all background load until it is `over`.
pub(super) async fn background_run(
    world: Arc<BenchCell>,
    workload: Workload,
    jobs_before: Vec<(String, String, u32)>,
    over: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    tokio::try_join!(
        jobs(&world, workload.background.unschedulable_per_s, unschedulable_spec, &over),
        jobs(&world, workload.background.preempting_per_s, preempting_spec, &over),
        confirm(&world, &workload, &over),
        churn(&world, &workload, &over),
        stop(&world, workload.background.stopped_per_s, jobs_before, &over),
    )?;
    Ok(())
}

/// Submits jobs of one task at a rate.
async fn jobs(
    world: &BenchCell,
    per_s: u32,
    spec: fn(&str) -> anyhow::Result<JobSpec>,
    over: &AtomicBool,
) -> anyhow::Result<()> {
    let mut number = 0_u32;
    while per_s > 0 && !over.load(Ordering::Relaxed) {
        world.job_submit(&spec(&format!("background-{number}"))?).await?;
        number += 1;
        tokio::time::sleep(Duration::from_secs(1) / per_s).await;
    }
    Ok(())
}

async fn confirm(world: &Arc<BenchCell>, workload: &Workload, over: &AtomicBool) -> anyhow::Result<()> {
    if workload.background.confirms { victims_confirm(world, over).await } else { Ok(()) }
}

/// Each round first declares the last node lost and stops the last unschedulable job.
async fn churn(world: &BenchCell, workload: &Workload, over: &AtomicBool) -> anyhow::Result<()> {
    let mut number = 0_u32;
    while workload.background.churn && !over.load(Ordering::Relaxed) {
        if let Some(last) = number.checked_sub(1) {
            world.node_lose(&format!("churn-{last}")).await?;
            world.job_stop("loadtest", &format!("churn-{last}")).await?;
        }
        let (name, zones) = (format!("churn-{number}"), workload.zones);
        world.nodes_add(1, |_| (name.clone(), node_facts(number, zones))).await?;
        world.job_submit(&unschedulable_spec(&name)?).await?;
        number += 1;
        tokio::time::sleep(CHURN).await;
    }
    Ok(())
}

/// Stops jobs at a rate of tasks.
async fn stop(
    world: &BenchCell,
    per_s: u32,
    jobs: Vec<(String, String, u32)>,
    over: &AtomicBool,
) -> anyhow::Result<()> {
    if per_s == 0 {
        return Ok(());
    }
    for (user, name, tasks) in jobs {
        if over.load(Ordering::Relaxed) {
            break;
        }
        world.job_stop(&user, &name).await?;
        tokio::time::sleep(Duration::from_secs(1) * tasks / per_s).await;
    }
    Ok(())
}
