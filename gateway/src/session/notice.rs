//! Notifies sessions of changed tasks. One follower of the journal per cell passes each change to the sessions that it
//! concerns. These are the session of the node in the row, and those whose agents have an attempt of the task. A
//! session decides by the rows at the time when it looks, so one notice may cover several changes of a task.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_model::{Delta, JournalEntry, TaskId};
use borough_store::mirror::MirrorEvent;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::registry::RegisteredSession;
use crate::cell::CellContext;

/// What a session has yet to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noticed {
    /// Changes were missed: look at everything.
    pub all: bool,
    /// The tasks that changed.
    pub tasks: BTreeSet<TaskId>,
}

/// The notices of one session.
#[derive(Debug, Default)]
pub struct Notices {
    noticed: Mutex<Noticed>,
    notified: Notify,
}

impl Notices {
    /// Notes a changed task.
    pub fn task(&self, task: TaskId) {
        let fresh = {
            let mut noticed = self.noticed.lock();
            let idle = !noticed.all && noticed.tasks.is_empty();
            noticed.tasks.insert(task);
            idle
        };
        if fresh {
            self.notified.notify_one();
        }
    }

    /// Notes that anything may have changed.
    pub fn all(&self) {
        self.noticed.lock().all = true;
        self.notified.notify_one();
    }

    /// Takes what was noted.
    pub fn take(&self) -> Noticed {
        std::mem::take(&mut *self.noticed.lock())
    }

    /// Waits for a notice and takes it.
    pub async fn next(&self) -> Noticed {
        loop {
            let noticed = self.take();
            if noticed != Noticed::default() {
                return noticed;
            }
            self.notified.notified().await;
        }
    }
}

/// Which sessions' agents have an attempt of a task.
#[derive(Default)]
pub struct Holders {
    by_task: Mutex<BTreeMap<TaskId, Vec<Arc<RegisteredSession>>>>,
}

impl Holders {
    /// Records that the agent of `session` has an attempt of each of `tasks`.
    pub fn hold(&self, session: &Arc<RegisteredSession>, tasks: impl IntoIterator<Item = TaskId>) {
        let mut by_task = self.by_task.lock();
        for task in tasks {
            let holders = by_task.entry(task).or_default();
            if holders.iter().all(|holder| holder.id != session.id) {
                holders.push(Arc::clone(session));
            }
        }
    }

    /// Records that the agent of `session` has no attempt of these tasks any more.
    pub fn release(&self, session: &RegisteredSession, tasks: impl IntoIterator<Item = TaskId>) {
        let mut by_task = self.by_task.lock();
        for task in tasks {
            if let Some(holders) = by_task.get_mut(&task) {
                holders.retain(|holder| holder.id != session.id);
                if holders.is_empty() {
                    by_task.remove(&task);
                }
            }
        }
    }

    /// The sessions whose agents have an attempt of `task`.
    pub fn of(&self, task: TaskId) -> Vec<Arc<RegisteredSession>> {
        self.by_task.lock().get(&task).cloned().unwrap_or_default()
    }
}

/// Passes every change of a task to the sessions that it concerns, without end.
pub async fn notices_follow(cell: Arc<CellContext>) {
    loop {
        let mut subscription = cell.mirror.subscribe();
        // This covers changes before the subscription.
        cell.sessions.all().iter().for_each(|session| session.notices.all());
        while let Some(event) = subscription.next().await {
            match event {
                MirrorEvent::Entry { entry, .. } => entry_notice(&cell, &entry),
                MirrorEvent::Resync => break,
            }
        }
    }
}

fn entry_notice(cell: &CellContext, entry: &JournalEntry) {
    for delta in &entry.deltas {
        let Delta::Task { row } = delta else { continue };
        let holders = cell.sessions.holders.of(row.id);
        let own = row.node.and_then(|node| cell.sessions.get(node));
        let own = own.filter(|own| holders.iter().all(|holder| holder.id != own.id));
        own.iter().chain(&holders).for_each(|session| session.notices.task(row.id));
    }
}

#[cfg(test)]
mod tests {
    use borough_model::JobId;

    use super::*;
    use crate::session::registry::{Sessions, opening};

    fn task(index: u32) -> TaskId {
        TaskId { job: JobId(1), index }
    }

    #[tokio::test]
    async fn notices_gather_until_they_are_taken() {
        let notices = Notices::default();
        notices.task(task(1));
        notices.task(task(2));
        notices.task(task(1));
        let noticed = notices.next().await;
        assert_eq!((noticed.all, noticed.tasks.len()), (false, 2));
        assert_eq!(notices.take(), Noticed::default());
        notices.task(task(3));
        notices.all();
        assert!(notices.next().await.all);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_a_notice_and_not_before() {
        let notices = Notices::default();
        let wait = notices.next();
        tokio::pin!(wait);
        assert!(tokio::time::timeout(std::time::Duration::from_secs(1), &mut wait).await.is_err());
        notices.task(task(1));
        assert!(wait.await.tasks.contains(&task(1)));
    }

    #[test]
    fn holders_are_those_that_hold() {
        let sessions = Sessions::default();
        let (first, _first) = sessions.open(opening(1, 7));
        let (second, _second) = sessions.open(opening(2, 8));
        let ids = |index| sessions.holders.of(task(index)).iter().map(|holder| holder.id).collect::<Vec<_>>();
        sessions.holders.hold(&first, [task(1), task(1), task(2)]);
        sessions.holders.hold(&second, [task(1)]);
        assert_eq!(ids(1), [7, 8]);
        sessions.holders.release(&first, [task(1), task(2), task(3)]);
        assert_eq!(ids(1), [8]);
        assert!(ids(2).is_empty());
    }
}
