//! Identities of tasks: who gets a token, and that the keys of one gateway check what another has signed.

use borough_model::job::IdentitySpec;
use borough_model::{JobId, JobSpec};
use borough_proto::bounds::IDENTITY_ATTEMPTS_MAX;
use borough_proto::v1;
use borough_proto::v1::agent_message::Message as FromAgent;
use borough_proto::v1::gateway_message::Message as ToAgent;
use borough_testkit::name;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::{Agent, World, spec, within};

const TTL_MS: u64 = 60_000;

fn identified(job: u64) -> JobSpec {
    let mut spec = spec(job, 1, 1);
    spec.task.identities = vec![IdentitySpec {
        name: name("vault"),
        audience: "https://vault.example.org".to_owned(),
        ttl_ms: TTL_MS,
    }];
    spec
}

fn attempt(job: u64, incarnation: u64) -> v1::TaskAttempt {
    v1::TaskAttempt { job_id: JobId(job).to_string(), index: 0, incarnation }
}

/// The answer for each of these attempts.
async fn asked(agent: &mut Agent, attempts: Vec<v1::TaskAttempt>) -> Vec<v1::AttemptIdentities> {
    agent.send(FromAgent::Identities(v1::IdentityRequest { attempts }));
    agent
        .next_until("an answer", |message| match message {
            ToAgent::Identities(answer) => Some(answer.attempts.clone()),
            _ => None,
        })
        .await
}

/// The body of a page that needs no token.
async fn page(world: &World, path: &str) -> Value {
    let mut stream = TcpStream::connect(world.http).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    within("a page", stream.read_to_string(&mut text)).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    serde_json::from_str(body).unwrap()
}

/// The claims of a token, checked with the keys that a gateway publishes.
async fn claims(world: &World, token: &str) -> Value {
    let keys: JwkSet = serde_json::from_value(page(world, "/.well-known/jwks.json").await).unwrap();
    let header = jsonwebtoken::decode_header(token).unwrap();
    let key = keys.find(header.kid.as_deref().unwrap()).unwrap();
    let mut rules = Validation::new(Algorithm::ES256);
    rules.set_audience(&["https://vault.example.org"]);
    rules.set_issuer(&["https://borough.internal/v1/cells/alpha"]);
    rules.validate_nbf = true;
    jsonwebtoken::decode::<Value>(token, &DecodingKey::from_jwk(key).unwrap(), &rules).unwrap().claims
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_sign_with_the_same_keys_and_say_who_the_task_is() {
    let first = World::start().await;
    let second = first.beside().await;
    let mut agent = first.agent().await;
    first.place(agent.node, &[(JobId(1), identified(1))]).await;
    agent.held_until("the attempt", |held| !held.assignments.is_empty()).await;
    let given = asked(&mut agent, vec![attempt(1, 1)]).await.remove(0);
    assert_eq!((given.error.as_str(), given.renew_after_ms), ("", TTL_MS / 2));
    let token = &given.tokens[0];
    assert_eq!(token.name, "vault");
    let known = claims(&second, &token.token).await;
    let text = |claim: &str| known[claim].as_str().unwrap().to_owned();
    assert_eq!(text("sub"), "spiffe://borough.internal/cell/alpha/user/ada/job/job-1/task/0");
    assert_eq!((text("cell"), text("user"), text("job")), ("alpha".into(), "ada".into(), "job-1".into()));
    assert_eq!((known["index"].as_u64(), known["incarnation"].as_u64()), (Some(0), Some(1)));
    let (issued, ends) = (known["iat"].as_i64().unwrap(), known["exp"].as_i64().unwrap());
    assert_eq!((ends - issued, known["nbf"].as_i64()), (60, Some(issued)));
    // The other gateway signs with the same key, and each token is another one.
    let mut agent = second.agent().await;
    let again = asked(&mut agent, vec![attempt(1, 1)]).await.remove(0).tokens.remove(0);
    let other = claims(&first, &again.token).await;
    assert_eq!(other["sub"], known["sub"]);
    assert_ne!(other["jti"], known["jti"]);
    let of = |token: &str| jsonwebtoken::decode_header(token).unwrap().kid;
    assert_eq!(of(&again.token), of(&token.token));
    let keys = page(&first, "/v1/cells/alpha/.well-known/jwks.json").await;
    assert_eq!(keys, page(&second, "/.well-known/jwks.json").await);
    assert!(!keys.to_string().contains("\"d\""), "no private key: {keys}");
    let discovery = page(&first, "/.well-known/openid-configuration").await;
    assert_eq!(discovery["issuer"], "https://borough.internal/v1/cells/alpha");
    assert_eq!(discovery["jwks_uri"], "https://borough.internal/v1/cells/alpha/.well-known/jwks.json");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_gets_tokens_of_its_own_attempts_and_of_no_other() {
    let world = World::start().await;
    let mut agent = world.agent().await;
    let mut stranger = world.agent_on("n2").await;
    world.place(agent.node, &[(JobId(1), identified(1)), (JobId(2), spec(2, 1, 1))]).await;
    agent.held_until("the attempts", |held| held.assignments.len() == 2).await;
    let mut none = attempt(1, 1);
    none.job_id = "no job".to_owned();
    for (attempt, why) in [
        (attempt(1, 1), "not assigned to this node"),
        (attempt(9, 1), "not assigned to this node"),
        (none, "not assigned to this node"),
    ] {
        let refused = asked(&mut stranger, vec![attempt.clone()]).await.remove(0);
        assert!(refused.tokens.is_empty() && refused.error.contains(why), "{attempt:?}: {refused:?}");
    }
    let given = asked(&mut agent, vec![attempt(1, 1), attempt(1, 2), attempt(2, 1)]).await;
    let tokens: Vec<usize> = given.iter().map(|of| of.tokens.len()).collect();
    assert_eq!(tokens, [1, 0, 0], "{given:?}");
    assert!(given[2].error.contains("asks for no identity"), "{given:?}");
    // Another attempt of the task is elsewhere, and this one is over.
    world.stop(borough_model::TaskId { job: JobId(1), index: 0 }).await;
    agent.held_until("the stop", |held| !held.stops.is_empty()).await;
    agent.send(FromAgent::Identities(v1::IdentityRequest {
        attempts: vec![attempt(1, 1); IDENTITY_ATTEMPTS_MAX + 1],
    }));
    assert!(agent.ended().await.message().contains("more attempts at once than its bound"));
}
