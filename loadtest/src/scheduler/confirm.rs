//! Confirms the ends of victims, for which preemptors wait, as the agents of nodes without any grace would.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::task::{Health, TaskRow, TaskState};
use borough_model::{Delta, NodeId};
use borough_store::journal::{journal_head, journal_tail};
use borough_store::task::{ReportPhase, TaskReport};

use super::events::{BackgroundEvent, BackgroundEvents};
use super::world::BenchCell;

/// Entries read at once.
const PAGE_ENTRIES: usize = 256;
/// Ends reported in one transaction: those of many nodes together, as a gateway does.
const REPORTS_PER_COMMIT: usize = 256;
/// Interval of checks while nothing has come.
const PAUSE: Duration = Duration::from_millis(2);

/// Confirms until it is `over`.
pub(super) async fn victims_confirm(
    world: &Arc<BenchCell>,
    events: &BackgroundEvents,
    over: &AtomicBool,
) -> anyhow::Result<()> {
    let space = &world.space;
    let head = world
        .db
        .run("journal_head", Idempotency::ReadOnly, |tx, _| async move { journal_head(&tx, space).await });
    let mut after = head.await?;
    while !over.load(Ordering::Relaxed) {
        let page = world.db.run("loadtest_tail", Idempotency::ReadOnly, |tx, _| async move {
            journal_tail(&tx, space, after, PAGE_ENTRIES).await
        });
        let page = page.await?;
        after = page.next;
        let deltas = page.entries.iter().flat_map(|(_, entry)| &entry.deltas);
        let gone: Vec<&TaskRow> = deltas.filter_map(evicted).collect();
        for rows in gone.chunks(REPORTS_PER_COMMIT) {
            ends_report(world, rows).await?;
            events.happened_times(BackgroundEvent::VictimEnded, rows.len());
        }
        if gone.is_empty() && !page.more {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

fn evicted(delta: &Delta) -> Option<&TaskRow> {
    let Delta::Task { row } = delta else { return None };
    (row.state == TaskState::Stopping && row.evicted.is_some()).then_some(row)
}

async fn ends_report(world: &BenchCell, rows: &[&TaskRow]) -> anyhow::Result<()> {
    let mut by_node: BTreeMap<NodeId, Vec<TaskReport>> = BTreeMap::new();
    for row in rows {
        let Some(node) = row.node else { continue };
        by_node.entry(node).or_default().push(TaskReport {
            task: row.id,
            incarnation: row.incarnation,
            phase: ReportPhase::Released,
            process: None,
            health: Health::Unknown,
            exit: None,
            cores: Vec::new(),
            resize: None,
            helpers: Vec::new(),
        });
    }
    Ok(world.tasks_report(&world.change("task_report"), &by_node).await?)
}
