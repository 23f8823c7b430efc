//! Keys of issuers that their providers publish: fetched again and again, and kept while a provider is away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_gateway::auth::{Issuers, KeySource};
use borough_kv::env::Clock;
use borough_store::error_chain;
use futures::future::join_all;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use serde::Deserialize;
use serde_json::Value;

use super::LOOK;
use crate::provider::{ProviderError, ProviderHttp};

/// Age of keys at which they are fetched again.
const REFRESH: Duration = Duration::from_secs(300);
/// Pause after a fetch that failed.
const RETRY: Duration = Duration::from_secs(10);
/// Least time between two fetches that tokens with unknown keys ask for. Anybody can send such tokens.
const ASKED_PAUSE: Duration = Duration::from_secs(30);
/// How long keys count whose provider does not answer: it may have withdrawn one.
const KEPT: Duration = Duration::from_secs(86_400);

/// When the keys of one source were fetched. Times are those of a monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
struct KeySchedule {
    tried: Option<Duration>,
    fetched: Option<Duration>,
}

impl KeySchedule {
    /// When the keys are fetched next. Tokens with unknown keys bring it forward.
    fn due(&self, wish: FetchWish) -> Duration {
        let Some(tried) = self.tried else { return Duration::ZERO };
        let pause = match wish {
            _ if self.fetched != self.tried => RETRY,
            FetchWish::UnknownKey => ASKED_PAUSE,
            FetchWish::Age => REFRESH,
        };
        tried.saturating_add(pause)
    }

    /// Whether the keys have become too old to count.
    fn is_over(&self, now: Duration) -> bool {
        self.fetched.is_some_and(|fetched| now.saturating_sub(fetched) >= KEPT)
    }
}

/// Why keys are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FetchWish {
    Age,
    UnknownKey,
}

/// Fetches the keys that the issuers' providers publish.
pub(super) struct KeyFollower {
    issuers: Issuers,
    clock: Arc<dyn Clock>,
    schedules: BTreeMap<KeySource, KeySchedule>,
}

impl KeyFollower {
    pub(super) fn new(issuers: Issuers, clock: Arc<dyn Clock>) -> Self {
        Self { issuers, clock, schedules: BTreeMap::new() }
    }

    /// Goes on for ever.
    pub(super) async fn run(mut self) {
        let mut wish = FetchWish::Age;
        loop {
            self.fetch_due(wish).await;
            // The files of issuers may name other sources too.
            tokio::select! {
                () = tokio::time::sleep(LOOK) => wish = FetchWish::Age,
                () = self.issuers.unknown_key() => wish = FetchWish::UnknownKey,
            }
        }
    }

    /// Fetches what is due now, all at once.
    async fn fetch_due(&mut self, wish: FetchWish) {
        let (sources, now) = (self.issuers.sources(), self.clock.monotonic());
        self.schedules.retain(|source, _| sources.contains(source));
        let known = |source: &KeySource| self.schedules.get(source).copied().unwrap_or_default();
        let due = sources.into_iter().filter(|source| known(source).due(wish) <= now);
        let fetches = due.map(|source| async {
            let fetched = keys_fetch(&source).await;
            (source, fetched)
        });
        let fetched = join_all(fetches).await;
        for (source, fetched) in fetched {
            self.record(source, fetched, now);
        }
    }

    fn record(&mut self, source: KeySource, fetched: Result<JwkSet, ProviderError>, now: Duration) {
        let schedule = self.schedules.entry(source.clone()).or_default();
        schedule.tried = Some(now);
        let problem = match fetched {
            Ok(keys) => match self.issuers.published(&source, Some(keys)) {
                Ok(changed) => {
                    schedule.fetched = Some(now);
                    if changed {
                        tracing::info!(issuer = source.issuer, "the issuer publishes other keys");
                    }
                    return;
                }
                Err(refused) => error_chain(&refused),
            },
            Err(unread) => error_chain(&unread),
        };
        tracing::warn!(issuer = source.issuer, problem, "the keys of the issuer stay as they were");
        if schedule.is_over(now) {
            schedule.fetched = None;
            // Nothing to check: no key cannot be wrong.
            self.issuers.published(&source, None).ok();
            tracing::error!(
                issuer = source.issuer,
                "the keys of the issuer are a day old, and count no longer"
            );
        }
    }
}

/// Where a provider says that its keys are.
#[derive(Deserialize)]
struct Discovery {
    jwks_uri: String,
}

/// A set of keys, some of which this program may not know.
#[derive(Deserialize)]
struct PublishedKeys {
    keys: Vec<Value>,
}

async fn keys_fetch(source: &KeySource) -> Result<JwkSet, ProviderError> {
    let provider = ProviderHttp::trusting(source.ca.as_deref())?;
    let address = match &source.jwks_url {
        Some(url) => url.clone(),
        None => provider.discovery::<Discovery>(source).await?.jwks_uri,
    };
    let published: PublishedKeys = provider.document(&address).await?;
    // A kind of key that is new to this program does not spoil the others.
    let keys = published.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
    Ok(JwkSet { keys: keys.collect() })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn keys_are_fetched_at_once_then_by_age_and_sooner_for_a_token_with_an_unknown_key() {
        let mut schedule = KeySchedule::default();
        assert_eq!(schedule.due(FetchWish::Age), s(0));
        schedule = KeySchedule { tried: Some(s(100)), fetched: Some(s(100)) };
        assert_eq!((schedule.due(FetchWish::Age), schedule.due(FetchWish::UnknownKey)), (s(400), s(130)));
        // The provider is away: no token makes a gateway ask more often.
        schedule.tried = Some(s(400));
        assert_eq!((schedule.due(FetchWish::Age), schedule.due(FetchWish::UnknownKey)), (s(410), s(410)));
        assert!(!schedule.is_over(s(86_499)) && schedule.is_over(s(86_500)));
        assert!(!KeySchedule::default().is_over(s(u64::MAX)), "there are none");
    }

    #[tokio::test]
    async fn an_address_that_is_not_secure_is_not_asked() {
        let source = KeySource {
            issuer: "https://id".to_owned(),
            jwks_url: Some("http://127.0.0.1:1/keys".to_owned()),
            ca: None,
        };
        let refused = keys_fetch(&source).await.unwrap_err().to_string();
        assert_eq!(
            refused,
            "http://127.0.0.1:1/keys is no address; accepted: a URL that begins with https://"
        );
        let ca = Some(PathBuf::from("/nowhere/ca.pem"));
        let missing = KeySource { jwks_url: Some("https://127.0.0.1:1/keys".to_owned()), ca, ..source };
        let refused = keys_fetch(&missing).await.unwrap_err().to_string();
        assert_eq!(
            refused,
            "the authorities of /nowhere/ca.pem cannot be read: No such file or directory (os error 2)"
        );
    }
}
