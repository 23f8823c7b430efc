//! Bounds the streams of output. Each stream may hold a window that its reader has not taken, so their number bounds
//! the memory for slow readers.

use std::sync::Arc;

use borough_proto::bounds::{STREAM_WINDOW_BYTES, STREAMS_MAX};
use futures::{Stream, StreamExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use crate::status::status_unavailable;

/// An agent's initial credit: what the gateway holds for one reader.
pub(super) const STREAM_WINDOW: u64 = STREAM_WINDOW_BYTES as u64;

/// The streams that a gateway serves. Clones share them.
#[derive(Clone)]
pub(super) struct StreamSlots(Arc<Semaphore>);

/// The place of one stream.
#[expect(dead_code, reason = "held, not read: dropping the permit frees the slot")]
pub(super) struct StreamSlot(OwnedSemaphorePermit);

impl StreamSlot {
    /// A stream that holds its place to its end.
    pub(super) fn held<S: Stream>(self, stream: S) -> impl Stream<Item = S::Item> {
        stream.inspect(move |_| {
            // The stream owns the place, and drops it with itself.
            let _held = &self;
        })
    }
}

impl Default for StreamSlots {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(STREAMS_MAX)))
    }
}

impl StreamSlots {
    /// Takes a place for one more stream.
    ///
    /// # Errors
    /// `UNAVAILABLE` with the reason `STREAMS_FULL` if [`STREAMS_MAX`] are open. Another gateway may have a free place.
    pub(super) fn take(&self) -> Result<StreamSlot, Status> {
        let permit = Arc::clone(&self.0).try_acquire_owned();
        permit.map(StreamSlot).map_err(|_| {
            let text = format!(
                "{STREAMS_MAX} logs and commands are being read through this gateway, the most it serves"
            );
            status_unavailable("STREAMS_FULL", text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_bounds_its_streams_and_a_closed_one_frees_its_place() {
        let slots = StreamSlots::default();
        let mut held: Vec<StreamSlot> = (0..STREAMS_MAX).map(|_| slots.take().ok().unwrap()).collect();
        assert_eq!(slots.take().err().unwrap().code(), tonic::Code::Unavailable);
        held.pop();
        assert!(slots.take().is_ok());
    }
}
