//! The stream of endpoints: first the present ones, then the changes, in order.
//!
//! The journal keeps the order of commits, and a task's row never publishes an incarnation again after its withdrawal.
//! A watcher that has seen a withdrawal therefore never sees that incarnation again.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::task::Endpoint;
use borough_model::{Delta, JournalEntry, Name, TaskId};
use borough_store::journal::Cursor;
use borough_store::mirror::{EndpointFacts, FactsForgotten, MirrorState, StoredEndpoint, StoredSpec};
use futures::{Stream, StreamExt as _};
use tonic::Status;

use crate::cell::{CellContext, EventSubject};
use crate::status::status_with;
use crate::watch::{FeedItem, feed};

/// Selects endpoints. An absent field matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointFilter {
    pub user: Option<Name>,
    pub job: Option<Name>,
}

impl EndpointFilter {
    fn subject(&self) -> Option<EventSubject> {
        let job = self.job.as_ref().map(|job| EventSubject::job(job.as_str()));
        job.or_else(|| self.user.as_ref().map(|user| EventSubject::user(user.as_str())))
    }

    fn wants(&self, user: &Name, job: &Name) -> bool {
        self.user.as_ref().is_none_or(|wanted| wanted == user)
            && self.job.as_ref().is_none_or(|wanted| wanted == job)
    }
}

/// An endpoint with what its job and its node add to it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownEndpoint {
    pub endpoint: Endpoint,
    /// The labels of its job.
    pub labels: Arc<BTreeMap<String, String>>,
    /// Whether an operator wants its node empty.
    pub draining: bool,
}

/// Reads the labels of specs. Endpoints come by jobs, so that it decodes each spec once.
#[derive(Default)]
pub(super) struct LabelReader {
    last: Option<(StoredSpec, Arc<BTreeMap<String, String>>)>,
}

impl LabelReader {
    /// The endpoint with its facts. Decodes, so that it is called without the lock of the mirror.
    pub(super) fn shown(&mut self, endpoint: Endpoint, facts: EndpointFacts) -> ShownEndpoint {
        let EndpointFacts { spec, draining } = facts;
        let known = self.last.as_ref().zip(spec.as_ref());
        let labels = match known.filter(|((last, _), spec)| last.is_same(spec)) {
            Some(((_, labels), _)) => Arc::clone(labels),
            None => {
                let decoded = spec.as_ref().and_then(|spec| spec.decoded(&endpoint.job));
                let labels = Arc::new(decoded.map(|spec| spec.labels).unwrap_or_default());
                self.last = spec.map(|spec| (spec, Arc::clone(&labels)));
                labels
            }
        };
        ShownEndpoint { endpoint, labels, draining }
    }
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum EndpointEvent {
    /// The endpoint serves from now on, as described.
    Published(Arc<ShownEndpoint>),
    /// The endpoint no longer serves.
    Withdrawn {
        user: Name,
        job: Name,
        index: u32,
        /// The attempt that served; 0 if this gateway no longer knows it.
        incarnation: u64,
    },
    /// The snapshot is complete, or nothing has changed for a while.
    Bookmark,
}

/// The present endpoints, with their position in the journal.
///
/// # Errors
/// The gateway has not read the cell yet.
pub fn endpoints_now(
    cell: &CellContext,
    filter: &EndpointFilter,
) -> Result<(Vec<Arc<ShownEndpoint>>, Cursor), Status> {
    let (user, job) = (filter.user.as_ref(), filter.job.as_ref());
    let (stored, cursor) = cell.state(|state| {
        let (stored, _) = state.endpoints_part(user, job, None, usize::MAX);
        (with_facts(state, stored), state.cursor())
    })?;
    let mut labels = LabelReader::default();
    let shown =
        stored.into_iter().filter_map(|(_, stored, facts)| Some(labels.shown(stored.decoded()?, facts)));
    Ok((shown.map(Arc::new).collect(), cursor))
}

/// Present endpoints with what their jobs and nodes add to them now.
pub(super) fn with_facts(
    state: &MirrorState,
    endpoints: Vec<(TaskId, StoredEndpoint)>,
) -> Vec<(TaskId, StoredEndpoint, EndpointFacts)> {
    let facts = |(task, stored)| (task, stored, state.endpoint_facts_now(task));
    endpoints.into_iter().map(facts).collect()
}

/// A change, with its position in the order of changes.
#[derive(Clone, Debug, PartialEq)]
pub struct StampedEvent {
    pub change: EndpointEvent,
    /// The position of its commit, or of the snapshot.
    pub cursor: Cursor,
    /// More changes of the same commit (or snapshot) follow. A watch resumed from here would miss them.
    pub more: bool,
}

/// Streams endpoints from `resume` on, or from a snapshot.
pub fn endpoint_changes(
    cell: Arc<CellContext>,
    filter: EndpointFilter,
    resume: Option<Cursor>,
) -> Result<impl Stream<Item = Result<StampedEvent, Status>> + Send, Status> {
    let (snapshot, after) = match resume {
        // A gateway that has not read the cell refuses.
        Some(after) => cell.state(|_| (Vec::new(), after))?,
        None => {
            let (now, cursor) = endpoints_now(&cell, &filter)?;
            let stamped = |change, more| Ok(StampedEvent { change, cursor, more });
            let published = now.into_iter().map(|endpoint| stamped(EndpointEvent::Published(endpoint), true));
            let complete = std::iter::once(stamped(EndpointEvent::Bookmark, false));
            (published.chain(complete).collect(), cursor)
        }
    };
    let follower = Arc::clone(&cell);
    let changes = feed(cell, after, filter.subject()).flat_map(move |item| {
        let stamped: Vec<Result<StampedEvent, Status>> = match item {
            Ok(FeedItem::Bookmark(cursor)) => {
                vec![Ok(StampedEvent { change: EndpointEvent::Bookmark, cursor, more: false })]
            }
            Ok(FeedItem::Entry(cursor, entry)) => match changes_of(&follower, &filter, &entry, cursor) {
                Ok(changes) => stamped(changes, cursor).map(Ok).collect(),
                Err(forgotten) => vec![Err(list_again(forgotten))],
            },
            Err(status) => vec![Err(status)],
        };
        futures::stream::iter(stamped)
    });
    Ok(futures::stream::iter(snapshot).chain(changes))
}

/// The changes of one entry. They share its position, and all except the last say that more follow.
fn stamped(changes: Vec<EndpointEvent>, cursor: Cursor) -> impl Iterator<Item = StampedEvent> {
    let last = changes.len().saturating_sub(1);
    let stamped = move |(place, change)| StampedEvent { change, cursor, more: place < last };
    changes.into_iter().enumerate().map(stamped)
}

fn list_again(forgotten: FactsForgotten) -> Status {
    let message = format!("{forgotten}; list again");
    status_with(tonic::Code::OutOfRange, "CURSOR_FORGOTTEN", message, Default::default())
}

/// What an entry changes: first by its endpoints, then those whose labels or node it changes.
fn changes_of(
    cell: &CellContext,
    filter: &EndpointFilter,
    entry: &JournalEntry,
    cursor: Cursor,
) -> Result<Vec<EndpointEvent>, FactsForgotten> {
    let deltas = &entry.deltas;
    let concerns = |delta: &Delta| match delta {
        Delta::Endpoint { endpoint, .. } => filter.wants(&endpoint.user, &endpoint.job),
        Delta::EndpointWithdrawn { user, job, .. } => filter.wants(user, job),
        Delta::Job { row, spec: Some(_) } => filter.wants(&row.user, &row.name),
        Delta::Node { .. } => true,
        _ => false,
    };
    if !deltas.iter().any(concerns) {
        return Ok(Vec::new());
    }
    let mut labels = LabelReader::default();
    let (looks, refreshed) = cell.mirror.read(|state| {
        let looks: Vec<EndpointLook<'_>> = deltas
            .iter()
            .filter(|delta| concerns(delta))
            .filter_map(|delta| look(state, deltas, delta, cursor))
            .collect();
        (looks, state.endpoints_refreshed(entry, cursor))
    });
    let mut changes: Vec<EndpointEvent> = looks
        .into_iter()
        .map(|look| match look {
            EndpointLook::Published(endpoint, facts) => {
                EndpointEvent::Published(Arc::new(labels.shown(endpoint.clone(), facts)))
            }
            EndpointLook::Withdrawn(gone) => gone,
        })
        .collect();
    let refreshed = refreshed?.into_iter().filter_map(|(_, stored, facts)| Some((stored.decoded()?, facts)));
    let wanted = refreshed.filter(|(endpoint, _)| filter.wants(&endpoint.user, &endpoint.job));
    changes.extend(
        wanted.map(|(endpoint, facts)| EndpointEvent::Published(Arc::new(labels.shown(endpoint, facts)))),
    );
    Ok(changes)
}

/// What a delta needs of the mirror. It is read under the lock, and decoded without.
enum EndpointLook<'d> {
    Published(&'d Endpoint, EndpointFacts),
    Withdrawn(EndpointEvent),
}

fn look<'d>(
    state: &MirrorState,
    deltas: &[Delta],
    delta: &'d Delta,
    cursor: Cursor,
) -> Option<EndpointLook<'d>> {
    match delta {
        Delta::Endpoint { endpoint, .. } => {
            Some(EndpointLook::Published(endpoint, state.endpoint_facts(endpoint, cursor)))
        }
        Delta::EndpointWithdrawn { user, job, task, .. } => {
            let own = deltas.iter().find_map(|delta| match delta {
                Delta::Task { row } if row.id == *task => Some(row.incarnation.0),
                _ => None,
            });
            let known = || state.tasks().get(task).map(|row| row.incarnation.0);
            Some(EndpointLook::Withdrawn(EndpointEvent::Withdrawn {
                user: user.clone(),
                job: job.clone(),
                index: task.index,
                incarnation: own.or_else(known).unwrap_or(0),
            }))
        }
        _ => None,
    }
}
