//! The credit of one stream: how much may be sent before its reader has read.

use std::sync::Arc;

use borough_proto::bounds::stream_cost;
use tokio::sync::Semaphore;

/// Credit of one stream. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Credit(Arc<Semaphore>);

impl Credit {
    /// A stream's credit, with this many bytes at first.
    pub(super) fn new(window: u64) -> Self {
        Self(Arc::new(Semaphore::new(permits(window))))
    }

    /// Adds the bytes that the reader has taken.
    pub(super) fn add(&self, bytes: u64) {
        let space = Semaphore::MAX_PERMITS.saturating_sub(self.0.available_permits());
        self.0.add_permits(permits(bytes).min(space));
    }

    /// Waits until a message with so much data may be sent; `false` if the reader is gone.
    pub(super) async fn take(&self, data_bytes: usize) -> bool {
        let cost = u32::try_from(stream_cost(data_bytes)).unwrap_or(u32::MAX);
        match self.0.acquire_many(cost).await {
            Ok(permits) => {
                permits.forget();
                true
            }
            Err(_) => false,
        }
    }

    /// Ends every wait: the reader is gone.
    pub(super) fn close(&self) {
        self.0.close();
    }
}

fn permits(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use borough_proto::bounds::STREAM_MESSAGE_COST;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_the_reader_has_not_taken_is_waited_for() {
        let cost = u64::try_from(stream_cost(10)).unwrap();
        let credit = Credit::new(2 * cost);
        assert!(credit.take(10).await && credit.take(10).await);
        let waiting = credit.take(10);
        tokio::pin!(waiting);
        let soon = std::time::Duration::from_secs(1);
        assert!(tokio::time::timeout(soon, &mut waiting).await.is_err());
        credit.add(cost - 1);
        assert!(tokio::time::timeout(soon, &mut waiting).await.is_err());
        credit.add(1);
        assert!(waiting.await);
        credit.close();
        assert!(!credit.take(1).await);
    }

    #[tokio::test]
    async fn short_messages_cost_as_well() {
        let credit = Credit::new(u64::try_from(4 * STREAM_MESSAGE_COST).unwrap());
        for _ in 0..3 {
            assert!(credit.take(1).await);
        }
        let more = credit.take(1);
        assert!(futures::FutureExt::now_or_never(more).is_none());
    }
}
