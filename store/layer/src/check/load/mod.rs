//! Reads a whole cell: in one transaction if it is small, otherwise in chunks at different versions.
//!
//! A chunk is read in the same transaction as the tail of the journal, and the rows read before are brought to that
//! version first. After each chunk, all rows therefore belong to one position. The journal's deltas bring forward the
//! rows that it records and the indexes that follow from them. Gates of jobs and results of requests do not follow from
//! deltas; they are read again at the end if an entry may have changed them. A chunk takes each index entry as it is
//! stored, so a wrong entry stays wrong and is found.
//!
//! Memory: every row of the cell once, and 40 bytes for each row that the journal records.

mod chunk;
mod follow;
mod forward;
mod last;
mod table;

use borough_kv::{Database, Transaction};

use self::chunk::{RowChunk, chunk_read};
use self::follow::JournalFollower;
#[cfg(test)]
pub(crate) use self::forward::delta_apply;
use self::last::last_read;
use self::table::{ChunkedKind, tables_read};
use super::CellRows;
use super::journal::suspects;
use crate::error::StoreResult;
use crate::journal::{journal_floor, journal_tail};
use crate::keys::CellSpace;
use crate::row::Cursor;

/// Rows of a chunk by default.
pub const LOAD_CHUNK_ROWS: usize = 2_000;
/// Entries of the journal per page.
const PAGE_ENTRIES: usize = 1_024;
/// The most differing rows that are reported with their journal record.
const RECORDS_MAX: usize = 100;

/// The progress of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadProgress {
    pub rows: u64,
    pub entries: u64,
}

/// Supplies chunks of a kind's rows, and brings the rows read before to the version of the chunk.
trait RowSource {
    /// The rows after the key `after`.
    async fn chunk<K: ChunkedKind>(
        &mut self,
        rows: &mut CellRows,
        after: Option<Vec<u8>>,
    ) -> StoreResult<RowChunk<K>>;
}

/// One transaction: everything is at its version, so a kind is one chunk.
struct SnapshotSource<'a> {
    tx: &'a Transaction,
    space: &'a CellSpace,
}

impl RowSource for SnapshotSource<'_> {
    async fn chunk<K: ChunkedKind>(
        &mut self,
        _: &mut CellRows,
        after: Option<Vec<u8>>,
    ) -> StoreResult<RowChunk<K>> {
        chunk_read(self.tx, self.space, after, 0).await
    }
}

/// Reads everything in one transaction, without conflicts: for cells that can be read in five seconds.
pub async fn cell_rows_read(tx: &Transaction, space: &CellSpace) -> StoreResult<CellRows> {
    let mut rows = CellRows::default();
    journal_read(tx, space, &mut rows, |rows, cursor, entry| rows.journal_record.entry(cursor, entry))
        .await?;
    tables_read(&mut SnapshotSource { tx, space }, &mut rows).await?;
    last_read(tx, space).await?.put(&mut rows);
    let suspects = suspects(&rows);
    if !suspects.is_empty() {
        journal_read(tx, space, &mut rows, |rows, _, entry| {
            rows.journal_record.records_keep(&suspects, entry)
        })
        .await?;
    }
    Ok(rows)
}

/// Reads a cell of any size, in chunks of `chunk_rows`, while others change it. Returns its rows at one position of the
/// journal, and that position. Calls `progress` after every chunk.
///
/// Fails with [`StoreError::JournalTrimmed`](crate::StoreError::JournalTrimmed) if the journal is trimmed faster than
/// the cell is read: raise its retention, and begin again.
pub async fn cell_rows_load(
    db: &Database,
    space: &CellSpace,
    chunk_rows: usize,
    progress: impl FnMut(LoadProgress),
) -> StoreResult<(CellRows, Cursor)> {
    let mut rows = CellRows::default();
    let mut follower = JournalFollower::begin(db, space, chunk_rows, progress).await?;
    rows.journal_record.complete = follower.is_complete();
    follower.history_read(&mut rows).await?;
    tables_read(&mut follower, &mut rows).await?;
    let at = follower.finish(&mut rows).await?;
    let suspects: Vec<_> = suspects(&rows).into_iter().take(RECORDS_MAX).collect();
    if !suspects.is_empty() {
        follow::records_read(db, space, at, &mut rows, &suspects).await?;
    }
    Ok((rows, at))
}

/// Where the journal begins, and whether it was never trimmed.
async fn journal_begin(tx: &Transaction, space: &CellSpace) -> StoreResult<Option<(Cursor, bool)>> {
    let gate = crate::keys::read_snapshot(tx, space, &crate::keys::CellGateKey {}).await?;
    let Some(gate) = gate else { return Ok(None) };
    let floor = journal_floor(tx, space).await?.map(|floor| floor.trimmed_to);
    let floor = floor.filter(|floor| floor.store_epoch == gate.store_epoch);
    let complete = floor.is_none() && gate.store_epoch <= 1;
    Ok(Some((floor.unwrap_or_else(|| Cursor::start(gate.store_epoch)), complete)))
}

/// Calls `each` with every kept entry, at the transaction's version.
async fn journal_read(
    tx: &Transaction,
    space: &CellSpace,
    rows: &mut CellRows,
    each: impl Fn(&mut CellRows, Cursor, &borough_model::JournalEntry),
) -> StoreResult<()> {
    let Some((mut after, complete)) = journal_begin(tx, space).await? else { return Ok(()) };
    rows.journal_record.complete = complete;
    loop {
        let page = journal_tail(tx, space, after, PAGE_ENTRIES).await?;
        page.entries.iter().for_each(|(cursor, entry)| each(rows, *cursor, entry));
        after = page.next;
        if !page.more {
            return Ok(());
        }
    }
}
