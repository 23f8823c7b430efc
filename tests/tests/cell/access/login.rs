//! A person logs in at an OpenID provider by a code. Commands renew the token, until the provider ends the login.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use borough_tests::{Ran, TestCell, options, until};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::provider::Provider;
use super::with_token;

/// What the provider says with a token.
fn given(token: &Path, refresh: &str) -> serde_json::Value {
    let token = std::fs::read_to_string(token).unwrap();
    serde_json::json!({
        "access_token": "opaque", "token_type": "Bearer", "expires_in": 3_600,
        "id_token": token.trim(), "refresh_token": refresh,
    })
}

fn refusal(error: &str) -> serde_json::Value {
    serde_json::json!({"error": error, "error_description": "as \u{1b}[31mthe provider says it"})
}

fn words<'a>(provider: &'a str, ca: &'a str, file: &'a str) -> Vec<&'a str> {
    let login = ["auth", "login", "--token-file", file];
    [&login[..], &["--issuer", provider, "--client-id", "borough", "--provider-ca", ca]].concat()
}

async fn login(cell: &TestCell, provider: &Provider, file: &Path) -> Ran {
    let (url, ca, file) = (provider.url(), provider.text("server/ca.pem"), file.display().to_string());
    cell.borough(&words(&url, &ca, &file)).await
}

/// A cell that trusts the provider, with rights for ann, and the name of a key of the provider.
async fn cell_start(provider: &Provider) -> TestCell {
    let cell = TestCell::start(options!().nodes(1).dev_arguments(&["--issuer", &provider.file()])).await;
    cell.borough(&["auth", "grant", "user/ann", "--role", "viewer"]).await.ended(0);
    let token = provider.rotate("key");
    let counts = async || with_token(&cell, &token, &["job", "list"]).await.code == Some(0);
    until("the keys of the provider", || async { counts().await.then_some(()) }).await;
    cell
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn record(file: &Path) -> PathBuf {
    format!("{}.login.json", file.display()).into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_person_logs_in_by_a_code_and_commands_renew_the_token() {
    let provider = Provider::new().await;
    let served = provider.serve().await;
    let cell = cell_start(&provider).await;
    let file = provider.path("ann.token");

    // The code is shown before anybody has entered it.
    let (url, ca, to) = (provider.url(), provider.text("server/ca.pem"), file.display().to_string());
    let mut command = cell.command(&words(&url, &ca, &to));
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = shown.next_line().await.unwrap().unwrap();
    assert!(first.contains(&format!("open {url}/activate in a browser")), "{first}");
    assert!(first.contains("enter the code WDJB-MJHT"), "{first}");
    let waits = || async { provider.asked().iter().any(|asked| asked.starts_with("/token")).then_some(()) };
    until("a question for the token", waits).await;
    assert!(!file.exists());
    let short = provider.token("key", "1m");
    provider.answer_next(200, given(&short, "first"));
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    assert_eq!((mode(&file), mode(&record(&file))), (0o600, 0o600));

    // It ends within a minute: the next command renews it, and the one after that does not.
    provider.asked();
    let long = provider.token("key", "11h");
    provider.answer_next(200, given(&long, "second"));
    with_token(&cell, &file, &["job", "list"]).await.ended(0);
    let asked = provider.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains("grant_type=refresh_token&refresh_token=first"), "{asked:?}");
    let text = |path: &Path| std::fs::read_to_string(path).unwrap().trim().to_owned();
    assert_eq!(text(&file), text(&long));
    with_token(&cell, &file, &["job", "list"]).await.ended(0);
    assert_eq!(provider.asked(), [""; 0]);

    // The same once more needs no arguments, and asks for what the provider has.
    provider.answer_next(200, given(&long, "third"));
    cell.borough(&["auth", "login", "--token-file", &to]).await.ended(0).warns("logged in");
    let asked = provider.asked().join("\n");
    assert!(asked.contains("scope=openid+email+offline_access"), "{asked}");
    assert!(asked.contains("device_code=the-device"), "{asked}");

    cell.borough(&["auth", "logout", "--token-file", &to]).await.ended(0).warns("logged out");
    let asked = provider.asked().join("\n");
    assert!(asked.contains("/revoke ") && asked.contains("token=third"), "{asked}");
    assert!(!file.exists() && !record(&file).exists());
    let again = cell.borough(&["auth", "logout", "--token-file", &to]).await;
    again.warns("is of no login").warns("auth login --issuer URL --client-id ID");
    served.abort();
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_login_that_is_refused_late_or_over_says_what_to_do() {
    let provider = Provider::new().await;
    let cell = cell_start_unserved(&provider).await;
    let file = provider.path("ann.token");
    let away = login(&cell, &provider, &file).await;
    away.warns("does not answer");
    let to = file.display().to_string();
    let none = cell.borough(&["auth", "login", "--token-file", &to]).await.ended(2);
    none.warns("has no login yet; give --issuer and --client-id");
    let unnamed = cell.borough(&["auth", "login", "--issuer", "https://id", "--client-id", "b"]).await;
    unnamed.ended(2).warns("no context is in use").warns("--token-file FILE");

    let served = provider.serve().await;
    for (error, said) in [
        ("access_denied", "the login was refused in the browser"),
        ("expired_token", "nobody has entered the code in time"),
        ("unauthorized_client", "does not let the client \"borough\" log in by a code"),
        ("server_error", "refuses the login: server_error: as \\u{1b}[31mthe provider says it"),
    ] {
        provider.answer_next(400, refusal(error));
        let refused = login(&cell, &provider, &file).await.warns(said);
        assert_ne!(refused.code, Some(0), "{error}");
        assert!(!file.exists(), "{error}");
    }
    let mut without = given(&provider.rotate("key"), "none");
    without["id_token"].take();
    provider.answer_next(200, without);
    login(&cell, &provider, &file).await.warns("gives no identity token; the client needs the scope openid");

    // The provider ends the login: a token that still lasts goes on to count, and the command says what to do.
    let short = provider.token("key", "1m");
    provider.answer_next(200, given(&short, "first"));
    login(&cell, &provider, &file).await.ended(0);
    provider.answer_next(400, refusal("invalid_grant"));
    let listed = async || with_token(&cell, &file, &["auth", "roles"]).await;
    assert!(!listed().await.stderr.contains("renewed"), "it needs no token");
    let warned = with_token(&cell, &file, &["cell", "list"]).await;
    warned.warns("is not renewed: ").warns("has ended the login").warns("auth login");
    served.abort();
    cell.finish().await;
}

async fn cell_start_unserved(provider: &Provider) -> TestCell {
    TestCell::start(options!().nodes(1).dev_arguments(&["--issuer", &provider.file()])).await
}
