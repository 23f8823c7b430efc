//! Reads everything that a batch is decided on at one version: the journal up to it, the gate, and the leases.

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

/// What was read at one version. With the entries applied, a snapshot is complete as of that version.
#[derive(Debug)]
pub(crate) struct CellRead {
    /// Placements decided on this read are committed at this version.
    pub version: Version,
    /// Entries after the cursor, in order.
    pub entries: Vec<Arc<JournalEntry>>,
    /// The cursor for the next read.
    pub next: Cursor,
    /// The cell's gate at the version. A commit at it needs the proof that the gate was open.
    pub gate: GateRead,
    /// The requested leases at the version.
    pub leases: BTreeMap<LeaseKey, Option<LeaseRow>>,
}

/// Reads everything after `cursor`. [`StoreError::JournalTrimmed`] and [`StoreError::ForeignEpoch`] mean that the cell
/// must be listed again.
pub(crate) async fn cell_read(
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

/// The present rows of some tasks. A decision on them is valid if they are the rows that were planned on: the revision
/// shows that, and its guard keeps it so.
pub(crate) async fn rows_read(
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

/// A watch that ends when there may be entries after `cursor`; `None` if there are some already.
pub(crate) async fn cell_watch(
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
