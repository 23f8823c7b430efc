//! Bounds the streams of output. Each stream may hold a window that its reader has not taken, so their number bounds
//! the memory for slow readers.

use std::sync::Arc;

use borough_proto::bounds::{STREAM_WINDOW_BYTES, STREAM_WINDOW_BYTES_MIN, STREAMS_MAX};
use futures::{Stream, StreamExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use crate::status::status_unavailable;

/// An agent's initial credit: what the gateway holds for one reader.
pub(super) const STREAM_WINDOW: u64 = STREAM_WINDOW_BYTES as u64;
/// The least credit of a stream.
const STREAM_WINDOW_LEAST: u64 = STREAM_WINDOW_BYTES_MIN as u64;

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
        Self(Arc::new(Semaphore::new(STREAMS_MAX * units(STREAM_WINDOW))))
    }
}

/// The units of credit in a window. A stream of little credit takes few.
fn units(window: u64) -> usize {
    usize::try_from(window).unwrap_or(usize::MAX).div_ceil(STREAM_WINDOW_BYTES_MIN)
}

/// The window of a reader that asks for `bytes`; 0: the usual one.
pub(super) fn window_of(bytes: u32) -> u64 {
    match u64::from(bytes) {
        0 => STREAM_WINDOW,
        bytes => bytes.clamp(STREAM_WINDOW_LEAST, STREAM_WINDOW),
    }
}

impl StreamSlots {
    /// Takes a place for one more stream of the usual credit.
    ///
    /// # Errors
    /// As [`StreamSlots::take_for`].
    pub(super) fn take(&self) -> Result<StreamSlot, Status> {
        self.take_for(STREAM_WINDOW)
    }

    /// Takes a place for one more stream with this much credit.
    ///
    /// # Errors
    /// `UNAVAILABLE` with the reason `STREAMS_FULL` if the open ones have all credit, that of [`STREAMS_MAX`] usual
    /// streams. Another gateway may have a free place.
    pub(super) fn take_for(&self, window: u64) -> Result<StreamSlot, Status> {
        let wanted = u32::try_from(units(window)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.0).try_acquire_many_owned(wanted);
        permit.map(StreamSlot).map_err(|_| {
            let text = "as many logs and commands are being read through this gateway as it serves at once";
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

    #[test]
    fn streams_of_little_credit_take_little() {
        let slots = StreamSlots::default();
        let least = window_of(1);
        let few: Vec<StreamSlot> = (0..16).map(|_| slots.take_for(least).ok().unwrap()).collect();
        let held: Vec<StreamSlot> = (1..STREAMS_MAX).map(|_| slots.take().ok().unwrap()).collect();
        assert!(slots.take_for(least).is_err(), "sixteen of them have the place of one");
        drop((few, held));
        assert_eq!((window_of(0), window_of(u32::MAX)), (STREAM_WINDOW, STREAM_WINDOW));
    }
}
