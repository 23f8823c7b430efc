//! Tokens of users: JWTs of issuers that the gateway trusts, such as an OpenID provider.
//!
//! A token counts if a key of its issuer signed it, if it is for this audience, and if it is valid now. Signatures are
//! asymmetric only: a gateway can check tokens and make none. The time is that of the cells, so a machine with a wrong
//! clock accepts nothing longer than others do. RFC 7519 has the claims, RFC 7517 the keys, RFC 8725 what to refuse.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use borough_kv::env::Clock;
use borough_model::Name;
use borough_model::access::{GROUPS_MAX, Identity};
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use moka::sync::Cache;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use super::TokenDigest;

mod source;

pub use source::KeySource;

/// How far the clocks of an issuer and of a cell may be apart, in seconds.
const SKEW_S: i64 = 60;
/// Tokens whose signature was checked and that are remembered.
const CHECKED_MAX: u64 = 10_000;
/// The most keys of an issuer.
const KEYS_MAX: usize = 64;
/// The algorithms that an issuer may sign with.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::EdDSA,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

fn subject_claim() -> String {
    "sub".to_owned()
}

fn groups_claim() -> String {
    "groups".to_owned()
}

/// An issuer, as a file says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerSettings {
    /// The claim `iss` of its tokens.
    pub issuer: String,
    /// Tokens must have it in `aud`.
    pub audience: String,
    /// The claim with the user's name.
    #[serde(default = "subject_claim")]
    pub user_claim: String,
    /// The claim with the list of the user's groups.
    #[serde(default = "groups_claim")]
    pub groups_claim: String,
    /// Its public keys. Absent: its provider publishes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<JwkSet>,
    /// Where its provider publishes them. Absent: where the discovery document of the issuer says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_url: Option<String>,
    /// A file (PEM) with the authorities of the provider's certificate. Absent: those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_ca: Option<PathBuf>,
}

/// An issuer that cannot be used. Correct its file, or what its provider publishes.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuerRefused {
    #[error("{0} is empty; accepted: a text")]
    Empty(&'static str),
    #[error("it has {0} keys; accepted: 1 to {KEYS_MAX}")]
    KeyCount(usize),
    #[error(
        "none of its {0} keys can check signatures; accepted: public keys (RSA, EC P-256 or P-384, Ed25519) for them"
    )]
    NoKey(usize),
    #[error("it has jwks and {0}; accepted: the keys themselves, or where they are")]
    TwoSources(&'static str),
    #[error(
        "{field} is {value:?}; accepted: a URL that begins with https://, or the keys themselves in jwks"
    )]
    NotHttps { field: &'static str, value: String },
}

/// Why a token does not count. The caller needs another token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefused {
    /// Nothing about it is proven.
    #[error("no issuer that this gateway trusts has signed the token")]
    Unknown,
    /// It is none of this gateway, and of no form that an issuer signs.
    #[error("this gateway knows no such token: it may be incomplete, or of another cell")]
    Foreign,
    /// Try again once the provider has answered.
    #[error("this gateway has no keys of issuer {0:?} yet, because its provider has not answered; try again")]
    KeysAbsent(String),
    #[error("the token is for another audience; this gateway takes {0:?}")]
    Audience(String),
    #[error("the token's claim {0:?} is missing or no time; accepted: seconds since 1970")]
    Time(&'static str),
    #[error(
        "the token expired {0} s ago; a login gets another: borough auth login; else an administrator makes one: \
         borough auth token"
    )]
    Expired(i64),
    #[error("the token is valid in {0} s only: look at the clocks of its issuer and of this cell")]
    Early(i64),
    #[error("the token's claim {claim:?} is no user's name: {why}")]
    User { claim: String, why: String },
    #[error("the token has {0} bytes; accepted: 8192 at most")]
    Long(usize),
    #[error("the token has {0} groups; accepted: {GROUPS_MAX} at most")]
    Groups(usize),
}

/// An issuer with its keys.
#[derive(Clone)]
struct TrustedIssuer {
    settings: Arc<IssuerSettings>,
    /// Where its keys come from; absent: they are in the settings.
    source: Option<KeySource>,
    /// As they were published. Absent: not known.
    published: Option<Arc<JwkSet>>,
    keys: Arc<Vec<IssuerKey>>,
}

struct IssuerKey {
    id: Option<String>,
    /// Absent: any of the key's family.
    algorithm: Option<Algorithm>,
    key: DecodingKey,
}

/// A token whose signature and claims were right.
#[derive(Clone, Debug)]
struct CheckedToken {
    identity: Arc<Identity>,
    /// Seconds since 1970.
    not_before_s: i64,
    expires_s: i64,
}

/// Whom a token proves its sender to be, and how long.
#[derive(Clone, Debug)]
pub(crate) struct ProvenIdentity {
    pub(crate) identity: Arc<Identity>,
    pub(crate) end: CredentialEnd,
}

/// When a credential counts no longer: a call that goes on ends then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CredentialEnd {
    /// Seconds since 1970.
    expires_s: i64,
}

impl CredentialEnd {
    #[cfg(test)]
    pub(crate) fn expiring(expires_s: i64) -> Self {
        Self { expires_s }
    }

    /// How long the credential still counts.
    ///
    /// # Errors
    /// It has expired.
    pub(crate) fn left(self, now_ms: i64) -> Result<Duration, TokenRefused> {
        let end_ms = self.expires_s.saturating_add(SKEW_S).saturating_mul(1_000);
        match u64::try_from(end_ms.saturating_sub(now_ms)) {
            Ok(left @ 1..) => Ok(Duration::from_millis(left)),
            _ => Err(TokenRefused::Expired((now_ms / 1_000).saturating_sub(self.expires_s))),
        }
    }
}

/// The issuers that a gateway trusts. Clones share them.
#[derive(Clone)]
pub struct Issuers {
    shared: Arc<SharedIssuers>,
}

type TrustedIssuers = Vec<TrustedIssuer>;

struct SharedIssuers {
    trusted: RwLock<Arc<TrustedIssuers>>,
    /// By the digest of the token. Emptied when the issuers change.
    checked: Cache<TokenDigest, CheckedToken>,
    clock: OnceLock<Arc<dyn Clock>>,
    /// A token had no known key, though a provider may have published it meanwhile.
    unknown: Notify,
}

impl std::fmt::Debug for Issuers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<String> =
            self.shared.trusted.read().iter().map(|issuer| issuer.settings.issuer.clone()).collect();
        f.debug_tuple("Issuers").field(&names).finish()
    }
}

impl Default for Issuers {
    fn default() -> Self {
        let checked = Cache::builder().max_capacity(CHECKED_MAX).build();
        let (trusted, unknown) = (RwLock::default(), Notify::new());
        Self { shared: Arc::new(SharedIssuers { trusted, checked, clock: OnceLock::new(), unknown }) }
    }
}

impl Issuers {
    /// Trusts these issuers from now on, and no others. Keys that a provider has published stay.
    ///
    /// # Errors
    /// An issuer that cannot be used; those known stay.
    pub fn replace(&self, settings: Vec<IssuerSettings>) -> Result<(), IssuerRefused> {
        let mut trusted = settings.into_iter().map(TrustedIssuer::of).collect::<Result<Vec<_>, _>>()?;
        let mut known = self.shared.trusted.write();
        for issuer in trusted.iter_mut().filter(|issuer| issuer.source.is_some()) {
            if let Some(before) = known.iter().find(|before| before.source == issuer.source) {
                (issuer.published, issuer.keys) = (before.published.clone(), Arc::clone(&before.keys));
            }
        }
        *known = Arc::new(trusted);
        drop(known);
        // A key that is gone ends its tokens.
        self.shared.checked.invalidate_all();
        Ok(())
    }

    /// Where keys are published that are not in a file.
    pub fn sources(&self) -> BTreeSet<KeySource> {
        self.shared.trusted.read().iter().filter_map(|issuer| issuer.source.clone()).collect()
    }

    /// Takes the keys of a source, `None`: it has none any more. Returns whether they are other ones than before.
    ///
    /// # Errors
    /// Keys that cannot be used; those known stay.
    pub fn published(&self, source: &KeySource, keys: Option<JwkSet>) -> Result<bool, IssuerRefused> {
        let usable = keys.as_ref().map_or_else(|| Ok(Vec::new()), usable_keys)?;
        let (keys, usable) = (keys.map(Arc::new), Arc::new(usable));
        let mut known = self.shared.trusted.write();
        let is_new =
            |issuer: &TrustedIssuer| issuer.source.as_ref() == Some(source) && issuer.published != keys;
        if !known.iter().any(is_new) {
            return Ok(false);
        }
        let mut trusted = TrustedIssuers::clone(&known);
        for issuer in trusted.iter_mut().filter(|issuer| is_new(issuer)) {
            (issuer.published, issuer.keys) = (keys.clone(), Arc::clone(&usable));
        }
        *known = Arc::new(trusted);
        drop(known);
        self.shared.checked.invalidate_all();
        Ok(true)
    }

    /// Ends when a token came whose key a provider may have published meanwhile.
    pub async fn unknown_key(&self) {
        self.shared.unknown.notified().await;
    }

    /// Judges tokens by this clock. The first one counts.
    pub fn clock_set(&self, clock: Arc<dyn Clock>) {
        self.shared.clock.set(clock).ok();
    }

    /// The identity that a token with this digest proves; `None` if it is no JWT at all.
    ///
    /// # Errors
    /// Why it does not count.
    pub(crate) fn identity(
        &self,
        token: &[u8],
        digest: TokenDigest,
    ) -> Option<Result<ProvenIdentity, TokenRefused>> {
        let shared = &*self.shared;
        let trusted = Arc::clone(&shared.trusted.read());
        if token.iter().filter(|byte| **byte == b'.').count() != 2 {
            return None;
        }
        if trusted.is_empty() {
            return Some(Err(TokenRefused::Unknown));
        }
        let now_ms = shared.clock.get().map(|clock| clock.wall_ms())?;
        if let Some(checked) = shared.checked.get(&digest) {
            return Some(checked.valid_at(now_ms));
        }
        let checked = match checked_token(&trusted, token) {
            Ok(checked) => checked,
            Err(refused) => {
                if refused == TokenRefused::Unknown && trusted.iter().any(|issuer| issuer.source.is_some()) {
                    shared.unknown.notify_one();
                    return Some(Err(keys_absent(&trusted, token).unwrap_or(refused)));
                }
                return Some(Err(refused));
            }
        };
        shared.checked.insert(digest, checked.clone());
        // The issuers may have changed meanwhile: what was checked by old keys must not stay.
        if !Arc::ptr_eq(&trusted, &shared.trusted.read()) {
            shared.checked.invalidate(&digest);
        }
        Some(checked.valid_at(now_ms))
    }
}

impl TrustedIssuer {
    fn of(settings: IssuerSettings) -> Result<Self, IssuerRefused> {
        let named = [
            ("issuer", &settings.issuer),
            ("audience", &settings.audience),
            ("user_claim", &settings.user_claim),
            ("groups_claim", &settings.groups_claim),
        ];
        if let Some((field, _)) = named.into_iter().find(|(_, text)| text.is_empty()) {
            return Err(IssuerRefused::Empty(field));
        }
        let source = KeySource::of(&settings)?;
        let keys = settings.jwks.as_ref().map_or_else(|| Ok(Vec::new()), usable_keys)?;
        let published = settings.jwks.clone().map(Arc::new);
        Ok(Self { settings: Arc::new(settings), source, published, keys: Arc::new(keys) })
    }
}

/// The public half of a key, under a name that follows from it (RFC 7638).
///
/// # Errors
/// The key is none of ES256.
pub fn public_jwk(signing: &EncodingKey) -> jsonwebtoken::errors::Result<Jwk> {
    let mut jwk = Jwk::from_encoding_key(signing, Algorithm::ES256)?;
    jwk.common.key_id = Some(jwk.thumbprint(ThumbprintHash::SHA256)?);
    Ok(jwk)
}

/// The keys of a set that can check signatures.
fn usable_keys(jwks: &JwkSet) -> Result<Vec<IssuerKey>, IssuerRefused> {
    let count = jwks.keys.len();
    if !(1..=KEYS_MAX).contains(&count) {
        return Err(IssuerRefused::KeyCount(count));
    }
    let keys: Vec<IssuerKey> = jwks.keys.iter().filter_map(IssuerKey::of).collect();
    if keys.is_empty() { Err(IssuerRefused::NoKey(count)) } else { Ok(keys) }
}

/// The refusal of a token that says it is of an issuer whose keys are not known. Nothing of it is proven.
fn keys_absent(trusted: &[TrustedIssuer], token: &[u8]) -> Option<TokenRefused> {
    let claims = jsonwebtoken::dangerous::insecure_decode_claims::<Map<String, Value>>(token).ok()?;
    let named = claims.get("iss")?.as_str()?;
    let issuer = trusted.iter().find(|issuer| issuer.settings.issuer == named)?;
    issuer.published.is_none().then(|| TokenRefused::KeysAbsent(issuer.settings.issuer.clone()))
}

impl IssuerKey {
    /// A key that can check signatures. Providers publish others beside them, and shared secrets never count.
    fn of(jwk: &Jwk) -> Option<Self> {
        let id = jwk.common.key_id.clone();
        if jwk.common.public_key_use.as_ref().is_some_and(|used| *used != PublicKeyUse::Signature) {
            return None;
        }
        let key = DecodingKey::from_jwk(jwk).ok()?;
        if !ALGORITHMS.iter().any(|algorithm| algorithm.family() == key.family()) {
            return None;
        }
        let algorithm = match jwk.common.key_algorithm {
            None => None,
            Some(named) => Some(named.to_string().parse().ok().filter(|known| ALGORITHMS.contains(known))?),
        };
        Some(Self { id, algorithm, key })
    }

    fn may_have_signed(&self, header: &Header) -> bool {
        let named = match (&self.id, &header.kid) {
            (Some(own), Some(wanted)) => own == wanted,
            // Without a name any key of the issuer may be meant.
            _ => true,
        };
        named
            && self.algorithm.is_none_or(|algorithm| algorithm == header.alg)
            && self.key.family() == header.alg.family()
    }
}

/// Checks the signature and the claims of a token. What depends on the time is left.
fn checked_token(trusted: &[TrustedIssuer], token: &[u8]) -> Result<CheckedToken, TokenRefused> {
    let header = jsonwebtoken::decode_header(token).map_err(|_| TokenRefused::Unknown)?;
    // Extensions that must be understood (RFC 7515, 4.1.11), of which this reader knows none.
    if !ALGORITHMS.contains(&header.alg) || header.crit.is_some() {
        return Err(TokenRefused::Unknown);
    }
    for issuer in trusted {
        for key in issuer.keys.iter().filter(|key| key.may_have_signed(&header)) {
            let mut rules = Validation::new(header.alg);
            rules.set_issuer(&[&issuer.settings.issuer]);
            rules.set_required_spec_claims(&["iss"]);
            // The time and the audience are judged below, by the cells' clock and with a reason.
            (rules.validate_exp, rules.validate_nbf, rules.validate_aud) = (false, false, false);
            if let Ok(data) = jsonwebtoken::decode::<Map<String, Value>>(token, &key.key, &rules) {
                return issuer.settings.checked(&data.claims);
            }
        }
    }
    Err(TokenRefused::Unknown)
}

impl IssuerSettings {
    fn checked(&self, claims: &Map<String, Value>) -> Result<CheckedToken, TokenRefused> {
        let is_ours = |value: &Value| value.as_str() == Some(&self.audience);
        let ours = match claims.get("aud") {
            Some(Value::Array(all)) => all.iter().any(is_ours),
            Some(one) => is_ours(one),
            None => false,
        };
        if !ours {
            return Err(TokenRefused::Audience(self.audience.clone()));
        }
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(TokenRefused::Unknown);
        }
        let seconds = |claim: &'static str| {
            let value = claims.get(claim)?;
            // Numbers may have fractions; what is not of this world is no time.
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a float saturates, and its fraction does not count"
            )]
            value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
        };
        let time = |claim| seconds(claim).ok_or(TokenRefused::Time(claim));
        let expires_s = time("exp")?;
        let not_before_s = if claims.contains_key("nbf") { time("nbf")? } else { i64::MIN };
        let user = |why: String| TokenRefused::User { claim: self.user_claim.clone(), why };
        let name = claims.get(&self.user_claim).and_then(Value::as_str);
        let name = name.ok_or_else(|| user("the token does not have it as a text".to_owned()))?;
        let name = Name::new(name).map_err(|error| user(error.to_string()))?;
        let groups = match claims.get(&self.groups_claim) {
            Some(Value::Array(groups)) if groups.len() > GROUPS_MAX => {
                return Err(TokenRefused::Groups(groups.len()));
            }
            // A group that no grant can name gives nothing.
            Some(Value::Array(groups)) => {
                groups.iter().filter_map(Value::as_str).filter_map(|group| Name::new(group).ok()).collect()
            }
            _ => BTreeSet::new(),
        };
        Ok(CheckedToken { identity: Arc::new(Identity { user: name, groups }), not_before_s, expires_s })
    }
}

impl CheckedToken {
    fn valid_at(&self, now_ms: i64) -> Result<ProvenIdentity, TokenRefused> {
        let end = CredentialEnd { expires_s: self.expires_s };
        end.left(now_ms)?;
        let early = self.not_before_s.saturating_sub(now_ms / 1_000);
        if early > SKEW_S {
            return Err(TokenRefused::Early(early));
        }
        Ok(ProvenIdentity { identity: Arc::clone(&self.identity), end })
    }
}

#[cfg(test)]
mod tests;
