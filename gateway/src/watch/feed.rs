//! The entries of a cell after a position: from memory if it has them, otherwise from the store's journal, and then as
//! they are committed. The feed has no gaps or repetition, however slow its reader is.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::JournalEntry;
use borough_store::StoreError;
use borough_store::journal::{Cursor, journal_tail};
use borough_store::mirror::{MirrorEvent, MirrorSubscription, Resume};
use futures::Stream;
use tonic::Status;

use crate::cell::{CellContext, EventSubject, HubSubscription, WatcherHub};
use crate::status::{status_from_store, status_unavailable, status_with};

/// Entries of a page read from the store.
const PAGE_ENTRIES: usize = 512;
/// Silence after which a bookmark is sent.
const BOOKMARK_AFTER: Duration = Duration::from_secs(10);
/// How long a position ahead of the mirror is waited for.
const AHEAD_WAIT: Duration = Duration::from_secs(5);

/// One item of a feed.
#[derive(Clone, Debug)]
pub enum FeedItem {
    /// An entry and its position.
    Entry(Cursor, Arc<JournalEntry>),
    /// Nothing has happened for a while. Everything up to the position was sent.
    Bookmark(Cursor),
}

/// Streams what there is after `after`, for as long as the reader reads: everything, or at least what concerns
/// `subject`. Ends with `OUT_OF_RANGE` if entries are gone; the reader must then list again.
pub fn feed(
    cell: Arc<CellContext>,
    after: Cursor,
    subject: Option<EventSubject>,
) -> impl Stream<Item = Result<FeedItem, Status>> + Send {
    async_stream::stream! {
        let mut after = after;
        loop {
            // Before the backlog is taken, which then reaches as far as this begins, or further.
            let watched = subject.and_then(|subject| WatcherHub::subscribe(&cell, subject));
            let (backlog, subscription) = match step(&cell, after).await {
                Ok(found) => found,
                Err(status) => {
                    yield Err(status);
                    return;
                }
            };
            for (cursor, entry) in backlog {
                after = cursor;
                yield Ok(FeedItem::Entry(cursor, entry));
            }
            let Some(subscription) = subscription else { continue };
            // Nobody passes entries on at the moment, so that the watcher gets all until somebody does.
            let unfiltered = subject.is_some() && watched.is_none();
            let mut source = match watched {
                Some((_, watched)) => {
                    // Unread, it would keep the last entries in memory.
                    drop(subscription);
                    FeedSource::Watched(watched)
                }
                None => FeedSource::All(subscription),
            };
            // The reader was slow, or the mirror began again, at the end: continue at the reader's position.
            while let Some(item) = source.next(after).await {
                match item {
                    FeedItem::Entry(cursor, _) if cursor <= after => continue,
                    FeedItem::Entry(cursor, _) | FeedItem::Bookmark(cursor) => after = after.max(cursor),
                }
                yield Ok(item);
                if unfiltered && cell.watchers.is_followed() {
                    break;
                }
            }
        }
    }
}

/// Where the entries from now on come from.
enum FeedSource {
    /// All of the cell's.
    All(MirrorSubscription),
    /// Those that concern what is watched.
    Watched(HubSubscription),
}

impl FeedSource {
    /// The next entry, or a bookmark if there is none for a while. `None`: the reader must continue at its position.
    async fn next(&mut self, after: Cursor) -> Option<FeedItem> {
        match self {
            Self::All(subscription) => {
                match tokio::time::timeout(BOOKMARK_AFTER, subscription.next()).await {
                    Err(_) => Some(FeedItem::Bookmark(after)),
                    Ok(Some(MirrorEvent::Entry { cursor, entry })) => Some(FeedItem::Entry(cursor, entry)),
                    Ok(Some(MirrorEvent::Resync) | None) => None,
                }
            }
            Self::Watched(watched) => {
                let entry = match tokio::time::timeout(BOOKMARK_AFTER, watched.next()).await {
                    Ok(entry) => entry?,
                    Err(_) => match watched.now()? {
                        Ok(entry) => entry,
                        Err(position) => return Some(FeedItem::Bookmark(after.max(position))),
                    },
                };
                Some(FeedItem::Entry(entry.0, entry.1))
            }
        }
    }
}

type FeedStep = (Vec<(Cursor, Arc<JournalEntry>)>, Option<MirrorSubscription>);

/// The next entries after `after`, with a subscription if they reach the present.
async fn step(cell: &CellContext, after: Cursor) -> Result<FeedStep, Status> {
    match cell.mirror.resume(after) {
        Resume::Ready { backlog, subscription } => Ok((backlog, Some(subscription))),
        Resume::Part { backlog } => Ok((backlog, None)),
        Resume::TooOld => Ok((entries_shown(cell, after).await?, None)),
        Resume::Ahead => {
            // A later epoch of the store: one that this gateway has yet to see, or a position of another store. The
            // store refuses the latter.
            if after.store_epoch == cell.mirror.cursor().store_epoch {
                position_check(cell, after).await?;
            } else {
                entries_stored(cell, after).await?;
            }
            mirror_reaches(cell, after).await?;
            Ok((Vec::new(), None))
        }
        Resume::ForeignEpoch { current } => {
            let message = format!("{after} belongs to another epoch of the store than {current}; list again");
            Err(status_with(tonic::Code::OutOfRange, "CURSOR_FOREIGN", message, Default::default()))
        }
    }
}

/// Refuses a position that the store itself has not reached. It is of another history, such as that of a store whose
/// backup this one is, and would later be mistaken for one of this history.
async fn position_check(cell: &CellContext, after: Cursor) -> Result<(), Status> {
    let read = cell.db.run("watch_position", Idempotency::ReadOnly, |tx, _| async move {
        Ok::<_, StoreError>(tx.read_version().await?)
    });
    let version = read.await.map_err(|error| status_from_store(&error))?;
    if after.stamp.version() <= version {
        return Ok(());
    }
    let message =
        format!("{after} is ahead of the store, so it belongs to another history of it; list again");
    Err(status_with(tonic::Code::OutOfRange, "CURSOR_FOREIGN", message, Default::default()))
}

/// Waits until the mirror has the position.
async fn mirror_reaches(cell: &CellContext, position: Cursor) -> Result<(), Status> {
    match tokio::time::timeout(AHEAD_WAIT, cell.mirror.wait_for(position)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(status_from_store(&error)),
        Err(_) => Err(status_unavailable("BEHIND", "this gateway has not seen that position yet; try again")),
    }
}

/// The next entries of the store that the mirror has as well. The store may be ahead of it, and what an entry is about
/// is looked up in the mirror: it would seem to be forgotten.
pub(super) async fn entries_shown(
    cell: &CellContext,
    after: Cursor,
) -> Result<Vec<(Cursor, Arc<JournalEntry>)>, Status> {
    let entries = entries_stored(cell, after).await?;
    if let Some((first, _)) = entries.first() {
        mirror_reaches(cell, *first).await?;
    }
    let shown = cell.mirror.cursor();
    Ok(entries.into_iter().take_while(|(cursor, _)| *cursor <= shown).collect())
}

async fn entries_stored(
    cell: &CellContext,
    after: Cursor,
) -> Result<Vec<(Cursor, Arc<JournalEntry>)>, Status> {
    let space = &cell.space;
    let page = cell.db.run("watch_read", Idempotency::ReadOnly, |tx, _| async move {
        journal_tail(&tx, space, after, PAGE_ENTRIES).await
    });
    let page = page.await.map_err(|error| status_from_store(&error))?;
    Ok(page.entries.into_iter().map(|(cursor, entry)| (cursor, Arc::new(entry))).collect())
}
