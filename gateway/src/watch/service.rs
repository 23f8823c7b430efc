//! The service over the feed: a stream of changes, and a page of events.

use std::ops::Bound;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::{Delta, JournalEntry};
use borough_proto::v1;
use borough_proto::v1::watch_service_server::WatchService;
use borough_store::journal::{Cursor, journal_before, journal_floor, journal_head};
use borough_store::mirror::MirrorState;
use borough_store::{StoreError, StoreResult};
use futures::{Stream, StreamExt as _};
use tonic::{Code, Request, Response, Status};

use super::change::{JobNames, WatchScope, WatchedChange, change_of, forgotten};
use super::event::{Sentence, actor_named, sentence, with_values};
use super::feed::{FeedItem, feed};
use super::selected::WantedSubjects;
use crate::cell::{Asked, CellContext, Cells, cursor_from_message, cursor_to_message};
use crate::select::selector_checked;
use crate::status::{status_from_store, status_with};

/// Events of an answer if the request does not say.
const EVENTS_DEFAULT: usize = 100;
/// Most events of an answer.
const EVENTS_MAX: usize = 10_000;
/// Deltas of an entry that are looked at under one hold of the mirror's lock.
const PART_DELTAS: usize = 128;
/// Entries of a page read for events.
const PAGE_ENTRIES: usize = 500;

/// Streams changes of jobs, tasks and nodes after a cursor.
#[derive(Clone)]
pub struct WatchServer {
    cells: Arc<Cells>,
}

impl WatchServer {
    /// Serves `cells`.
    pub fn new(cells: Arc<Cells>) -> Self {
        Self { cells }
    }
}

/// How long a list of events waits for the names of what has just begun.
const NAMES_WAIT: Duration = Duration::from_secs(2);

type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl WatchService for WatchServer {
    type WatchStream = WatchStream;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<WatchStream>, Status> {
        let (Asked { cell, message: request }, ongoing) = self.cells.admit_watch(request)?;
        let cell = Arc::clone(cell);
        let now = cell.state(MirrorState::cursor)?;
        let after = request.resume.as_ref().map(cursor_from_message).transpose()?.unwrap_or(now);
        let filter = scope_checked(request.filter.as_ref())?;
        let items = feed(Arc::clone(&cell), after, filter.subjects().next()).flat_map(move |item| {
            let responses: Vec<Result<v1::WatchResponse, Status>> = match item {
                Ok(item) => match responses_of(&cell, &filter, item) {
                    Ok(responses) => responses.into_iter().map(Ok).collect(),
                    // The call ends with it.
                    Err(status) => vec![Err(status)],
                },
                Err(status) => vec![Err(status)],
            };
            futures::stream::iter(responses)
        });
        Ok(Response::new(ongoing.hold(items)))
    }

    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let limit = match usize::try_from(request.limit) {
            Ok(0) | Err(_) => EVENTS_DEFAULT,
            Ok(limit) => limit.min(EVENTS_MAX),
        };
        let filter = scope_checked(request.filter.as_ref())?;
        let answer = events_list(cell, &filter, limit).await.map_err(|error| status_from_store(&error))?;
        Ok(Response::new(answer))
    }
}

fn scope_checked(filter: Option<&v1::WatchFilter>) -> Result<WatchScope, Status> {
    let scope = WatchScope::of(filter);
    selector_checked("filter.selector", scope.selector())?;
    Ok(scope)
}

/// The changes of one item. The changes of one entry share its cursor, and all except the last say that more follow. An
/// entry that refers to forgotten objects is `OUT_OF_RANGE`: it cannot be shown, and must not be skipped silently.
fn responses_of(
    cell: &CellContext,
    filter: &WatchScope,
    item: FeedItem,
) -> Result<Vec<v1::WatchResponse>, Status> {
    let (cursor, entry) = match item {
        FeedItem::Entry(cursor, entry) => (cursor, entry),
        FeedItem::Bookmark(cursor) => return Ok(vec![bookmark(cursor)]),
    };
    let DescribedEntry { changes, actor } = changes_of(cell, filter, &entry).map_err(|gone| {
        let message = format!("the entry at {cursor} is of {gone}, which is forgotten since; list again");
        status_with(Code::OutOfRange, "CURSOR_FORGOTTEN", message, Default::default())
    })?;
    let last = changes.len().saturating_sub(1);
    let response = |(place, DescribedChange { change, sentence })| {
        let (subject, text) = sentence.map(|said| (said.subject, said.text)).unwrap_or_default();
        v1::WatchResponse {
            cursor: Some(cursor_to_message(cursor)),
            more: place < last,
            change: Some(change),
            actor: actor.clone(),
            action: entry.action.clone(),
            at_ms: entry.at_ms,
            subject,
            text,
        }
    };
    Ok(changes.into_iter().enumerate().map(response).collect())
}

/// The changes of an entry, or what it refers to that is forgotten. An entry may have hundreds of deltas, so each hold
/// of the mirror's lock looks at some of them.
fn changes_of(
    cell: &CellContext,
    filter: &WatchScope,
    entry: &JournalEntry,
) -> Result<DescribedEntry, String> {
    let (mut of_entry, names) = (DescribedEntry::default(), JobNames::default());
    for part in entry.deltas.chunks(PART_DELTAS) {
        let of_part: Result<Vec<FoundChange>, String> = cell.mirror.read(|state| {
            if let Some(gone) = part.iter().find_map(|delta| forgotten(state, filter, delta)) {
                return Err(gone);
            }
            let found = part.iter().filter_map(|delta| {
                let change = change_of(cell, state, filter, delta)?;
                let sentence = filter.sentences.then(|| described(state, &names, delta, entry)).flatten();
                Some(FoundChange { change, sentence })
            });
            let found: Vec<FoundChange> = found.collect();
            if of_entry.actor.is_empty() && !found.is_empty() {
                of_entry.actor = actor_named(state, &entry.actor);
            }
            Ok(found)
        });
        of_entry.changes.extend(of_part?.into_iter().map(|found| found.whole(cell)));
    }
    Ok(of_entry)
}

/// What a watcher is sent of an entry.
#[derive(Default)]
struct DescribedEntry {
    changes: Vec<DescribedChange>,
    /// Who made them; empty without a change.
    actor: String,
}

/// A change, with the sentence about it if the watcher asks for sentences.
struct DescribedChange {
    change: v1::watch_response::Change,
    sentence: Option<Sentence>,
}

/// A change as it is found under the mirror's lock, and made whole without it.
struct FoundChange {
    change: WatchedChange,
    sentence: Option<Sentence>,
}

impl FoundChange {
    fn whole(self, cell: &CellContext) -> DescribedChange {
        DescribedChange { change: self.change.whole(cell), sentence: self.sentence }
    }
}

/// The sentence about a delta of an entry, with the values that the entry changed.
fn described(state: &MirrorState, names: &JobNames, delta: &Delta, entry: &JournalEntry) -> Option<Sentence> {
    let values = entry.values.as_deref().unwrap_or_default();
    Some(with_values(sentence(state, names, delta, &entry.action)?, delta, values))
}

fn bookmark(cursor: Cursor) -> v1::WatchResponse {
    let change = Some(v1::watch_response::Change::Bookmark(true));
    v1::WatchResponse { cursor: Some(cursor_to_message(cursor)), change, ..v1::WatchResponse::default() }
}

/// The newest events up to now, oldest first. Reads the journal from its end, until it has enough events.
async fn events_list(
    cell: &CellContext,
    filter: &WatchScope,
    limit: usize,
) -> StoreResult<v1::ListEventsResponse> {
    let space = &cell.space;
    let head = cell.db.run("events_head", Idempotency::ReadOnly, |tx, _| async move {
        let floor = journal_floor(&tx, space).await?;
        Ok::<_, StoreError>((floor.is_some(), journal_head(&tx, space).await?))
    });
    let (trimmed, head) = head.await?;
    // Names are those of the mirror. One that is behind for long does without some.
    drop(tokio::time::timeout(NAMES_WAIT, cell.mirror.wait_for(head)).await);
    let mut names = JobNames::default();
    let mut events: Vec<v1::Event> = Vec::new();
    let (wanted, mut end) = (WantedSubjects::of(cell, filter).await, Bound::Included(head));
    while !wanted.is_none() {
        end = wanted.skip(cell, end);
        let page = cell.db.run("events_read", Idempotency::ReadOnly, |tx, _| async move {
            journal_before(&tx, space, end, PAGE_ENTRIES).await
        });
        let page = page.await?;
        for (cursor, entry) in &page.entries {
            cell.mirror.read(|state| {
                entry.deltas.iter().for_each(|delta| names.learn(state, delta));
                events.extend(events_of(state, &names, filter, *cursor, entry).into_iter().rev());
            });
            if events.len() >= limit {
                break;
            }
        }
        match page.next.filter(|_| events.len() < limit) {
            Some(next) => end = Bound::Excluded(next),
            None => break,
        }
    }
    events.truncate(limit);
    events.reverse();
    Ok(v1::ListEventsResponse { events, cursor: Some(cursor_to_message(head)), trimmed })
}

fn events_of(
    state: &MirrorState,
    names: &JobNames,
    filter: &WatchScope,
    cursor: Cursor,
    entry: &JournalEntry,
) -> Vec<v1::Event> {
    let wanted = entry.deltas.iter().filter(|delta| filter.wants(state, names, delta));
    let event = |sentence: Sentence| v1::Event {
        cursor: Some(cursor_to_message(cursor)),
        at_ms: entry.at_ms,
        actor: actor_named(state, &entry.actor),
        action: entry.action.clone(),
        subject: sentence.subject,
        text: sentence.text,
    };
    wanted.filter_map(|delta| described(state, names, delta, entry).map(event)).collect()
}

#[cfg(test)]
mod tests {
    use borough_model::Incarnation;
    use borough_model::task::{Attempt, EndReason, Exit, StopReason, TaskEvent};
    use borough_store::job::{job_stop, job_tasks_gone, jobs_remove};

    use super::*;
    use crate::cell::tests::{TASK, TestGateway, context, operator_asks};

    /// Reads a watch from the beginning of the journal. Returns the number of changes of tasks, and the code with which
    /// it ends.
    async fn tasks_seen(gateway: &TestGateway) -> (usize, Option<Code>) {
        let request = v1::WatchRequest {
            context: context(0),
            cell: "alpha".to_owned(),
            resume: Some(cursor_to_message(Cursor::start(1))),
            ..v1::WatchRequest::default()
        };
        let server = WatchServer::new(Arc::clone(&gateway.cells));
        let mut items = server.watch(operator_asks(request)).await.unwrap().into_inner();
        let mut tasks = 0;
        while let Some(item) = items.next().await {
            match item.map(|response| response.change) {
                Ok(Some(v1::watch_response::Change::Task(_))) => tasks += 1,
                Ok(Some(v1::watch_response::Change::Bookmark(_))) => return (tasks, None),
                Ok(_) => {}
                Err(status) => return (tasks, Some(status.code())),
            }
        }
        (tasks, None)
    }

    /// Ends the running task and its job. The cell still has both.
    async fn job_end(gateway: &TestGateway) {
        let job = TASK.job;
        gateway.change(async |tx, changes| job_stop(tx, changes, job).await.map(drop)).await;
        let cell = gateway.cells.get("alpha").unwrap();
        let (node, rules) = cell.mirror.read(|state| {
            let spec = state.spec_of(state.jobs().get(&job).unwrap()).unwrap();
            (state.tasks().get(&TASK).unwrap().node.unwrap(), spec.as_ref().into())
        });
        let attempt = Attempt { node, incarnation: Incarnation(1) };
        let exit = Exit {
            reason: EndReason::Stopped,
            code: None,
            signal: Some(15),
            message: String::new(),
            at_ms: 1_000,
            incarnation: attempt.incarnation,
            node: Some(node),
            start_failure: None,
        };
        let stop = TaskEvent::StopRequested { reason: StopReason::JobStopped };
        gateway.task_events(&[stop, TaskEvent::ProcessExited { attempt, exit, released: true, rules }]).await;
        gateway.change(async |tx, changes| job_tasks_gone(tx, changes, job).await.map(drop)).await;
    }

    async fn job_forget(gateway: &TestGateway) {
        gateway.change(async |tx, changes| jobs_remove(tx, changes, &[TASK.job], usize::MAX).await).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_behind_a_forgotten_job_fails_and_skips_nothing() {
        let gateway = TestGateway::new().await;
        assert_eq!(tasks_seen(&gateway).await, (1, None));
        job_end(&gateway).await;
        assert_eq!(tasks_seen(&gateway).await, (2, None));
        job_forget(&gateway).await;
        assert_eq!(tasks_seen(&gateway).await, (0, Some(Code::OutOfRange)));
    }

    /// The first change after a position in a watch of one user.
    async fn first_change(gateway: &TestGateway, user: &str, after: Cursor) -> v1::watch_response::Change {
        let request = v1::WatchRequest {
            context: context(0),
            cell: "alpha".to_owned(),
            resume: Some(cursor_to_message(after)),
            filter: Some(v1::WatchFilter { user: user.to_owned(), ..v1::WatchFilter::default() }),
        };
        let server = WatchServer::new(Arc::clone(&gateway.cells));
        let mut items = server.watch(operator_asks(request)).await.unwrap().into_inner();
        items.next().await.unwrap().unwrap().change.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_of_one_user_reports_that_a_job_is_forgotten() {
        use v1::watch_response::Change;
        let gateway = TestGateway::new().await;
        job_end(&gateway).await;
        let before = gateway.cells.get("alpha").unwrap().mirror.cursor();
        job_forget(&gateway).await;
        let Change::JobRemoved(gone) = first_change(&gateway, "ada", before).await else {
            panic!("the watch yields nothing")
        };
        let id = TASK.job.to_string();
        assert_eq!(gone, v1::JobRemoved { id, user: "ada".to_owned(), job: "web".to_owned() });
        assert_eq!(first_change(&gateway, "ben", before).await, Change::Bookmark(true));
    }

    /// The subjects of the listed events of one user.
    async fn subjects(gateway: &TestGateway, user: &str) -> Vec<String> {
        let message = v1::ListEventsRequest {
            context: context(0),
            cell: "alpha".to_owned(),
            filter: Some(v1::WatchFilter { user: user.to_owned(), ..v1::WatchFilter::default() }),
            limit: 0,
        };
        let server = WatchServer::new(Arc::clone(&gateway.cells));
        let answer = server.list_events(operator_asks(message)).await.unwrap().into_inner();
        answer.events.into_iter().map(|event| event.subject).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_events_of_a_forgotten_job_are_listed_under_its_name() {
        let gateway = TestGateway::new().await;
        job_end(&gateway).await;
        let before = subjects(&gateway, "ada").await;
        assert!(before.contains(&"task ada/web/0".to_owned()), "{before:?}");
        job_forget(&gateway).await;
        let after = subjects(&gateway, "ada").await;
        assert_eq!(after[..before.len()], before, "nothing is left out");
        assert_eq!(after[before.len()..], ["job ada/web".to_owned()]);
        assert!(subjects(&gateway, "ben").await.is_empty());
    }

    /// The newest events are those of a longer list, and a list of few reads a page and not the journal.
    #[tokio::test(start_paused = true)]
    async fn a_short_list_is_the_end_of_a_long_one() {
        let gateway = TestGateway::new().await;
        job_end(&gateway).await;
        let cell = gateway.cells.get("alpha").unwrap();
        let list = async |limit| {
            let scope = WatchScope::of(None);
            events_list(cell, &scope, limit).await.unwrap()
        };
        let all = list(EVENTS_MAX).await;
        assert!(all.events.len() > 3, "{all:?}");
        for limit in 1..all.events.len() {
            let short = list(limit).await;
            assert_eq!(short.events[..], all.events[all.events.len() - limit..], "the newest {limit}");
            assert_eq!(short.cursor, all.cursor);
        }
    }
}
