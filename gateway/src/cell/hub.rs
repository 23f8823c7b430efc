//! Passes entries to the watchers that they concern. Thousands of watchers of one job each, such as load balancers,
//! then cost what happens to their jobs, and not each of them what happens in the cell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_model::JournalEntry;
use borough_store::journal::Cursor;
use borough_store::mirror::{MirrorEvent, MirrorState};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::context::CellContext;
use super::index::{EntryNames, EventSubject, names_of};

/// Entries that wait for one watcher. One that is further behind reads on by itself.
const WAITING_MAX: usize = 256;

type EntryAt = (Cursor, Arc<JournalEntry>);

/// The watchers of one cell that name what they watch.
#[derive(Debug, Default)]
pub(crate) struct WatcherHub {
    routes: Mutex<Routes>,
}

#[derive(Debug, Default)]
struct Routes {
    /// Up to where entries were passed on. `None`: nobody follows the journal now.
    position: Option<Cursor>,
    watchers: BTreeMap<u64, mpsc::Sender<EntryAt>>,
    by_subject: BTreeMap<EventSubject, BTreeSet<u64>>,
    next: u64,
}

impl Routes {
    fn remove(&mut self, id: u64, subject: EventSubject) {
        self.watchers.remove(&id);
        if let Some(ids) = self.by_subject.get_mut(&subject) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_subject.remove(&subject);
            }
        }
    }
}

/// One watcher's entries, those after the position at which it began.
pub(crate) struct HubSubscription {
    cell: Arc<CellContext>,
    id: u64,
    subject: EventSubject,
    entries: mpsc::Receiver<EntryAt>,
}

impl HubSubscription {
    /// The next entry. `None`: the watcher was slow, or the journal is followed again. It must read on by itself.
    pub(crate) async fn next(&mut self) -> Option<EntryAt> {
        self.entries.recv().await
    }

    /// An entry that waits, or the position up to which there is none for the watcher. `None` as for `next`.
    pub(crate) fn now(&mut self) -> Option<Result<EntryAt, Cursor>> {
        let position = self.cell.watchers.routes.lock().position?;
        match self.entries.try_recv() {
            Ok(entry) => Some(Ok(entry)),
            Err(mpsc::error::TryRecvError::Empty) => Some(Err(position)),
            Err(mpsc::error::TryRecvError::Disconnected) => None,
        }
    }
}

impl Drop for HubSubscription {
    fn drop(&mut self) {
        self.cell.watchers.routes.lock().remove(self.id, self.subject);
    }
}

/// Ends the passing on when nobody follows the journal any more.
struct Following<'a>(&'a WatcherHub);

impl Drop for Following<'_> {
    fn drop(&mut self) {
        let mut routes = self.0.routes.lock();
        routes.position = None;
        // Their watchers read on by themselves.
        routes.watchers.clear();
        routes.by_subject.clear();
    }
}

/// Follows the mirror of a cell for its watchers and its index of events. Does not end.
pub(super) async fn entries_follow(cell: Arc<CellContext>) {
    cell.mirror.ready().await;
    loop {
        let (after, mut subscription) = cell.mirror.subscribe_with(MirrorState::cursor);
        cell.events.begin(after);
        let _following = cell.watchers.begin(after);
        while let Some(MirrorEvent::Entry { cursor, entry }) = subscription.next().await {
            let (mut names, refreshed) =
                cell.mirror.read(|state| (names_of(state, &entry), refreshed_of(state, &entry, cursor)));
            cell.events.add(cursor, &names);
            names.extend(refreshed);
            cell.watchers.pass_on(cursor, &entry, &names);
        }
        // The mirror was read again, or was faster than this.
        tokio::task::yield_now().await;
    }
}

/// The names of jobs whose endpoints show the drain of their node in an entry. Watchers follow them, events do not.
fn refreshed_of(state: &MirrorState, entry: &JournalEntry, cursor: Cursor) -> EntryNames {
    let mut refreshed = EntryNames::default();
    match state.jobs_refreshed(entry, cursor) {
        Ok(jobs) => {
            for row in jobs.iter().filter_map(|job| state.jobs().get(job)) {
                refreshed.job(&row.user, &row.name);
            }
        }
        // Each watcher finds out by itself.
        Err(_) => refreshed.nameless = true,
    }
    refreshed
}

impl WatcherHub {
    /// Counts the watchers.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.routes.lock().by_subject.values().map(BTreeSet::len).sum()
    }

    /// Ends the passing on until the next entry.
    #[cfg(test)]
    pub(crate) fn interrupt(&self) {
        drop(Following(self));
    }

    /// Returns true if entries are passed on now.
    pub(crate) fn is_followed(&self) -> bool {
        self.routes.lock().position.is_some()
    }

    fn begin(&self, after: Cursor) -> Following<'_> {
        self.routes.lock().position = Some(after);
        Following(self)
    }

    fn pass_on(&self, cursor: Cursor, entry: &Arc<JournalEntry>, names: &EntryNames) {
        let mut routes = self.routes.lock();
        let routes = &mut *routes;
        routes.position = Some(cursor);
        let ids: BTreeSet<u64> = if routes.watchers.is_empty() {
            return;
        } else if names.nameless {
            routes.watchers.keys().copied().collect()
        } else {
            let of = |subject: &EventSubject| routes.by_subject.get(subject);
            names.subjects.iter().filter_map(of).flatten().copied().collect()
        };
        for id in ids {
            let full = routes.watchers.get(&id).is_some_and(|watcher| {
                matches!(
                    watcher.try_send((cursor, Arc::clone(entry))),
                    Err(mpsc::error::TrySendError::Full(_))
                )
            });
            if full {
                // The watcher sees the end of its entries, once it has read those that wait.
                routes.watchers.remove(&id);
            }
        }
    }

    /// Watches entries that concern `subject`. Returns the position after which they begin; `None` if nobody follows
    /// the journal now.
    pub(crate) fn subscribe(
        cell: &Arc<CellContext>,
        subject: EventSubject,
    ) -> Option<(Cursor, HubSubscription)> {
        let (sender, entries) = mpsc::channel(WAITING_MAX);
        let mut routes = cell.watchers.routes.lock();
        let position = routes.position?;
        let id = routes.next;
        routes.next = id.saturating_add(1);
        routes.watchers.insert(id, sender);
        routes.by_subject.entry(subject).or_default().insert(id);
        Some((position, HubSubscription { cell: Arc::clone(cell), id, subject, entries }))
    }
}
