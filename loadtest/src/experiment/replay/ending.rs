//! Ends attempts when they are due, as a gateway writes agents' reports: many nodes in one transaction.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_model::NodeId;
use borough_model::task::{EndReason, Exit, Health};
use borough_store::StoreResult;
use borough_store::task::{ReportPhase, TaskReport};
use tokio::task::JoinSet;

use super::stream::{ReplayAttempt, ReplayStream};
use crate::scheduler::world::BenchCell;

/// Attempts ended in one transaction.
const PER_COMMIT: usize = 64;
/// Transactions at once.
const AT_ONCE: usize = 8;
/// Interval of checks while nothing is due.
const TICK: Duration = Duration::from_millis(2);

/// Ends attempts as they are due, until the stream is closed.
pub(super) async fn ended(world: Arc<BenchCell>, stream: Arc<ReplayStream>) -> anyhow::Result<()> {
    let mut commits: JoinSet<StoreResult<()>> = JoinSet::new();
    while !stream.closed() {
        while commits.len() >= AT_ONCE {
            commits.join_next().await.transpose()?.transpose()?;
        }
        let attempts = stream.due(PER_COMMIT);
        if attempts.is_empty() {
            tokio::time::sleep(TICK).await;
            continue;
        }
        commits.spawn(written(Arc::clone(&world), attempts));
    }
    while let Some(done) = commits.join_next().await {
        done??;
    }
    Ok(())
}

async fn written(world: Arc<BenchCell>, attempts: Vec<ReplayAttempt>) -> StoreResult<()> {
    let change = &world.change("task_report");
    let mut by_node: BTreeMap<NodeId, Vec<TaskReport>> = BTreeMap::new();
    for attempt in attempts {
        by_node.entry(attempt.node).or_default().push(report(attempt, change.at_ms));
    }
    world.tasks_report(change, &by_node).await
}

fn report(attempt: ReplayAttempt, at_ms: i64) -> TaskReport {
    let exit = Exit {
        reason: EndReason::Exited,
        code: Some(0),
        signal: None,
        message: String::new(),
        at_ms,
        incarnation: attempt.incarnation,
        node: Some(attempt.node),
        start_failure: None,
    };
    TaskReport {
        task: attempt.task,
        incarnation: attempt.incarnation,
        phase: ReportPhase::Released,
        process: Some((1, at_ms)),
        health: Health::Unknown,
        cores: Vec::new(),
        exit: Some(exit),
        resize: None,
        helpers: Vec::new(),
    }
}
