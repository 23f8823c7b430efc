//! Streams that last as long as the right to them.

use std::pin::Pin;
use std::sync::Arc;

use borough_model::access::ActionNeed;
use futures::{Stream, StreamExt as _};
use tonic::Status;

use super::context::CellContext;
use crate::auth::Principal;

/// A call that was allowed and goes on: it ends once the grants no longer allow it.
pub(crate) struct OngoingCall {
    pub(super) cell: Arc<CellContext>,
    pub(super) principal: Principal,
    pub(super) method: &'static str,
    pub(super) need: ActionNeed,
    /// The user whose work it concerns; empty: everybody's.
    pub(super) owner: String,
}

/// The items of a stream that lasts as long as the right to it.
pub(crate) type HeldStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl OngoingCall {
    /// Passes the items of a stream on, and ends it with a refusal once the caller may no longer read it.
    pub(crate) fn hold<T: Send + 'static>(
        self,
        stream: impl Stream<Item = Result<T, Status>> + Send + 'static,
    ) -> HeldStream<T> {
        if matches!(self.principal, Principal::Operator) {
            return Box::pin(stream);
        }
        let refused = Box::pin(self.refused());
        let state = Some((Box::pin(stream), refused));
        Box::pin(futures::stream::unfold(state, |state| async move {
            let (mut stream, mut refused) = state?;
            tokio::select! {
                biased;
                status = &mut refused => Some((Err(status), None)),
                item = stream.next() => item.map(|item| (item, Some((stream, refused)))),
            }
        }))
    }

    /// Waits until the grants no longer allow the call, and says why.
    async fn refused(self) -> Status {
        let Self { cell, principal, method, need, owner } = self;
        loop {
            let moved = cell.access.moved();
            if let Err(status) = cell.allow(&principal, method, need, &owner) {
                return status;
            }
            moved.await;
        }
    }
}
