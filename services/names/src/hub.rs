//! Wakes those who follow a service when it changes, and nobody else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use borough_model::Name;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::table::{ListedName, MergedKey, NamesChanges, ServiceKey};

/// What somebody follows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HubKey {
    Service(ServiceKey),
    Merged(MergedKey),
    /// The list of services of a cell.
    List(Name),
    /// Every service of a cell.
    Cell(Name),
    /// The lists of all cells, also of those that come later.
    Lists,
}

/// What has changed of that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HubChange {
    Service(ServiceKey),
    Merged(MergedKey),
    /// A list shows other merged services.
    List(Name),
    /// A list shows this otherwise.
    Listed(ListedName),
}

/// The changes that a follower has not taken yet: at most one entry per service that it follows, or per name in a list.
#[derive(Debug, Default)]
struct HubInbox {
    changed: Mutex<BTreeSet<HubChange>>,
    notify: Notify,
}

#[derive(Debug, Default)]
struct HubShared {
    followers: Mutex<BTreeMap<HubKey, BTreeMap<u64, Arc<HubInbox>>>>,
    next: AtomicU64,
    wakes: AtomicU64,
}

/// The followers of the table. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Hub(Arc<HubShared>);

impl Hub {
    /// A follower of nothing yet.
    pub fn follower(&self) -> HubFollower {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        HubFollower { hub: self.clone(), id, inbox: Arc::default(), keys: BTreeSet::new() }
    }

    /// Wakes the followers of what has changed.
    pub fn notify(&self, changes: NamesChanges) {
        if changes.is_empty() {
            return;
        }
        let cell = |cell: Name| (HubKey::List(cell.clone()), HubChange::List(cell));
        let service = |key: ServiceKey| (HubKey::Service(key.clone()), HubChange::Service(key));
        let merged = |key: MergedKey| (HubKey::Merged(key.clone()), HubChange::Merged(key));
        let listed = |name: ListedName| (HubKey::List(name.service.cell.clone()), HubChange::Listed(name));
        let NamesChanges { services, merged: of_several, listed: names, lists } = changes;
        let changes = services.into_iter().map(service).chain(of_several.into_iter().map(merged));
        let changes = changes.chain(names.into_iter().map(listed)).chain(lists.into_iter().map(cell));
        let followers = self.0.followers.lock();
        for (key, change) in changes {
            let wider = match &key {
                HubKey::Service(key) => Some(HubKey::Cell(key.cell.clone())),
                HubKey::Merged(key) => Some(HubKey::Cell(key.cell.clone())),
                HubKey::List(_) => Some(HubKey::Lists),
                HubKey::Cell(_) | HubKey::Lists => None,
            };
            for inbox in [Some(key), wider]
                .iter()
                .flatten()
                .filter_map(|key| followers.get(key))
                .flat_map(BTreeMap::values)
            {
                inbox.changed.lock().insert(change.clone());
                inbox.notify.notify_one();
                self.0.wakes.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// How often a follower was woken.
    pub fn wakes(&self) -> u64 {
        self.0.wakes.load(Ordering::Relaxed)
    }
}

/// One who follows some keys. Dropping it ends that.
#[derive(Debug)]
pub struct HubFollower {
    hub: Hub,
    id: u64,
    inbox: Arc<HubInbox>,
    keys: BTreeSet<HubKey>,
}

impl HubFollower {
    /// Follows a key from now on. Look at the table after it, so that no change is missed.
    pub fn follow(&mut self, key: HubKey) {
        if self.keys.insert(key.clone()) {
            let mut followers = self.hub.0.followers.lock();
            followers.entry(key).or_default().insert(self.id, Arc::clone(&self.inbox));
        }
    }

    /// Follows a key no longer.
    pub fn leave(&mut self, key: &HubKey) {
        if self.keys.remove(key) {
            self.hub_leave(key);
        }
    }

    fn hub_leave(&self, key: &HubKey) {
        let mut followers = self.hub.0.followers.lock();
        if let Some(of_key) = followers.get_mut(key) {
            of_key.remove(&self.id);
            if of_key.is_empty() {
                followers.remove(key);
            }
        }
    }

    /// Waits for a change, and takes all that have happened.
    pub async fn changed(&self) -> BTreeSet<HubChange> {
        loop {
            let changed = std::mem::take(&mut *self.inbox.changed.lock());
            if !changed.is_empty() {
                return changed;
            }
            self.inbox.notify.notified().await;
        }
    }
}

impl Drop for HubFollower {
    fn drop(&mut self) {
        self.keys.iter().for_each(|key| self.hub_leave(key));
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn service(job: &str) -> ServiceKey {
        ServiceKey::of_texts("alpha", "ann", job).unwrap()
    }

    fn changes(job: &str) -> NamesChanges {
        NamesChanges { services: [service(job)].into(), ..NamesChanges::default() }
    }

    #[test]
    fn a_change_wakes_its_own_followers_and_is_taken_once() {
        let hub = Hub::default();
        let (mut web, mut api) = (hub.follower(), hub.follower());
        web.follow(HubKey::Service(service("web")));
        api.follow(HubKey::Service(service("api")));
        hub.notify(changes("web"));
        hub.notify(changes("web"));
        assert_eq!(web.changed().now_or_never().unwrap(), [HubChange::Service(service("web"))].into());
        assert_eq!(web.changed().now_or_never(), None, "taken once");
        assert_eq!(api.changed().now_or_never(), None, "another service");
        web.leave(&HubKey::Service(service("web")));
        hub.notify(changes("web"));
        assert_eq!(web.changed().now_or_never(), None, "left");
        drop((web, api));
        assert!(hub.0.followers.lock().is_empty(), "a follower that is gone leaves nothing");
    }

    #[test]
    fn who_follows_a_cell_or_all_lists_wakes_for_what_is_in_them() {
        let hub = Hub::default();
        let (mut of_cell, mut of_other, mut of_lists) = (hub.follower(), hub.follower(), hub.follower());
        of_cell.follow(HubKey::Cell(Name::new("alpha").unwrap()));
        of_other.follow(HubKey::Cell(Name::new("beta").unwrap()));
        of_lists.follow(HubKey::Lists);
        let listed = ListedName { service: service("web"), port: None };
        hub.notify(NamesChanges { listed: [listed.clone()].into(), ..changes("web") });
        assert_eq!(of_cell.changed().now_or_never().unwrap(), [HubChange::Service(service("web"))].into());
        assert_eq!(of_other.changed().now_or_never(), None, "another cell");
        assert_eq!(of_lists.changed().now_or_never().unwrap(), [HubChange::Listed(listed)].into());
        hub.notify(changes("web"));
        assert_eq!(of_lists.changed().now_or_never(), None, "no list has changed");
    }
}
