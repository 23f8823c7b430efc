//! Tokens of users, as the header of a call has them.
//!
//! Property: no text makes the reader panic, and no change of a token proves another identity.

use borough_gateway::auth::{Authenticated, Credentials, IssuerSettings, Issuers, Principal, Token};
use borough_kv::env::ManualClock;
use borough_kv::secret::Secret;
use http::{HeaderMap, HeaderValue, header};

/// A token of the issuer beside this file, whose key nobody has any more.
const VALID: &str = "\
    eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiIsImtpZCI6InpndVJ4SmxUcHp0ODlXMUFHdUMtTC12cS1vQS1HNDBVNjlQdWczU01FUmMifQ.eyJpc3MiOiJib3JvdWdoIiwiYXVkIjoiYm9yb3VnaCIsInN1YiI6ImFubiIsImdyb3VwcyI6WyJ3ZWIiXSwiaWF0IjoxNzk1Njg4NzQ5LCJleHAiOjE4MDM0NjQ3NDl9.dvoE-wpXUagJcwKuHQIEr5aDCeynV0mB1VbONmU-sRb42iO543prvkrhinILcYzix9-qOpUM2hoxW9yE9_bCVQ";
/// A moment at which it is valid, milliseconds since 1970.
const NOW_MS: i64 = 1795688749000;

fn credentials() -> Option<Credentials> {
    let settings: IssuerSettings = serde_json::from_str(include_str!("issuer.json")).ok()?;
    let issuers = Issuers::default();
    issuers.replace(vec![settings]).ok()?;
    issuers.clock_set(ManualClock::at(NOW_MS));
    Some(
        Credentials::new(Token::new(Secret::generate("borough-operator").ok()?), Vec::new())
            .with_issuers(issuers),
    )
}

/// One token.
pub fn run(data: &[u8]) {
    let Some(credentials) = credentials() else { return };
    let Ok(value) = HeaderValue::from_bytes(&[b"Bearer ", data].concat()) else { return };
    let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
    match credentials.principal(&headers) {
        Ok(Authenticated { principal: Principal::User(identity), .. }) => {
            assert_eq!(identity.user.as_str(), "ann")
        }
        Ok(Authenticated { principal: other, .. }) => assert_eq!(data, VALID.as_bytes(), "{other:?}"),
        Err(refused) => assert_ne!(data, VALID.as_bytes(), "{refused}"),
    }
}

/// A token, and what is none.
pub fn corpus() -> Vec<Vec<u8>> {
    [VALID, "a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.", ""]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}
