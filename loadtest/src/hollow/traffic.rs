//! Bytes of the messages in one direction.

use std::sync::atomic::{AtomicU64, Ordering};

use prost::Message;

/// Sums over all sessions.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    bytes: AtomicU64,
    largest: AtomicU64,
}

impl Traffic {
    /// Counts a message.
    pub(crate) fn note(&self, message: &impl Message) {
        let bytes = u64::try_from(message.encoded_len()).unwrap_or(u64::MAX);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.largest.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Bytes of all messages since the last call, and of the largest one.
    pub(crate) fn take(&self) -> (u64, u64) {
        (self.bytes.swap(0, Ordering::Relaxed), self.largest.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use borough_proto::v1;

    use super::*;

    #[test]
    fn messages_are_summed_until_they_are_taken() {
        let traffic = Traffic::default();
        let report = |revision| v1::Report { revision, ..v1::Report::default() };
        traffic.note(&report(1));
        traffic.note(&report(300));
        assert_eq!(traffic.take(), (5, 3));
        assert_eq!(traffic.take(), (0, 0));
    }
}
