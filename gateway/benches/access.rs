//! What it costs to know who asks, and whether they may. The unit of work is one request.

#![expect(clippy::expect_used, reason = "a bench says what it expected")]

use std::hint::black_box;

use borough_gateway::auth::{Credentials, IssuerSettings, Issuers, NodeGrant, NodeToken, Principal, Token};
use borough_kv::env::ManualClock;
use borough_kv::secret::Secret;
use borough_model::Name;
use borough_model::access::{AccessGrant, AccessRole, AccessSubject, AccessTable, ActionNeed, Right};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http::{HeaderMap, HeaderValue, header};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};

/// Users with a grant, and groups of the caller.
const USERS: usize = 500;
const GROUPS: usize = 16;

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn secret() -> Token {
    Token::new(Secret::generate("bench").expect("a secret"))
}

/// Credentials of a gateway with as many tokens of nodes, and the headers of a user's call.
fn credentials(nodes: usize) -> (Credentials, HeaderMap) {
    let pem = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key").serialize_pem();
    let key = EncodingKey::from_ec_pem(pem.as_bytes()).expect("a key");
    let jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).expect("a key");
    let settings = IssuerSettings {
        issuer: "bench".to_owned(),
        audience: "borough".to_owned(),
        user_claim: "sub".to_owned(),
        groups_claim: "groups".to_owned(),
        jwks: Some(JwkSet { keys: vec![jwk] }),
        jwks_url: None,
        jwks_ca: None,
    };
    let groups: Vec<String> = (0..GROUPS).map(|number| format!("group-{number}")).collect();
    let claims = serde_json::json!({"iss": "bench", "aud": "borough", "sub": "user-7", "groups": groups, "exp": 2_000});
    let token = jsonwebtoken::encode(&Header::new(Algorithm::ES256), &claims, &key).expect("a token");
    let issuers = Issuers::default();
    issuers.replace(vec![settings]).expect("an issuer");
    issuers.clock_set(ManualClock::at(1_000_000));
    let grant = |number| NodeGrant { cell: name("alpha"), node: Some(name(&format!("n{number}"))) };
    let nodes = (0..nodes).map(|number| NodeToken { token: secret(), grant: grant(number) }).collect();
    let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a header");
    let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
    (Credentials::new(secret(), nodes).with_issuers(issuers), headers)
}

fn table() -> AccessTable {
    let grant = |role| AccessGrant { roles: [role].into(), ..AccessGrant::default() };
    let users = (0..USERS)
        .map(|number| (AccessSubject::User(name(&format!("user-{number}"))), grant(AccessRole::Viewer)));
    let groups = (0..USERS).map(|number| {
        (AccessSubject::Group(name(&format!("group-{number}"))), grant(AccessRole::Maintainer))
    });
    AccessTable { grants: users.chain(groups).collect(), ..AccessTable::default() }
}

fn access(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("access");
    group.throughput(Throughput::Elements(1));
    for nodes in [0, 1_000] {
        let (credentials, headers) = credentials(nodes);
        group.bench_function(format!("token_known_beside_{nodes}_tokens_of_nodes"), |bencher| {
            bencher.iter(|| credentials.principal(black_box(&headers)).expect("a user"));
        });
    }
    let (credentials, headers) = credentials(0);
    let proven = credentials.principal(&headers).map(|caller| caller.principal);
    let Ok(Principal::User(identity)) = proven else { return };
    let (table, owner) = (table(), name("user-9"));
    let need = ActionNeed::Own { others: Right::ModifyAnyJob };
    group.bench_function("decision_among_1000_grants", |bencher| {
        bencher.iter(|| need.decide(black_box(&table), &identity, Some(&owner)).expect("allowed"));
    });
    group.finish();
}

criterion_group!(benches, access);
criterion_main!(benches);
