//! Keys of issuers that their providers publish: fetched again and again, and kept while a provider is away.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use borough_gateway::auth::{Issuers, KeySource};
use borough_kv::env::Clock;
use borough_store::error_chain;
use bytes::Bytes;
use futures::future::join_all;
use http::Uri;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::LOOK;

/// Age of keys at which they are fetched again.
const REFRESH: Duration = Duration::from_secs(300);
/// Pause after a fetch that failed.
const RETRY: Duration = Duration::from_secs(10);
/// Least time between two fetches that tokens with unknown keys ask for. Anybody can send such tokens.
const ASKED_PAUSE: Duration = Duration::from_secs(30);
/// How long keys count whose provider does not answer: it may have withdrawn one.
const KEPT: Duration = Duration::from_secs(86_400);
/// Longest time of one request.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Longest answer of a provider, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Why keys could not be fetched. Those known go on to count, and the next try follows by itself.
#[derive(Debug, thiserror::Error)]
enum KeysUnread {
    #[error("{0} is no address; accepted: a URL that begins with https://")]
    Address(String),
    #[error("the authorities of {} cannot be read", path.display())]
    Authorities { path: PathBuf, source: rustls::pki_types::pem::Error },
    #[error("{} has no certificate of an authority", .0.display())]
    NoAuthority(PathBuf),
    #[error("the authorities of this system cannot be read")]
    System(#[source] std::io::Error),
    #[error("{url} does not answer")]
    Silent { url: String, source: hyper_util::client::legacy::Error },
    #[error("{url} has not answered within {} s", REQUEST_MAX.as_secs())]
    Slow { url: String },
    #[error("{url} answers with HTTP status {status}; accepted: 200")]
    Status { url: String, status: u16 },
    #[error("the answer of {url} breaks off, or has more than {ANSWER_BYTES_MAX} bytes")]
    Body { url: String },
    #[error("the answer of {url} is no such document")]
    Document { url: String, source: serde_json::Error },
    #[error("{url} is of issuer {found:?}; accepted: {wanted:?}")]
    OtherIssuer { url: String, found: String, wanted: String },
}

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

    fn record(&mut self, source: KeySource, fetched: Result<JwkSet, KeysUnread>, now: Duration) {
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
    issuer: String,
    jwks_uri: String,
}

/// A set of keys, some of which this program may not know.
#[derive(Deserialize)]
struct PublishedKeys {
    keys: Vec<Value>,
}

async fn keys_fetch(source: &KeySource) -> Result<JwkSet, KeysUnread> {
    let connector = connector(source.ca.as_deref())?;
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let address = match &source.jwks_url {
        Some(url) => url.clone(),
        None => {
            let url = source.discovery_url();
            let found: Discovery = document_get(&client, &url).await?;
            if found.issuer != source.issuer {
                return Err(KeysUnread::OtherIssuer {
                    url,
                    found: found.issuer,
                    wanted: source.issuer.clone(),
                });
            }
            found.jwks_uri
        }
    };
    let published: PublishedKeys = document_get(&client, &address).await?;
    // A kind of key that is new to this program does not spoil the others.
    let keys = published.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
    Ok(JwkSet { keys: keys.collect() })
}

/// Makes connections that trust the authorities of this file, or those of the system.
fn connector(ca: Option<&Path>) -> Result<HttpsConnector<HttpConnector>, KeysUnread> {
    let builder = HttpsConnectorBuilder::new();
    let trusting = match ca {
        None => builder.with_native_roots().map_err(KeysUnread::System)?,
        Some(path) => {
            let unread = |source| KeysUnread::Authorities { path: path.to_owned(), source };
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_file_iter(path).map_err(unread)? {
                // What is no authority is passed over: a file may have a whole chain.
                roots.add(certificate.map_err(unread)?).ok();
            }
            if roots.is_empty() {
                return Err(KeysUnread::NoAuthority(path.to_owned()));
            }
            builder
                .with_tls_config(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
        }
    };
    Ok(trusting.https_only().enable_http1().build())
}

type ProviderClient = Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

/// Gets a JSON document. Follows no redirection.
async fn document_get<T: DeserializeOwned>(client: &ProviderClient, url: &str) -> Result<T, KeysUnread> {
    let named = || url.to_owned();
    let address: Uri = url.parse().map_err(|_| KeysUnread::Address(named()))?;
    if !KeySource::is_secure(url) {
        return Err(KeysUnread::Address(named()));
    }
    let exchange = async {
        let silent = |source| KeysUnread::Silent { url: named(), source };
        let answer = client.get(address).await.map_err(silent)?;
        if answer.status() != http::StatusCode::OK {
            return Err(KeysUnread::Status { url: named(), status: answer.status().as_u16() });
        }
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|_| KeysUnread::Body { url: named() })?.to_bytes();
        serde_json::from_slice(&body).map_err(|source| KeysUnread::Document { url: named(), source })
    };
    let slow = |_| KeysUnread::Slow { url: named() };
    tokio::time::timeout(REQUEST_MAX, exchange).await.map_err(slow)?
}

#[cfg(test)]
mod tests {
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
        assert_eq!(refused, "the authorities of /nowhere/ca.pem cannot be read");
    }
}
