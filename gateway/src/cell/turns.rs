//! Turns of admissions that charge a limit of one group.
//!
//! Every admission below a limited group reads and writes the same line, so of those at once only one would commit, and
//! the others would run again. Here they take turns instead, each with all that its user has waiting. Other gateways
//! still conflict. Users without a limited group above never wait for each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use borough_model::Name;
use borough_model::job::Band;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// The line of the topmost limited group that an admission charges.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TopLine {
    pub(crate) group: Name,
    pub(crate) band: Band,
}

/// Turns by topmost line.
#[derive(Debug, Default)]
pub struct QuotaTurns {
    tops: Mutex<BTreeMap<TopLine, Weak<tokio::sync::Mutex<()>>>>,
}

impl QuotaTurns {
    /// Waits for the turn at each of these lines, and has it until the answer is dropped. Everybody waits in the same
    /// order, so nobody waits for ever.
    pub(crate) async fn take(&self, tops: BTreeSet<TopLine>) -> Vec<OwnedMutexGuard<()>> {
        let mut turns = Vec::with_capacity(tops.len());
        for top in tops {
            let turn = self.turn(top);
            turns.push(turn.lock_owned().await);
        }
        turns
    }

    fn turn(&self, top: TopLine) -> Arc<tokio::sync::Mutex<()>> {
        let mut tops = self.tops.lock();
        if let Some(turn) = tops.get(&top).and_then(Weak::upgrade) {
            return turn;
        }
        tops.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        tops.insert(top, Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_of_one_line_take_turns_and_others_do_not_wait() {
        let turns = Arc::new(QuotaTurns::default());
        let top = |name: &str| TopLine { group: Name::new(name).unwrap(), band: Band::Batch };
        let (web, lab) = (BTreeSet::from([top("web")]), BTreeSet::from([top("lab")]));
        let both = BTreeSet::from([top("web"), top("lab")]);
        let first = turns.take(web.clone()).await;
        assert!(turns.take(web.clone()).now_or_never().is_none());
        assert!(turns.take(lab).now_or_never().is_some());
        assert!(turns.take(BTreeSet::new()).now_or_never().is_some(), "nothing is limited");
        let (waits, next) = (Arc::clone(&turns), both.clone());
        let second = tokio::spawn(async move { drop(waits.take(next).await) });
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!second.is_finished());
        drop(first);
        second.await.unwrap();
        drop(turns.take(both).await);
        drop(turns.take(web).await);
        assert!(turns.tops.lock().len() <= 2, "what nobody waits for is forgotten");
    }
}
