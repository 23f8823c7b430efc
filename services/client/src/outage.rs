//! How long no gateway answers a stream: when its reader is told, and when the client gives up.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Sleep;

use crate::error::ClientError;

/// The reader is told after this time. A gateway that restarts is mostly back sooner.
const TOLD_AFTER: Duration = Duration::from_secs(3);

/// No gateway answers a stream. The client tries again by itself.
#[derive(Clone, Debug)]
pub struct GatewayAbsence {
    /// What the last try came to.
    pub error: Arc<ClientError>,
    /// When the client gives up, from now on. Absent: never.
    pub gives_up_in: Option<Duration>,
}

impl GatewayAbsence {
    /// The absence at the time when its reader is told. `patience`: how long the client tries.
    pub(crate) fn told(error: ClientError, patience: Option<Duration>) -> Self {
        let gives_up_in = patience.map(|patience| patience.saturating_sub(TOLD_AFTER));
        Self { error: Arc::new(error), gives_up_in }
    }
}

/// The time since a stream broke without a message from any gateway. Its timers need no clock.
#[derive(Debug)]
pub(crate) struct Outage {
    /// Until the reader is told. Absent: it was told.
    tell: Option<Pin<Box<Sleep>>>,
    /// Until the client gives up. Absent: never.
    end: Option<Pin<Box<Sleep>>>,
}

/// What an outage has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutageStep {
    /// It lasts so long that the reader must be told. Comes once.
    Tell,
    GiveUp,
}

impl Outage {
    /// An outage that begins now. `patience`: how long the client tries; absent: it never gives up.
    pub(crate) fn begin(patience: Option<Duration>) -> Self {
        let timer = |after| Box::pin(tokio::time::sleep(after));
        Self { tell: Some(timer(TOLD_AFTER)), end: patience.map(timer) }
    }

    /// Completes at the next step. Safe to drop.
    pub(crate) async fn step(&mut self) -> OutageStep {
        tokio::select! {
            biased;
            () = passed(&mut self.end) => OutageStep::GiveUp,
            () = passed(&mut self.tell) => {
                self.tell = None;
                OutageStep::Tell
            }
        }
    }
}

async fn passed(timer: &mut Option<Pin<Box<Sleep>>>) {
    match timer {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_told_once_and_ends() {
        let mut outage = Outage::begin(Some(Duration::from_secs(60)));
        assert_eq!(outage.step().await, OutageStep::Tell);
        // A dropped wait loses nothing.
        assert!(tokio::time::timeout(Duration::from_secs(50), outage.step()).await.is_err());
        assert_eq!(outage.step().await, OutageStep::GiveUp);
        assert_eq!(outage.step().await, OutageStep::GiveUp);
    }

    #[tokio::test(start_paused = true)]
    async fn without_patience_an_outage_never_ends() {
        let mut outage = Outage::begin(None);
        assert_eq!(outage.step().await, OutageStep::Tell);
        assert!(tokio::time::timeout(Duration::from_secs(86_400), outage.step()).await.is_err());
    }

    #[test]
    fn who_is_told_hears_how_much_time_is_left() {
        let left = |patience| GatewayAbsence::told(ClientError::NoGateway, patience).gives_up_in;
        assert_eq!(left(Some(Duration::from_secs(60))), Some(Duration::from_secs(57)));
        assert_eq!((left(Some(Duration::from_secs(1))), left(None)), (Some(Duration::ZERO), None));
    }
}
