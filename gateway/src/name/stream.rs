//! The stream of endpoints: first the present ones, then the changes, in order.
//!
//! The journal keeps the order of commits, and a task's row never publishes an incarnation again after its withdrawal.
//! A watcher that has seen a withdrawal therefore never sees that incarnation again.

use std::sync::Arc;

use borough_model::task::Endpoint;
use borough_model::{Delta, Name};
use borough_store::journal::Cursor;
use borough_store::mirror::StoredEndpoint;
use futures::{Stream, StreamExt as _};
use tonic::Status;

use crate::cell::{CellContext, EventSubject};
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

/// One event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum EndpointEvent {
    /// The endpoint serves from now on, as described.
    Published(Arc<Endpoint>),
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
) -> Result<(Vec<Arc<Endpoint>>, Cursor), Status> {
    let (stored, cursor) =
        cell.state(|state| (state.endpoints(filter.user.as_ref(), filter.job.as_ref()), state.cursor()))?;
    let endpoints = stored.iter().filter_map(StoredEndpoint::decoded);
    Ok((endpoints.map(Arc::new).collect(), cursor))
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
            Ok(FeedItem::Entry(cursor, entry)) => changes_of(&follower, &filter, &entry.deltas, cursor),
            Err(status) => vec![Err(status)],
        };
        futures::stream::iter(stamped)
    });
    Ok(futures::stream::iter(snapshot).chain(changes))
}

fn changes_of(
    cell: &CellContext,
    filter: &EndpointFilter,
    deltas: &[Delta],
    cursor: Cursor,
) -> Vec<Result<StampedEvent, Status>> {
    let change = |delta: &Delta| match delta {
        Delta::Endpoint { endpoint, .. } if filter.wants(&endpoint.user, &endpoint.job) => {
            Some(EndpointEvent::Published(Arc::new(endpoint.clone())))
        }
        Delta::EndpointWithdrawn { user, job, task, .. } if filter.wants(user, job) => {
            let own = deltas.iter().find_map(|delta| match delta {
                Delta::Task { row } if row.id == *task => Some(row.incarnation.0),
                _ => None,
            });
            let known = || cell.mirror.read(|state| state.tasks().get(task).map(|row| row.incarnation.0));
            Some(EndpointEvent::Withdrawn {
                user: user.clone(),
                job: job.clone(),
                index: task.index,
                incarnation: own.or_else(known).unwrap_or(0),
            })
        }
        _ => None,
    };
    let changes: Vec<EndpointEvent> = deltas.iter().filter_map(change).collect();
    let last = changes.len().saturating_sub(1);
    let stamped = |(place, change)| Ok(StampedEvent { change, cursor, more: place < last });
    changes.into_iter().enumerate().map(stamped).collect()
}
