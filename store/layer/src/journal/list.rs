//! Lists a cell that does not fit one transaction: notes a position, reads chunks at different versions, then replays
//! the journal from the position.
//!
//! Each chunk is right at its own version, and every change after the noted position is replayed. Once the tail has
//! reached its end, the state therefore equals the store's. Deltas are absolute and carry revisions, so a delta that a
//! chunk already contains does no harm.

use borough_kv::{Database, Idempotency};
use borough_model::{Delta, JobId, JobSpec, Name};

use super::{Cursor, journal_head};
use crate::error::StoreResult;
use crate::keys::{
    CellSpace, EndpointKey, FederatedJobKey, GangKey, JobNameKey, JobRowKey, JobSpecKey, Key, MemberKey,
    MergedServiceKey, NodeAllocKey, NodeKey, NodeLoadKey, Prefix, TaskKey, chunk_read,
};
use crate::row::EndpointRow;

/// Rows of a chunk by default.
pub const CHUNK_ROWS: usize = 1_000;

/// A row of a listing.
#[derive(Clone, Debug, PartialEq)]
pub enum Listed {
    /// A row, in the form of a journal delta.
    Row(Box<Delta>),
    /// A version of a job's spec.
    Spec { job: JobId, version: u32, spec: Box<JobSpec> },
    /// Which job has a name now.
    JobName { user: Name, name: Name, job: JobId },
}

/// Lists nodes, commitments, loads, jobs, specs, tasks, endpoints, gangs and merged services into `sink`, in chunks of
/// `chunk_rows`, each in its own transaction. Returns a position. The caller must replay the journal from there to its
/// end; the rows are then the cell's state.
pub async fn cell_list_chunked(
    db: &Database,
    space: &CellSpace,
    chunk_rows: usize,
    mut sink: impl FnMut(Listed),
) -> StoreResult<Cursor> {
    let from = db
        .run("cell_list_begin", Idempotency::ReadOnly, |tx, _| async move { journal_head(&tx, space).await });
    let from = from.await?;
    let rows = chunk_rows;
    each_row::<NodeKey>(db, space, rows, |_, row| sink(row_of(Delta::Node { row }))).await?;
    let mut alloc = |key: NodeAllocKey, alloc| sink(row_of(Delta::NodeAlloc { node: key.node, alloc }));
    each_row::<NodeAllocKey>(db, space, rows, &mut alloc).await?;
    let mut load = |key: NodeLoadKey, load| sink(row_of(Delta::NodeLoad { node: key.node, load }));
    each_row::<NodeLoadKey>(db, space, rows, &mut load).await?;
    each_row::<JobRowKey>(db, space, rows, |_, row| sink(row_of(Delta::Job { row: row.into(), spec: None })))
        .await?;
    let mut named = |key: JobNameKey, job| sink(Listed::JobName { user: key.user, name: key.name, job });
    each_row::<JobNameKey>(db, space, rows, &mut named).await?;
    let mut spec = |key: JobSpecKey, spec| {
        sink(Listed::Spec { job: key.job, version: key.version, spec: Box::new(spec) });
    };
    each_row::<JobSpecKey>(db, space, rows, &mut spec).await?;
    each_row::<TaskKey>(db, space, rows, |_, row| sink(row_of(Delta::Task { row }))).await?;
    let mut endpoint = |_, row: EndpointRow| {
        sink(row_of(Delta::Endpoint { endpoint: row.endpoint, revision: row.revision }));
    };
    each_row::<EndpointKey>(db, space, rows, &mut endpoint).await?;
    each_row::<GangKey>(db, space, rows, |_, row| sink(row_of(Delta::Gang { row }))).await?;
    let mut merged = |_, row| sink(row_of(Delta::MergedService { row: Box::new(row) }));
    each_row::<MergedServiceKey>(db, space, rows, &mut merged).await?;
    let mut member = |_, row| sink(row_of(Delta::Member { row: Box::new(row) }));
    each_row::<MemberKey>(db, space, rows, &mut member).await?;
    let mut federated = |_, row| sink(row_of(Delta::FederatedJob { row: Box::new(row) }));
    each_row::<FederatedJobKey>(db, space, rows, &mut federated).await?;
    Ok(from)
}

fn row_of(delta: Delta) -> Listed {
    Listed::Row(Box::new(delta))
}

/// Every row of a kind, in chunks.
async fn each_row<K: Key>(
    db: &Database,
    space: &CellSpace,
    chunk_rows: usize,
    mut sink: impl FnMut(K, K::Value),
) -> StoreResult<()> {
    let mut after: Option<K> = None;
    loop {
        let from = &after;
        let chunk = db.run("cell_list_chunk", Idempotency::ReadOnly, |tx, _| async move {
            chunk_read::<K>(&tx, space, &Prefix::all(), from.clone(), chunk_rows).await
        });
        let (rows, next): (Vec<(K, K::Value)>, Option<K>) = chunk.await?;
        rows.into_iter().for_each(|(key, value)| sink(key, value));
        if next.is_none() {
            return Ok(());
        }
        after = next;
    }
}
