//! Callers that wait for the mirror to reach a position. Each is woken once, when the position is reached. A gateway
//! has thousands of them, and every page of the journal would wake them all.

use crate::row::Cursor;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::sync::oneshot;

#[derive(Debug, Default)]
struct WaitInner {
    at: Option<Cursor>,
    waiting: BTreeMap<(Cursor, u64), oneshot::Sender<()>>,
    sequence: u64,
}

/// The waiting callers, by position.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    inner: Arc<Mutex<WaitInner>>,
}

impl Waiters {
    /// Wakes the callers whose position is at or before `at`.
    pub(super) fn reached(&self, at: Cursor) {
        let mut inner = self.inner.lock();
        inner.at = Some(at);
        while let Some(first) = inner.waiting.first_entry()
            && first.key().0 <= at
        {
            // The caller may have given up.
            first.remove().send(()).ok();
        }
    }

    /// The mirror's position, once it is at `cursor` or past it.
    pub(super) async fn wait(&self, cursor: Cursor) -> Option<Cursor> {
        let receiver = {
            let mut inner = self.inner.lock();
            if inner.at.is_some_and(|at| at >= cursor) {
                return inner.at;
            }
            inner.sequence = inner.sequence.wrapping_add(1);
            let key = (cursor, inner.sequence);
            let (sender, receiver) = oneshot::channel();
            inner.waiting.insert(key, sender);
            MirrorWaiter { inner: Arc::clone(&self.inner), key, receiver }
        };
        receiver.await;
        self.inner.lock().at
    }
}

/// One waiting caller; removed from the list when it gives up.
struct MirrorWaiter {
    inner: Arc<Mutex<WaitInner>>,
    key: (Cursor, u64),
    receiver: oneshot::Receiver<()>,
}

impl Future for MirrorWaiter {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.receiver).poll(context).map(|_| ())
    }
}

impl Drop for MirrorWaiter {
    fn drop(&mut self) {
        self.inner.lock().waiting.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use borough_kv::Versionstamp;

    use super::*;

    fn at(number: u8) -> Cursor {
        Cursor { store_epoch: 1, stamp: Versionstamp([number; 10]) }
    }

    #[tokio::test(start_paused = true)]
    async fn each_waiter_is_notified_at_its_position_and_not_before() {
        let waiters = Waiters::default();
        let early = waiters.wait(at(2));
        let late = waiters.wait(at(4));
        tokio::pin!(early, late);
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut early).await.is_err());
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut late).await.is_err());
        waiters.reached(at(3));
        assert_eq!(early.await, Some(at(3)));
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut late).await.is_err());
        waiters.reached(Cursor { store_epoch: 2, stamp: Versionstamp([0; 10]) });
        assert_eq!(late.await.map(|at| at.store_epoch), Some(2));
        assert_eq!(waiters.wait(at(9)).await.map(|at| at.store_epoch), Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_is_forgotten() {
        let waiters = Waiters::default();
        tokio::time::timeout(Duration::from_secs(1), waiters.wait(at(2))).await.unwrap_err();
        assert!(waiters.inner.lock().waiting.is_empty());
    }
}
