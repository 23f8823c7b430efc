//! Reads everything that a batch is decided on at one version: the journal up to it, the gate, and the leases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_kv::{Database, Idempotency, Version, Watch};
use borough_model::{JournalEntry, TaskId, TaskRow};
use borough_store::cell::GateRead;
use borough_store::journal::{Cursor, JournalShare, journal_head, journal_tail_shared, journal_watch};
use borough_store::keys::{self, LeaseKey};
use borough_store::lease::{LeaseRow, lease_head, lease_head_watch};
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

/// The position of the cell from which a worker waits.
#[derive(Clone, Debug)]
pub(crate) struct WatchRequest {
    /// The last entry that it has read.
    pub after: Cursor,
    /// The roles of its schedulers, and how often holders of their leases had changed.
    pub heads: Vec<(String, Option<i64>)>,
}

/// Whether there is anything to wait for.
pub(crate) enum Watched {
    Waits(CellWatches),
    /// There are entries already.
    Behind,
    /// Holders of leases have changed already.
    LeasesMoved,
}

/// Watches that end when the journal, or a lease, may have changed.
pub(crate) struct CellWatches {
    pub journal: Watch,
    /// One per role; at least one.
    pub heads: Vec<Watch>,
}

/// Watches the journal and the leases of some roles from a position on.
pub(crate) async fn cell_watch(
    db: &Database,
    space: &CellSpace,
    wanted: &WatchRequest,
) -> StoreResult<Watched> {
    db.run("scheduler_watch", Idempotency::ReadOnly, |tx, _| async move {
        let journal = journal_watch(&tx, space).await?;
        if journal_head(&tx, space).await? > wanted.after {
            return Ok(Watched::Behind);
        }
        let mut heads = Vec::with_capacity(wanted.heads.len());
        for (role, known) in &wanted.heads {
            if *known != Some(lease_head(&tx, space, role).await?) {
                return Ok(Watched::LeasesMoved);
            }
            heads.push(lease_head_watch(&tx, space, role).await?);
        }
        Ok::<_, StoreError>(Watched::Waits(CellWatches { journal, heads }))
    })
    .await
}
