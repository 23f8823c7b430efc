//! Reads chunks of a live cell, each with the journal's tail up to its version.

use borough_kv::{Database, Idempotency, Transaction};
use borough_model::journal::DeltaKey;
use borough_model::{Delta, JournalEntry};

use super::forward::delta_apply;
use super::last::{Again, again_read, last_read};
use super::{
    CellRows, ChunkedKind, LoadProgress, PAGE_ENTRIES, RowChunk, RowSource, chunk_read, journal_begin,
    journal_tail,
};
use crate::error::{StoreError, StoreResult};
use crate::journal::Page;
use crate::key_kind::KeyKind;
use crate::keys::{CellSpace, Key};
use crate::row::Cursor;

/// The most rows that the last transaction reads again, besides all else in it.
const AGAIN_MAX: usize = 4_000;

/// Follows the journal while chunks are read.
pub(super) struct JournalFollower<'a, P> {
    db: &'a Database,
    space: &'a CellSpace,
    chunk_rows: usize,
    progress: P,
    so_far: LoadProgress,
    /// The journal is read up to here.
    cursor: Cursor,
    complete: bool,
    /// Rows that entries may have changed without recording the new value.
    again: Again,
    requests_begun: bool,
}

impl<'a, P: FnMut(LoadProgress)> JournalFollower<'a, P> {
    /// Begins at the oldest kept entry.
    pub(super) async fn begin(
        db: &'a Database,
        space: &'a CellSpace,
        chunk_rows: usize,
        progress: P,
    ) -> StoreResult<Self> {
        let begin = db.run("cell_load_begin", Idempotency::ReadOnly, |tx, _| async move {
            journal_begin(&tx, space).await
        });
        let begin: StoreResult<_> = begin.await;
        let (cursor, complete) = begin?.ok_or_else(|| StoreError::CellUnknown { cell: space.to_string() })?;
        Ok(Self {
            db,
            space,
            chunk_rows: chunk_rows.max(1),
            progress,
            so_far: LoadProgress::default(),
            cursor,
            complete,
            again: Again::default(),
            requests_begun: false,
        })
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Reads the existing entries before any row, and keeps only their records of rows.
    pub(super) async fn history_read(&mut self, rows: &mut CellRows) -> StoreResult<()> {
        loop {
            let (space, after) = (self.space, self.cursor);
            let page = self.db.run("cell_load_history", Idempotency::ReadOnly, |tx, _| async move {
                journal_tail(&tx, space, after, PAGE_ENTRIES).await
            });
            match page.await {
                Ok(page) => {
                    self.so_far.entries = self.so_far.entries.saturating_add(count(page.entries.len()));
                    page.entries.iter().for_each(|(at, entry)| rows.journal_record.entry(*at, entry));
                    self.cursor = page.next;
                    (self.progress)(self.so_far);
                    if !page.more {
                        return Ok(());
                    }
                }
                // Trimmed while it was read: the rest is enough.
                Err(StoreError::JournalTrimmed { floor, .. }) => {
                    rows.journal_record.complete = false;
                    self.cursor = floor;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Brings the rows forward to the version of a page.
    fn page_apply(&mut self, rows: &mut CellRows, page: Page) {
        self.so_far.entries = self.so_far.entries.saturating_add(count(page.entries.len()));
        for (at, entry) in page.entries {
            rows.journal_record.entry(at, &entry);
            if self.requests_begun {
                again_note(&mut self.again, &entry);
            }
            for delta in entry.deltas {
                delta_apply(rows, at, delta);
            }
        }
        self.cursor = page.next;
    }

    /// Reads the kinds that are not read in chunks, and again the rows that may have changed. Returns the position of
    /// all rows.
    pub(super) async fn finish(&mut self, rows: &mut CellRows) -> StoreResult<Cursor> {
        self.again.requests.extend(requests_odd(rows));
        loop {
            let (space, after, requests) = (self.space, self.cursor, self.requests_begun);
            let again = self.again.with_entries(rows);
            let again = &again;
            let read = self.db.run("cell_load_last", Idempotency::ReadOnly, |tx, _| async move {
                let page = journal_tail(&tx, space, after, PAGE_ENTRIES).await?;
                let mut again = again.clone();
                if requests {
                    page.entries.iter().for_each(|(_, entry)| again_note(&mut again, entry));
                }
                let part = again.part(AGAIN_MAX);
                if page.more {
                    return Ok((page, Again::default(), None, None));
                }
                let reread = again_read(&tx, space, &part).await?;
                let last = if again.len() <= AGAIN_MAX { Some(last_read(&tx, space).await?) } else { None };
                Ok::<_, StoreError>((page, part, Some(reread), last))
            });
            let (page, part, reread, last) = read.await?;
            self.page_apply(rows, page);
            if let Some(reread) = reread {
                reread.put(rows);
            }
            self.again.forget(&part);
            (self.progress)(self.so_far);
            if let Some(last) = last {
                last.put(rows);
                return Ok(self.cursor);
            }
        }
    }
}

impl<P: FnMut(LoadProgress)> RowSource for JournalFollower<'_, P> {
    async fn chunk<K: ChunkedKind>(
        &mut self,
        rows: &mut CellRows,
        after: Option<Vec<u8>>,
    ) -> StoreResult<RowChunk<K>> {
        self.requests_begun |= K::KIND == KeyKind::Request;
        loop {
            let (space, cursor, from, limit) = (self.space, self.cursor, &after, self.chunk_rows);
            let read = self.db.run("cell_load_chunk", Idempotency::ReadOnly, |tx, _| async move {
                chunk_with_tail::<K>(&tx, space, cursor, from.clone(), limit).await
            });
            let (page, chunk) = read.await?;
            self.page_apply(rows, page);
            if let Some(chunk) = chunk {
                self.so_far.rows = self.so_far.rows.saturating_add(count(chunk.rows.len()));
                (self.progress)(self.so_far);
                return Ok(chunk);
            }
        }
    }
}

/// A page of the journal, and a chunk if the page reaches the journal's end.
async fn chunk_with_tail<K: Key>(
    tx: &Transaction,
    space: &CellSpace,
    cursor: Cursor,
    after: Option<Vec<u8>>,
    limit: usize,
) -> StoreResult<(Page, Option<RowChunk<K>>)> {
    let page = journal_tail(tx, space, cursor, PAGE_ENTRIES).await?;
    if page.more {
        return Ok((page, None));
    }
    let chunk = chunk_read(tx, space, after, limit).await?;
    Ok((page, Some(chunk)))
}

/// Reads the journal once more, up to `at`, for its records of `suspects`.
pub(super) async fn records_read(
    db: &Database,
    space: &CellSpace,
    at: Cursor,
    rows: &mut CellRows,
    suspects: &[DeltaKey],
) -> StoreResult<()> {
    let begin =
        db.run(
            "cell_load_begin",
            Idempotency::ReadOnly,
            |tx, _| async move { journal_begin(&tx, space).await },
        );
    let begin: StoreResult<_> = begin.await;
    let Some((mut after, _)) = begin? else { return Ok(()) };
    while after < at {
        let page = db.run("cell_load_words", Idempotency::ReadOnly, |tx, _| async move {
            journal_tail(&tx, space, after, PAGE_ENTRIES).await
        });
        let page: Page = match page.await {
            Ok(page) => page,
            // Trimmed meanwhile: the report lacks a few records.
            Err(StoreError::JournalTrimmed { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let known = page.entries.iter().filter(|(cursor, _)| *cursor <= at);
        known.for_each(|(_, entry)| rows.journal_record.records_keep(suspects, entry));
        after = page.next;
        if !page.more {
            return Ok(());
        }
    }
    Ok(())
}

/// Notes the requests that an entry may have recorded: its own, and those of jobs that were admitted together.
fn again_note(again: &mut Again, entry: &JournalEntry) {
    again.requests.insert(entry.request);
    for delta in &entry.deltas {
        if let Delta::Job { row, .. } = delta {
            again.requests.insert(row.request);
        }
    }
}

/// Requests that disagree with their index: expired between two chunks, or wrong.
fn requests_odd(rows: &CellRows) -> Vec<borough_model::RequestId> {
    let unlisted = rows.requests.keys().copied().filter(|id| !rows.request_is_listed(*id));
    let listed = rows.request_expiries.iter().flat_map(|(&(expires_ms, entry), listed)| {
        listed.requests(entry).into_iter().map(move |id| (id, expires_ms, entry))
    });
    let unknown = listed.filter(|&(id, expires_ms, entry)| !rows.request_expires(id, expires_ms, entry));
    unlisted.chain(unknown.map(|(id, ..)| id)).collect()
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
