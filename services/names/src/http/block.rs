//! Blocking queries: wait until a service changes, or until the time is over.

use std::time::Duration;

use crate::hub::HubKey;
use crate::service::NamesShared;
use crate::table::{NamesTable, TableIndex};

/// Where a query stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockState {
    /// The index of what the query asks about.
    pub(super) index: TableIndex,
    /// The position of the table.
    pub(super) table: TableIndex,
}

impl BlockState {
    /// Returns true if the client has seen what there is, and must wait. An index of another store epoch, or one that
    /// this process has not reached, is answered at once: the client then begins again with the index of the answer.
    pub(super) fn must_wait(self, asked: Option<u64>) -> bool {
        let Some(asked) = asked.map(TableIndex) else { return false };
        asked.is_of_epoch(self.table) && self.index <= asked && asked <= self.table.max(self.index)
    }
}

/// Waits until `key` has changed since `asked`, or until `wait` is over. `state` looks at the table.
pub(super) async fn block(
    shared: &NamesShared,
    key: HubKey,
    asked: Option<u64>,
    wait: Duration,
    state: impl Fn(&NamesTable) -> Option<BlockState>,
) {
    let looks = || shared.read(&state).flatten().is_some_and(|state| state.must_wait(asked));
    if asked.is_none() {
        return;
    }
    let mut follower = shared.hub.follower();
    // Before the look: a change between the two wakes.
    follower.follow(key);
    let changed = async {
        while looks() {
            follower.changed().await;
        }
    };
    // A return is no proof of a change, so the end of the time needs no mark.
    tokio::time::timeout(wait, changed).await.ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_waits_only_for_what_it_has_seen_in_this_epoch() {
        let index = |version: u64, epoch: u64| TableIndex(version << 12 | epoch);
        let state = BlockState { index: index(100, 1), table: index(200, 1) };
        let waits = |asked: TableIndex| state.must_wait(Some(asked.0));
        assert!(!state.must_wait(None));
        assert!(!waits(index(99, 1)), "it has not seen the last change");
        assert!(waits(index(100, 1)));
        assert!(waits(index(150, 1)), "of another process, which was listed later");
        assert!(!waits(index(201, 1)), "ahead of this process");
        assert!(!waits(index(150, 2)), "of another epoch of the store");
        let bumped = BlockState { index: index(201, 1), ..state };
        assert!(bumped.must_wait(Some(index(201, 1).0)), "an index may be just ahead of the position");
    }
}
