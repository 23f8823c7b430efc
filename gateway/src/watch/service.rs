//! The service over the feed: a stream of changes, and a page of events.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use borough_kv::Idempotency;
use borough_proto::v1;
use borough_proto::v1::watch_service_server::WatchService;
use borough_store::StoreResult;
use borough_store::journal::{Cursor, journal_floor, journal_tail};
use futures::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

use super::change::{Filter, change_of};
use super::event::{Sentence, sentence};
use super::feed::{FeedItem, feed};
use crate::cell::{CellDoor, Cells, caller_of_read, cursor_from_message, cursor_to_message};
use crate::status::status_from_store;

/// Events of an answer where the request does not say.
const EVENTS_DEFAULT: usize = 100;
/// Most events of an answer.
const EVENTS_MAX: usize = 10_000;
/// Entries of a page read for events.
const PAGE_ENTRIES: usize = 1_000;

/// The room of watches.
#[derive(Clone)]
pub struct WatchRoom {
    cells: Arc<Cells>,
}

impl WatchRoom {
    /// A room over `cells`.
    pub fn new(cells: Arc<Cells>) -> Self {
        Self { cells }
    }
}

type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl WatchService for WatchRoom {
    type WatchStream = WatchStream;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<WatchStream>, Status> {
        let request = request.into_inner();
        caller_of_read(request.context.as_ref())?;
        let door = Arc::clone(self.cells.get(&request.cell)?);
        let now = door.state(borough_store::mirror::MirrorState::cursor)?;
        let after = request.resume.as_ref().map(cursor_from_message).transpose()?.unwrap_or(now);
        let filter = Filter::of(request.filter.as_ref());
        let items = feed(Arc::clone(&door), after).flat_map(move |item| {
            let responses: Vec<Result<v1::WatchResponse, Status>> = match item {
                Ok(item) => responses_of(&door, &filter, item).into_iter().map(Ok).collect(),
                Err(status) => vec![Err(status)],
            };
            futures::stream::iter(responses)
        });
        Ok(Response::new(Box::pin(items)))
    }

    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        let request = request.into_inner();
        caller_of_read(request.context.as_ref())?;
        let door = self.cells.get(&request.cell)?;
        let limit = match usize::try_from(request.limit) {
            Ok(0) | Err(_) => EVENTS_DEFAULT,
            Ok(limit) => limit.min(EVENTS_MAX),
        };
        let filter = Filter::of(request.filter.as_ref());
        let answer = events_list(door, &filter, limit).await.map_err(|error| status_from_store(&error))?;
        Ok(Response::new(answer))
    }
}

/// The changes of one item. Those of one entry share its cursor, and all but the last say that more follow.
fn responses_of(door: &CellDoor, filter: &Filter, item: FeedItem) -> Vec<v1::WatchResponse> {
    let (cursor, entry) = match item {
        FeedItem::Entry(cursor, entry) => (cursor, entry),
        FeedItem::Bookmark(cursor) => return vec![bookmark(cursor)],
    };
    let changes: Vec<v1::watch_response::Change> = door.mirror.read(|state| {
        entry.deltas.iter().filter_map(|delta| change_of(door, state, filter, delta)).collect()
    });
    let last = changes.len().saturating_sub(1);
    let response = |(place, change)| v1::WatchResponse {
        cursor: Some(cursor_to_message(cursor)),
        more: place < last,
        change: Some(change),
        actor: entry.actor.clone(),
        action: entry.action.clone(),
        at_ms: entry.at_ms,
    };
    changes.into_iter().enumerate().map(response).collect()
}

fn bookmark(cursor: Cursor) -> v1::WatchResponse {
    let change = Some(v1::watch_response::Change::Bookmark(true));
    v1::WatchResponse { cursor: Some(cursor_to_message(cursor)), change, ..v1::WatchResponse::default() }
}

/// The newest events up to now, oldest first.
async fn events_list(door: &CellDoor, filter: &Filter, limit: usize) -> StoreResult<v1::ListEventsResponse> {
    let space = &door.space;
    let begin = door
        .db
        .run("events_floor", Idempotency::ReadOnly, |tx, _| async move { journal_floor(&tx, space).await });
    let floor = begin.await?;
    let epoch = door.mirror.cursor().store_epoch;
    let mut after = floor.as_ref().map_or_else(|| Cursor::start(epoch), |floor| floor.trimmed_to);
    let mut events: VecDeque<v1::Event> = VecDeque::new();
    loop {
        let page = door.db.run("events_read", Idempotency::ReadOnly, |tx, _| async move {
            journal_tail(&tx, space, after, PAGE_ENTRIES).await
        });
        let page = page.await?;
        for (cursor, entry) in &page.entries {
            events.extend(door.mirror.read(|state| events_of(door, state, filter, *cursor, entry)));
            while events.len() > limit {
                events.pop_front();
            }
        }
        after = page.next;
        if !page.more {
            break;
        }
    }
    Ok(v1::ListEventsResponse {
        events: events.into(),
        cursor: Some(cursor_to_message(after)),
        trimmed: floor.is_some(),
    })
}

fn events_of(
    door: &CellDoor,
    state: &borough_store::mirror::MirrorState,
    filter: &Filter,
    cursor: Cursor,
    entry: &borough_model::JournalEntry,
) -> Vec<v1::Event> {
    let wanted = entry.deltas.iter().filter(|delta| change_of(door, state, filter, delta).is_some());
    let event = |sentence: Sentence| v1::Event {
        cursor: Some(cursor_to_message(cursor)),
        at_ms: entry.at_ms,
        actor: entry.actor.clone(),
        action: entry.action.clone(),
        subject: sentence.subject,
        text: sentence.text,
    };
    wanted.filter_map(|delta| sentence(state, delta)).map(event).collect()
}
