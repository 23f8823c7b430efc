//! Streams that last as long as the right to them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use borough_model::access::ActionNeed;
use futures::{Stream, StreamExt as _};
use tonic::Status;

use super::context::CellContext;
use crate::auth::{CredentialEnd, NotAuthenticated, Principal};

/// The longest time between two looks at the clock, which may leap.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A call that was allowed and goes on: it ends once the grants no longer allow it, or its credential has expired.
pub(crate) struct OngoingCall {
    pub(crate) cell: Arc<CellContext>,
    pub(crate) principal: Principal,
    /// When its credential counts no longer; absent: it does not expire.
    pub(crate) end: Option<CredentialEnd>,
    pub(crate) method: &'static str,
    pub(crate) need: ActionNeed,
    /// The user whose work it concerns; empty: everybody's.
    pub(crate) owner: String,
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

    /// Waits until the grants or the credential no longer allow the call, and says why.
    async fn refused(self) -> Status {
        let Self { cell, principal, end, method, need, owner } = self;
        tokio::select! {
            status = not_allowed(&cell, &principal, method, need, &owner) => status,
            status = expired(&cell, end) => status,
        }
    }
}

/// Waits until the grants no longer allow a call.
async fn not_allowed(
    cell: &CellContext,
    principal: &Principal,
    method: &'static str,
    need: ActionNeed,
    owner: &str,
) -> Status {
    loop {
        let moved = cell.access.moved();
        if let Err(status) = cell.allow(principal, method, need, owner) {
            return status;
        }
        moved.await;
    }
}

/// Waits until a credential has expired by the time of the cell.
async fn expired(cell: &CellContext, end: Option<CredentialEnd>) -> Status {
    let Some(end) = end else { return std::future::pending().await };
    loop {
        match end.left(cell.clock.wall_ms()) {
            Ok(left) => tokio::time::sleep(left.min(LOOK_AGAIN)).await,
            Err(refused) => return NotAuthenticated::Token(refused).status(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use borough_model::access::Identity;
    use borough_testkit::name;
    use tonic::Code;

    use super::*;
    use crate::cell::tests::TestGateway;

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_with_the_credential_of_its_caller() {
        let gateway = TestGateway::new().await;
        let cell = gateway.cells.get("alpha").unwrap();
        while cell.access.table().is_none() {
            cell.access.moved().await;
        }
        let identity = Arc::new(Identity { user: name("ann"), groups: BTreeSet::new() });
        let held = |end| {
            let (cell, principal) = (Arc::clone(cell), Principal::User(Arc::clone(&identity)));
            let (method, need, owner) = ("WatchService/Watch", ActionNeed::Identity, String::new());
            let ongoing = OngoingCall { cell, principal, end, method, need, owner };
            ongoing.hold(futures::stream::once(async { Ok(1) }).chain(futures::stream::pending()))
        };
        // The clock of the gateway stands at 1 s.
        let (mut held, mut endless) = (held(Some(CredentialEnd::expiring(100))), held(None));
        assert_eq!(held.next().await.unwrap().unwrap(), 1);
        assert_eq!(endless.next().await.unwrap().unwrap(), 1);
        gateway.clock.advance(Duration::from_secs(158));
        let quiet = Duration::from_secs(600);
        assert!(tokio::time::timeout(quiet, held.next()).await.is_err(), "the clocks may differ by 60 s");
        gateway.clock.advance(Duration::from_secs(1));
        let ended = tokio::time::timeout(quiet, held.next()).await.expect("it goes on");
        let status = ended.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated);
        assert!(status.message().contains("the token expired 60 s ago"), "{status:?}");
        assert!(held.next().await.is_none());
        assert!(tokio::time::timeout(quiet, endless.next()).await.is_err(), "it does not expire");
    }
}
