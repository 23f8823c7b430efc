//! The reaction to an error: a pause and a retry, or the error again.

use std::time::Duration;

use super::EmbeddedTransaction;
use super::state::{Options, Phase};
use crate::contract::{ErrorCode, KvError, KvResult};
use crate::env::fraction;

/// The pause if the cause is a version and not load: it does not grow.
const VERSION_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause while the store lacks a resource.
const RESOURCE_PAUSE_MAX: Duration = Duration::from_secs(30);

impl EmbeddedTransaction {
    pub(super) async fn retry(&self, error: &KvError) -> KvResult<()> {
        let pause = {
            let mut state = self.state.lock();
            let now = self.engine.shared.clock.monotonic();
            match (&state.phase, &state.poison) {
                (Phase::Cancelled, _) => return Err(ErrorCode::TransactionCancelled.into()),
                (Phase::GivenUp, Some(error)) => return Err(error.clone()),
                _ => {}
            }
            let spent = state.options.retry_limit.is_some_and(|limit| state.retries >= limit);
            if !error.code.is_retryable() || spent {
                return Err(state.give_up(error.clone()));
            }
            if state.time_left(now) == Some(Duration::ZERO) {
                return Err(state.give_up(ErrorCode::TransactionTimedOut.into()));
            }
            state.retries = state.retries.saturating_add(1);
            let base = match error.code {
                ErrorCode::TransactionTooOld | ErrorCode::FutureVersion => {
                    VERSION_PAUSE.min(state.options.retry_delay_max)
                }
                code => {
                    let base = state.backoff;
                    let most = pause_max(code, &state.options);
                    state.backoff = base.saturating_mul(2).min(most);
                    base.min(most)
                }
            };
            // Time-out, retry limit and longest pause survive a retry; the closure sets everything else again.
            let keep = Options {
                timeout: state.options.timeout,
                retry_limit: state.options.retry_limit,
                retry_delay_max: state.options.retry_delay_max,
                ..Options::default()
            };
            let pause = base.mul_f64(fraction(self.engine.shared.rng.next_u64()));
            let pause = state.time_left(now).map_or(pause, |left| pause.min(left));
            state.restart(keep);
            pause
        };
        tokio::time::sleep(pause).await;
        let mut state = self.state.lock();
        if state.time_left(self.engine.shared.clock.monotonic()) == Some(Duration::ZERO) {
            return Err(state.give_up(ErrorCode::TransactionTimedOut.into()));
        }
        Ok(())
    }
}

fn pause_max(code: ErrorCode, options: &Options) -> Duration {
    match code {
        ErrorCode::ProxyMemoryLimitExceeded | ErrorCode::GrvProxyMemoryLimitExceeded => RESOURCE_PAUSE_MAX,
        _ => options.retry_delay_max,
    }
}
