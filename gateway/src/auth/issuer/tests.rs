//! Tokens of users: what proves an identity, and what proves nothing.

use borough_kv::env::ManualClock;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{EncodingKey, encode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::json;

use super::super::digest_of;
use super::*;

/// An issuer with its secret key.
pub(crate) struct TestIssuer {
    key: EncodingKey,
    pub(crate) settings: IssuerSettings,
}

impl TestIssuer {
    pub(crate) fn new(issuer: &str, kid: &str) -> Self {
        let pem = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap().serialize_pem();
        let key = EncodingKey::from_ec_pem(pem.as_bytes()).unwrap();
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap();
        jwk.common.key_id = Some(kid.to_owned());
        let settings = IssuerSettings {
            issuer: issuer.to_owned(),
            audience: "borough".to_owned(),
            user_claim: subject_claim(),
            groups_claim: groups_claim(),
            jwks: Some(JwkSet { keys: vec![jwk] }),
            jwks_url: None,
            jwks_ca: None,
        };
        Self { key, settings }
    }

    fn signed(&self, kid: Option<&str>, claims: &Value) -> String {
        let header = Header { kid: kid.map(str::to_owned), ..Header::new(Algorithm::ES256) };
        encode(&header, claims, &self.key).unwrap()
    }

    /// A token of a user that is valid until the second `exp`.
    pub(crate) fn token(&self, user: &str, groups: &[&str], exp: i64) -> String {
        let claims =
            json!({"iss": self.settings.issuer, "aud": "borough", "sub": user, "groups": groups, "exp": exp});
        self.signed(Some("one"), &claims)
    }
}

fn at(ms: i64) -> Arc<ManualClock> {
    ManualClock::at(ms)
}

fn trusting(issuers: &[&TestIssuer], clock: Arc<dyn Clock>) -> Issuers {
    let trusted = Issuers::default();
    trusted.replace(issuers.iter().map(|issuer| issuer.settings.clone()).collect()).unwrap();
    trusted.clock_set(clock);
    trusted
}

fn of(issuers: &Issuers, token: &str) -> Result<Identity, TokenRefused> {
    let answer = issuers.identity(token.as_bytes(), digest_of(token.as_bytes())).expect("it is a JWT");
    answer.map(|proven| Identity::clone(&proven.identity))
}

#[test]
fn a_token_proves_the_user_and_the_groups_of_its_claims() {
    let own = TestIssuer::new("https://id", "one");
    let issuers = trusting(&[&own], at(1_000_000));
    let identity = of(&issuers, &own.token("ann", &["web", "No Such Name", "ops"], 2_000)).unwrap();
    assert_eq!(identity.user.as_str(), "ann");
    assert_eq!(identity.groups.iter().map(Name::as_str).collect::<Vec<_>>(), ["ops", "web"]);
    assert!(
        issuers.identity(b"borough-operator-0123", [0; 32]).is_none(),
        "no JWT is somebody else's to judge"
    );
    let claims = json!({"iss": "https://id", "aud": ["other", "borough"], "sub": "ann", "exp": 2_000.5});
    assert!(of(&issuers, &own.signed(None, &claims)).is_ok(), "without a kid, several audiences, a fraction");
}

#[test]
fn what_no_trusted_key_signed_proves_nothing() {
    let (own, other) = (TestIssuer::new("https://id", "one"), TestIssuer::new("https://id", "one"));
    let issuers = trusting(&[&own], at(1_000_000));
    assert_eq!(of(&issuers, &other.token("ann", &[], 2_000)), Err(TokenRefused::Unknown));
    let foreign = json!({"iss": "https://evil", "aud": "borough", "sub": "ann", "exp": 2_000});
    assert_eq!(of(&issuers, &own.signed(Some("one"), &foreign)), Err(TokenRefused::Unknown));
    let whole = own.token("ann", &[], 2_000);
    let parts: Vec<&str> = whole.split('.').collect();
    let [head, body, signature] = parts[..] else { panic!("{whole}") };
    let none = "eyJhbGciOiJub25lIn0";
    for forged in [
        format!("{head}.{body}."),
        format!("{none}.{body}."),
        format!("{none}.{body}.{signature}"),
        format!("{head}.{}.{signature}", body.replace('a', "b")),
        format!("{head}..{signature}"),
        "..".to_owned(),
    ] {
        assert_eq!(of(&issuers, &forged), Err(TokenRefused::Unknown), "{forged}");
    }
    // The public key as the secret of a symmetric signature: the classic confusion of algorithms.
    let public = serde_json::to_vec(&own.settings.jwks.as_ref().unwrap().keys[0]).unwrap();
    let claims = json!({"iss": "https://id", "aud": "borough", "sub": "ann", "exp": 2_000});
    let confused =
        encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(&public)).unwrap();
    assert_eq!(of(&issuers, &confused), Err(TokenRefused::Unknown));
    let header = Header { crit: Some(vec!["b64".to_owned()]), ..Header::new(Algorithm::ES256) };
    let extended = encode(&header, &claims, &own.key).unwrap();
    assert_eq!(of(&issuers, &extended), Err(TokenRefused::Unknown), "an extension that must be understood");
    let several =
        json!({"iss": ["https://evil", "https://id"], "aud": "borough", "sub": "ann", "exp": 2_000});
    assert_eq!(of(&issuers, &own.signed(None, &several)), Err(TokenRefused::Unknown));
    assert!(of(&issuers, &whole).is_ok());
}

#[test]
fn time_ends_a_token_also_one_that_was_checked_before() {
    let own = TestIssuer::new("https://id", "one");
    let clock = at(1_000_000);
    let issuers = trusting(&[&own], Arc::clone(&clock) as Arc<dyn Clock>);
    let token = own.token("ann", &[], 1_100);
    assert!(of(&issuers, &token).is_ok());
    clock.advance(std::time::Duration::from_secs(159));
    assert!(of(&issuers, &token).is_ok(), "the clocks may be a minute apart");
    clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(of(&issuers, &token), Err(TokenRefused::Expired(60)));
    let later = json!({"iss": "https://id", "aud": "borough", "sub": "ann", "exp": 9_000, "nbf": 1_221});
    assert_eq!(of(&issuers, &own.signed(Some("one"), &later)), Err(TokenRefused::Early(61)));
    let forever = json!({"iss": "https://id", "aud": "borough", "sub": "ann"});
    assert_eq!(of(&issuers, &own.signed(Some("one"), &forever)), Err(TokenRefused::Time("exp")));
    let vague = json!({"iss": "https://id", "aud": "borough", "sub": "ann", "exp": 9_000, "nbf": "tomorrow"});
    assert_eq!(of(&issuers, &own.signed(Some("one"), &vague)), Err(TokenRefused::Time("nbf")));
}

#[test]
fn a_signed_token_that_is_not_for_us_says_why() {
    let own = TestIssuer::new("https://id", "one");
    let issuers = trusting(&[&own], at(1_000_000));
    let with = |claims: Value| of(&issuers, &own.signed(Some("one"), &claims)).unwrap_err();
    let audience = with(json!({"iss": "https://id", "aud": "mail", "sub": "ann", "exp": 2_000}));
    assert_eq!(audience, TokenRefused::Audience("borough".to_owned()));
    let missing = with(json!({"iss": "https://id", "sub": "ann", "exp": 2_000}));
    assert_eq!(missing, TokenRefused::Audience("borough".to_owned()));
    let name = with(json!({"iss": "https://id", "aud": "borough", "sub": "Ann Lee", "exp": 2_000}));
    assert!(matches!(name, TokenRefused::User { .. }), "{name}");
    let many: Vec<String> = (0..GROUPS_MAX + 1).map(|number| format!("g{number}")).collect();
    let groups =
        with(json!({"iss": "https://id", "aud": "borough", "sub": "ann", "exp": 2_000, "groups": many}));
    assert_eq!(groups, TokenRefused::Groups(GROUPS_MAX + 1));
}

#[test]
fn a_key_that_is_taken_away_ends_its_tokens() {
    let (old, new) = (TestIssuer::new("https://id", "one"), TestIssuer::new("https://id", "one"));
    let issuers = trusting(&[&old], at(1_000_000));
    let token = old.token("ann", &[], 2_000);
    assert!(of(&issuers, &token).is_ok());
    issuers.replace(vec![old.settings, new.settings.clone()]).unwrap();
    assert!(
        of(&issuers, &token).is_ok() && of(&issuers, &new.token("ann", &[], 2_000)).is_ok(),
        "both, for a while"
    );
    issuers.replace(vec![new.settings]).unwrap();
    assert_eq!(of(&issuers, &token), Err(TokenRefused::Unknown));
}

#[test]
fn keys_that_cannot_check_signatures_are_passed_over_and_must_not_be_all() {
    let own = TestIssuer::new("https://id", "one");
    let mut settings = own.settings.clone();
    let keys = json!([
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
        {"kty": "RSA", "use": "enc", "n": "AQAB", "e": "AQAB", "kid": "for-encryption"},
        {"kty": "RSA", "alg": "RSA-OAEP", "n": "AQAB", "e": "AQAB", "kid": "too"}
    ]);
    let mut keys: Vec<Jwk> = serde_json::from_value(keys).unwrap();
    settings.jwks = Some(JwkSet { keys: keys.clone() });
    let refused = Issuers::default().replace(vec![settings.clone()]).unwrap_err();
    assert_eq!(refused, IssuerRefused::NoKey(3));
    keys.push(own.settings.jwks.unwrap().keys[0].clone());
    settings.jwks = Some(JwkSet { keys });
    assert!(Issuers::default().replace(vec![settings.clone()]).is_ok());
    settings.audience = String::new();
    assert_eq!(Issuers::default().replace(vec![settings]), Err(IssuerRefused::Empty("audience")));
}

/// A provider publishes keys, changes them, and is away.
#[tokio::test]
async fn keys_that_a_provider_publishes_count_until_it_publishes_others() {
    let (own, next) = (TestIssuer::new("https://id", "one"), TestIssuer::new("https://id", "two"));
    let keys = |issuer: &TestIssuer| issuer.settings.jwks.clone();
    let settings = IssuerSettings { jwks: None, ..own.settings.clone() };
    let issuers = Issuers::default();
    issuers.replace(vec![settings.clone()]).unwrap();
    issuers.clock_set(at(1_000_000));
    let source = issuers.sources().into_iter().next().unwrap();
    assert_eq!(source.discovery_url(), "https://id/.well-known/openid-configuration");

    let token = own.token("ann", &[], 2_000);
    assert_eq!(of(&issuers, &token), Err(TokenRefused::KeysAbsent("https://id".to_owned())));
    issuers.unknown_key().await;
    assert_eq!(issuers.published(&source, keys(&own)), Ok(true));
    assert!(of(&issuers, &token).is_ok());
    assert_eq!(issuers.published(&source, keys(&own)), Ok(false), "the same keys end nothing");
    // The file is read again, and the keys stay.
    issuers.replace(vec![settings]).unwrap();
    assert!(of(&issuers, &token).is_ok());
    // What cannot be used changes nothing.
    let none = Some(JwkSet { keys: Vec::new() });
    assert_eq!(issuers.published(&source, none), Err(IssuerRefused::KeyCount(0)));
    assert!(of(&issuers, &token).is_ok());

    let later =
        next.signed(Some("two"), &json!({"iss": "https://id", "aud": "borough", "sub": "ann", "exp": 2_000}));
    assert_eq!(of(&issuers, &later), Err(TokenRefused::Unknown));
    issuers.unknown_key().await;
    assert_eq!(issuers.published(&source, keys(&next)), Ok(true));
    assert_eq!((of(&issuers, &later).is_ok(), of(&issuers, &token)), (true, Err(TokenRefused::Unknown)));
    assert_eq!(issuers.published(&source, None), Ok(true));
    assert_eq!(of(&issuers, &later), Err(TokenRefused::KeysAbsent("https://id".to_owned())));
    let other = KeySource { issuer: "https://other".to_owned(), ..source };
    assert_eq!(issuers.published(&other, keys(&own)), Ok(false), "nobody trusts it");
}

#[test]
fn keys_come_from_one_place_and_over_https_only() {
    let own = TestIssuer::new("http://id", "one").settings;
    let refused =
        |settings: IssuerSettings| Issuers::default().replace(vec![settings]).unwrap_err().to_string();
    let url = |text: &str| Some(text.to_owned());
    assert!(
        refused(IssuerSettings { jwks: None, ..own.clone() })
            .starts_with("issuer is \"http://id\"; accepted: ")
    );
    for wrong in ["http://id/keys", "https://", "https:///keys", "file:///keys", ""] {
        let text = refused(IssuerSettings { jwks: None, jwks_url: url(wrong), ..own.clone() });
        assert!(text.starts_with(&format!("jwks_url is {wrong:?}; accepted: ")), "{text}");
    }
    let both = refused(IssuerSettings { jwks_url: url("https://id/keys"), ..own.clone() });
    assert_eq!(both, "it has jwks and jwks_url; accepted: the keys themselves, or where they are");
    let both = refused(IssuerSettings { jwks_ca: Some("ca.pem".into()), ..own });
    assert!(both.starts_with("it has jwks and jwks_ca"), "{both}");
}
