//! Identities of tasks: a token in a file, which others check with the published keys, and which is renewed in time.

use borough_proto::v1::Task;
use borough_tests::{Ran, TestCell, http_get, is_up, options, until};
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::access::with_token;

/// A service with two identities. The one for `beta` is short-lived.
const CALLER: &str = "name: caller\ntask:\n  command: [sh, -c, 'exec sleep 600']\n  grace: 100ms\n  \
    resources: {cpu: 10m, memory: 4MiB}\n  identities:\n  - {name: beta, audience: borough-beta, ttl: 30s}\n  - vault\n";
const ISSUER: &str = "https://id.example.org/v1/cells/alpha";

/// A cell whose gateways are known by a URL.
async fn cell() -> TestCell {
    let url = ["--identity-url", "https://id.example.org"];
    TestCell::start(options!().nodes(1).dev_arguments(&url)).await
}

/// What a command in the task prints.
async fn told(cell: &TestCell, script: &str) -> Ran {
    cell.borough(&["task", "exec", "caller/0", "--", "sh", "-c", script]).await.ended(0)
}

async fn token(cell: &TestCell, variable: &str) -> String {
    told(cell, &format!("cat \"${variable}\"")).await.stdout
}

async fn keys(cell: &TestCell) -> JwkSet {
    let (status, body) = http_get(&cell.http(), "/.well-known/jwks.json", None).await.unwrap();
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// The claims of a token that is valid now.
fn claims(keys: &JwkSet, token: &str, audience: &str) -> Value {
    let header = jsonwebtoken::decode_header(token).unwrap();
    let key = keys.find(header.kid.as_deref().unwrap()).unwrap();
    let mut rules = Validation::new(Algorithm::ES256);
    rules.leeway = 0;
    rules.set_audience(&[audience]);
    rules.set_issuer(&[ISSUER]);
    jsonwebtoken::decode::<Value>(token, &DecodingKey::from_jwk(key).unwrap(), &rules).unwrap().claims
}

/// Waits until the task has another token than `before`.
async fn renewed(cell: &TestCell, variable: &str, before: &str) -> String {
    let script = format!("cat \"${variable}\"");
    until("another token", || async {
        let words = ["task", "exec", "caller/0", "--", "sh", "-c", &script];
        let now = cell.borough(&words).await;
        (now.code == Some(0) && !now.stdout.is_empty() && now.stdout != before).then_some(now.stdout)
    })
    .await
}

async fn task(cell: &TestCell) -> Task {
    cell.tasks_until("caller", "up", |tasks| is_up(tasks, 1)).await.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_task_shows_who_it_is_to_whoever_has_the_published_keys() {
    let cell = cell().await;
    cell.run("caller.yaml", CALLER).await;
    let (task, keys) = (task(&cell).await, keys(&cell).await);
    let claims = claims(&keys, &token(&cell, "BOROUGH_IDENTITY_VAULT").await, "vault");
    assert_eq!(claims["sub"], "spiffe://id.example.org/cell/alpha/user/tester/job/caller/task/0");
    let expected = json!(["alpha", "tester", "caller", 0, task.incarnation]);
    let who = ["cell", "user", "job", "index", "incarnation"].map(|claim| claims[claim].clone());
    assert_eq!(json!(who), expected);
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 3_600);
    // The file is the task's own, and nobody else may read it.
    let file =
        told(&cell, "stat -c '%a %u' \"$BOROUGH_IDENTITY_VAULT\"; id -u; echo \"$BOROUGH_IDENTITY_VAULT\"")
            .await;
    let lines: Vec<&str> = file.stdout.lines().collect();
    assert_eq!(lines[0], format!("600 {}", lines[1]));
    assert!(lines[2].ends_with("/identity-vault.jwt"), "{lines:?}");
    let (status, body) = http_get(&cell.http(), "/.well-known/openid-configuration", None).await.unwrap();
    assert_eq!(status, 200);
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["issuer"], ISSUER);
    let (status, _) = http_get(&cell.http(), "/v1/cells/beta/.well-known/jwks.json", None).await.unwrap();
    assert_eq!(status, 404);
    // Nothing that people and programs read has a token or a key.
    let vault = token(&cell, "BOROUGH_IDENTITY_VAULT").await;
    for words in [
        &["job", "status", "caller", "-o", "json"][..],
        &["task", "status", "caller/0", "-o", "json"],
        &["event", "list", "-o", "json"],
        &["audit", "list", "-o", "json"],
        &["cell", "show", "-o", "json"],
    ] {
        let shown = cell.borough(words).await;
        let signature = vault.rsplit('.').next().unwrap();
        assert!(!shown.stdout.contains(signature) && !shown.stderr.contains(signature), "{words:?}");
    }
    cell.finish().await;
}

/// The user and the cell of a task are those that another cell grants to.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_cell_accepts_the_token_of_a_task() {
    let cell = cell().await;
    cell.run("caller.yaml", CALLER).await;
    task(&cell).await;
    let issuer = json!({
        "issuer": ISSUER, "audience": "borough-beta", "user_claim": "user", "jwks": keys(&cell).await,
    });
    let directory = tempfile::tempdir().unwrap();
    let (file, taken) = (directory.path().join("alpha.json"), directory.path().join("token"));
    std::fs::write(&file, issuer.to_string()).unwrap();
    let file = file.display().to_string();
    let other = TestCell::start(options!().nodes(0).dev_arguments(&["--issuer", &file])).await;
    other.borough(&["auth", "grant", "user/tester", "--role", "viewer"]).await.ended(0);
    let write = |text: &str| {
        std::fs::write(&taken, text).unwrap();
        std::fs::set_permissions(&taken, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    };
    write(&token(&cell, "BOROUGH_IDENTITY_BETA").await);
    with_token(&other, &taken, &["auth", "whoami"]).await.ended(0).prints("tester");
    with_token(&other, &taken, &["job", "list"]).await.ended(0);
    // A token for somebody else is none for this cell.
    write(&token(&cell, "BOROUGH_IDENTITY_VAULT").await);
    with_token(&other, &taken, &["job", "list"]).await.warns("the token is for another audience");
    other.finish().await;
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_token_is_renewed_in_time_whatever_starts_again() {
    let mut cell = cell().await;
    cell.run("caller.yaml", CALLER).await;
    let begun = task(&cell).await;
    let first = token(&cell, "BOROUGH_IDENTITY_BETA").await;
    let published = keys(&cell).await;
    let ends = |token: &str| claims(&published, token, "borough-beta")["exp"].as_i64().unwrap();
    let second = renewed(&cell, "BOROUGH_IDENTITY_BETA", &first).await;
    // The first is still valid, as `claims` checks.
    assert!(ends(&first) < ends(&second));
    // An agent that starts again has nothing in memory.
    let agent = cell.agent_found("alpha-1").await;
    agent.signal(Signal::KILL).unwrap();
    let third = renewed(&cell, "BOROUGH_IDENTITY_BETA", &second).await;
    assert!(ends(&third) >= ends(&second));
    // A gateway that starts again signs with the key that it finds.
    cell.control_kill();
    cell.control_start().await;
    let fourth = renewed(&cell, "BOROUGH_IDENTITY_BETA", &third).await;
    ends(&fourth);
    assert_eq!(keys(&cell).await, published);
    let now = task(&cell).await;
    assert_eq!((now.pid, now.incarnation), (begun.pid, begun.incarnation), "nothing was started again");
    cell.finish().await;
}

/// The names of the keys that gateways publish.
async fn published(cell: &TestCell) -> Vec<String> {
    keys(cell).await.keys.into_iter().filter_map(|key| key.common.key_id).collect()
}

/// What `auth keys` shows: the name of each key, and what it does.
fn uses(shown: &Ran) -> Vec<(String, String)> {
    let keys = shown.json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    keys.as_array().unwrap().iter().map(|key| (text(&key["id"]), text(&key["use"]))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_is_rotated_before_its_time_and_a_stolen_one_is_withdrawn() {
    let cell = cell().await;
    cell.run("caller.yaml", CALLER).await;
    task(&cell).await;
    let kid = |token: &str| jsonwebtoken::decode_header(token.trim()).unwrap().kid.unwrap();
    let before = token(&cell, "BOROUGH_IDENTITY_BETA").await;
    let first = kid(&before);

    // Published ahead, then that one at once. Tokens of the key before still count.
    let ahead = cell.borough(&["auth", "keys", "rotate", "--ahead", "1h", "-o", "json"]).await.ended(0);
    let shown = uses(&ahead);
    assert_eq!((shown[0].0.as_str(), shown[0].1.as_str(), shown[1].1.as_str()), (&*first, "signs", "next"));
    cell.borough(&["auth", "keys", "rotate", "--ahead", "0s"])
        .await
        .ended(0)
        .prints("signs")
        .prints("checks");
    let listed = uses(&cell.borough(&["auth", "keys", "list", "-o", "json"]).await.ended(0));
    let now = listed.iter().find(|(_, key_use)| key_use == "signs").unwrap().0.clone();
    assert_eq!((listed.len(), &now), (2, &shown[1].0), "the next key signs sooner, and no other is made");
    until("the published keys", || async { (published(&cell).await.len() == 2).then_some(()) }).await;
    claims(&keys(&cell).await, before.trim(), "borough-beta");
    let second = renewed(&cell, "BOROUGH_IDENTITY_BETA", &before).await;
    assert_eq!(kid(&second), now);

    // The emergency: nothing of the keys before is left.
    cell.borough(&["auth", "keys", "rotate", "--withdraw"]).await.ended(2);
    cell.borough(&["--yes", "auth", "keys", "rotate", "--withdraw"]).await.ended(0);
    let last = until("the one key", || async {
        <[String; 1]>::try_from(published(&cell).await).ok().map(|[only]| only)
    })
    .await;
    assert!(last != first && last != now);
    until("a token of the new key", || async {
        let token = token(&cell, "BOROUGH_IDENTITY_BETA").await;
        (kid(&token) == last).then_some(())
    })
    .await;
    let audit =
        cell.borough(&["audit", "list", "--method", "RotateIdentityKeys", "-o", "json"]).await.ended(0);
    assert_eq!(audit.json().as_array().unwrap().len(), 3, "{audit:?}");
    cell.finish().await;
}
