//! Waits for conditions: with a deadline, and never for a fixed time.

use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use borough_kv::env::{Clock, SystemClock};

/// The time limit of a condition. Far more than anything takes: machines that run tests are busy.
pub const DEADLINE: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_millis(40);

/// Time since an arbitrary moment.
pub fn now() -> Duration {
    static CLOCK: LazyLock<Arc<dyn Clock>> = LazyLock::new(SystemClock::shared);
    CLOCK.monotonic()
}

/// The first `Some` of `look`; `what` names the condition if it fails.
pub async fn until<T, F, Fut>(what: &str, look: F) -> T
where
    F: Fn() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    until_or(|| what.to_owned(), look).await
}

/// The same; `what` also says what there is instead.
pub async fn until_or<T, F, Fut>(what: impl Fn() -> String, look: F) -> T
where
    F: Fn() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let begun = now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(now().saturating_sub(begun) < DEADLINE, "not within {DEADLINE:?}: {}", what());
        tokio::time::sleep(LOOK).await;
    }
}
