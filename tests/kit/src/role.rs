//! A background role of a cell as a task.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A pause after a failed start.
const PAUSE: Duration = Duration::from_millis(200);

/// A role that runs until it is ended or killed.
pub struct Role {
    task: JoinHandle<()>,
    cancelled: CancellationToken,
}

impl Role {
    /// Begins a role, which ends in order once its token is cancelled.
    pub fn begin<F>(main: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let cancelled = CancellationToken::new();
        Self { task: tokio::spawn(main(cancelled.clone())), cancelled }
    }

    /// Ends it as a crash does: it releases nothing. It may still run until the test waits for something.
    pub fn abort(self) {
        self.task.abort();
    }

    /// The same, and waits until it no longer runs.
    pub async fn kill(self) {
        self.task.abort();
        // An abort is the expected result.
        self.task.await.ok();
    }

    /// Ends it in order.
    pub async fn end(self) {
        self.cancelled.cancel();
        self.task.await.unwrap();
    }

    /// Returns true if it has ended by itself, which no role does.
    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }
}

/// Tries to start something until the store allows it.
pub async fn begun<T, E, F>(mut start: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, E>>,
{
    loop {
        match start().await {
            Ok(started) => return started,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
