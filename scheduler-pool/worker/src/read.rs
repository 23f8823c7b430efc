//! Everything a batch is decided on, read at one version: the journal up to it, the gate, the leases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_kv::{Database, Idempotency, Version};
use borough_model::{JournalEntry, TaskId, TaskRow};
use borough_store::cell::GateRead;
use borough_store::journal::{Cursor, JournalShare, journal_head, journal_tail_shared, journal_watch};
use borough_store::keys::{self, LeaseKey};
use borough_store::lease::LeaseRow;
use borough_store::task::tasks_read_snapshot;
use borough_store::{CellSpace, StoreError, StoreResult};

/// Entries of a page.
const PAGE_ENTRIES: usize = 4_096;

/// What was read at one version. With the entries applied, a snapshot is complete as of it.
#[derive(Debug)]
pub struct CellRead {
    /// The version; placements decided on this are committed at it.
    pub version: Version,
    /// Entries after the cursor, in order.
    pub entries: Vec<Arc<JournalEntry>>,
    /// Where to go on.
    pub next: Cursor,
    /// The cell's gate at the version. What is committed at it needs the proof that it was open.
    pub gate: GateRead,
    /// The leases that were asked for, as they are at the version.
    pub leases: BTreeMap<LeaseKey, Option<LeaseRow>>,
}

/// Reads everything after `cursor`. [`StoreError::JournalTrimmed`] and [`StoreError::ForeignEpoch`] mean that the cell
/// has to be listed again.
pub async fn cell_read(
    db: &Database,
    space: &CellSpace,
    cursor: Cursor,
    leases: &[LeaseKey],
    share: &JournalShare,
) -> StoreResult<CellRead> {
    db.run("scheduler_read", Idempotency::ReadOnly, |tx, _| async move {
        let version = tx.read_version().await?;
        let mut held = BTreeMap::new();
        for lease in leases {
            held.insert(lease.clone(), keys::read_snapshot(&tx, space, lease).await?);
        }
        let mut entries = Vec::new();
        let mut after = cursor;
        loop {
            let page = journal_tail_shared(&tx, space, after, PAGE_ENTRIES, share).await?;
            entries.extend(page.entries.into_iter().map(|(_, entry)| entry));
            after = page.next;
            if !page.more {
                return Ok::<_, StoreError>(CellRead {
                    version,
                    entries,
                    next: after,
                    gate: page.gate,
                    leases: held,
                });
            }
        }
    })
    .await
}

/// The rows of some tasks as they are by now. What is decided on them holds where they are those that were planned on:
/// a row's revision says so, and its guard keeps it so.
pub async fn rows_read(
    db: &Database,
    space: &CellSpace,
    tasks: &BTreeSet<TaskId>,
) -> StoreResult<BTreeMap<TaskId, TaskRow>> {
    if tasks.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows = db.run("scheduler_victims", Idempotency::ReadOnly, |tx, _| async move {
        tasks_read_snapshot(&tx, space, tasks.iter().copied()).await
    });
    Ok(rows.await?.into_iter().map(|row| (row.id, row)).collect())
}

/// A watch that ends when there may be something after `cursor`; `None` where there is already.
pub async fn cell_watch(
    db: &Database,
    space: &CellSpace,
    cursor: Cursor,
) -> StoreResult<Option<borough_kv::Watch>> {
    db.run("scheduler_watch", Idempotency::ReadOnly, |tx, _| async move {
        let watch = journal_watch(&tx, space).await?;
        let behind = journal_head(&tx, space).await? > cursor;
        Ok::<_, StoreError>(Some(watch).filter(|_| !behind))
    })
    .await
}
