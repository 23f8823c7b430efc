//! Who may do what: tokens of users, grants, and the refusals that follow from them.

mod login;
mod matrix;
mod provider;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use borough_tests::{DEADLINE, Ran, TestCell, http_get, options, until};
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// An issuer of tokens, and the tokens that it has made, in a directory of its own.
pub(crate) struct TokenIssuer {
    directory: tempfile::TempDir,
}

fn program(arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_borough-under-test"));
    let output = command.args(arguments).output().unwrap();
    Ran::new(arguments.join(" "), &output)
}

impl TokenIssuer {
    pub(crate) fn new() -> Self {
        let issuer = Self { directory: tempfile::tempdir().unwrap() };
        issuer.key_make("key");
        issuer
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The file for gateways.
    pub(crate) fn file(&self) -> String {
        self.text("issuer.json")
    }

    /// Makes another key, whose public half replaces that of the file.
    fn key_make(&self, key: &str) {
        std::fs::remove_file(self.file()).ok();
        program(&["auth", "issuer", "--key", &self.text(key), "--to", &self.file()]).ended(0);
    }

    /// The file of a new token of `user`.
    pub(crate) fn token(&self, user: &str, groups: &[&str]) -> PathBuf {
        self.token_of("key", user, groups)
    }

    fn token_of(&self, key: &str, user: &str, groups: &[&str]) -> PathBuf {
        let to = self.path(&format!("{user}-{key}-{}", groups.join("-")));
        let (key, target) = (self.text(key), to.display().to_string());
        let mut line = vec!["auth", "token", user, "--key", &key, "--to", &target];
        for group in groups {
            line.extend(["--group", group]);
        }
        program(&line).ended(0);
        to
    }
}

/// Runs a verb with a user's token.
pub(crate) async fn with_token(cell: &TestCell, token: &Path, words: &[&str]) -> Ran {
    let token = token.display().to_string();
    // The gateway is named, and the user comes from the token.
    let gateway = cell.grpc();
    let line = [&["--token-file", &token, "--gateway", &gateway, "--cell", "alpha"], words].concat();
    let mut command = cell.command(&line);
    command.env_remove("BOROUGH_USER");
    Ran::new(line.join(" "), &command.output().await.unwrap())
}

const BATCH: &str = "kind: batch\ncount: 1\ntask: {command: [sleep, 600], resources: {cpu: 50m, memory: 4MiB}, grace: 300ms}\n";

fn batch(name: &str) -> String {
    format!("name: {name}\n{BATCH}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_user_does_what_the_grants_say_and_nothing_else() {
    let issuer = TokenIssuer::new();
    let cell = TestCell::start(options!().nodes(1).dev_arguments(&["--issuer", &issuer.file()])).await;
    let (ann, bob) = (issuer.token("ann", &["web"]), issuer.token("bob", &[]));
    let job = cell.file("crunch.yaml", &batch("crunch"));
    // Nobody has granted anything.
    let refused = with_token(&cell, &ann, &["job", "run", "--detach", &job]).await.ended(6);
    refused.warns("ann has no grant of run_jobs here").warns("borough auth grant user/ann --allow run_jobs");
    with_token(&cell, &ann, &["auth", "can-i", "run_jobs"]).await.ended(1).prints("no: ann has no grant");
    cell.borough(&["auth", "grants"]).await.ended(0).warns("no grants in cell alpha");
    cell.borough(&["auth", "grant", "group/web", "--role", "runner"])
        .await
        .ended(0)
        .prints("group/web  runner");
    // Members of the group run their own jobs, as themselves.
    with_token(&cell, &ann, &["job", "run", "--detach", &job]).await.ended(0);
    with_token(&cell, &ann, &["job", "status", "crunch"]).await.ended(0).prints("ann/crunch");
    with_token(&cell, &ann, &["auth", "can-i", "StopJob"])
        .await
        .ended(0)
        .prints("yes: group/web has role runner");
    with_token(&cell, &bob, &["job", "status", "ann/crunch"])
        .await
        .ended(6)
        .warns("bob has no grant of read");
    // The own list is the only one that they see.
    with_token(&cell, &ann, &["job", "list"]).await.ended(0).prints("crunch");
    with_token(&cell, &ann, &["event", "list"]).await.ended(6).warns("name one of your jobs: --job NAME");
    let as_bob = with_token(&cell, &ann, &["--user", "bob", "job", "list"]).await.ended(6);
    as_bob.warns("the credential is of user ann, and the call is in the name of bob");
    let refused = with_token(&cell, &ann, &["node", "list"]).await.ended(6);
    refused.warns("to list nodes is not allowed in cell alpha: ").warns("ann has no grant of read");
    with_token(&cell, &ann, &["node", "cordon", "alpha-1"])
        .await
        .ended(6)
        .warns("ann has no grant of administer")
        .warns("borough auth grant user/ann --allow administer --cell alpha");
    // Refused for the drain, and not for the list of tasks that it begins with.
    let drain = with_token(&cell, &ann, &["node", "drain", "--yes", "alpha-1"]).await.ended(6);
    drain.warns("to drain nodes is not allowed").warns("ann has no grant of administer");
    let refused = with_token(&cell, &ann, &["auth", "grant", "user/ann", "--role", "admin"]).await.ended(6);
    refused.warns("the grant of user/ann was not changed").warns("no grant of administer");
    let holders = cell.borough(&["auth", "who-can", "StopJob", "--owner", "ann"]).await.ended(0);
    holders.prints("group/web").prints("has role runner, if ann is a member");
    cell.borough(&["auth", "who-can", "StopJob"])
        .await
        .ended(0)
        .prints("has role runner, for the own jobs of its members");
    production_is_for_quotas(&cell, &ann).await;
    // Another user gets the right to stop it, and a denial takes it away again, whatever else is granted.
    cell.borough(&["auth", "grant", "user/bob", "--role", "maintainer"]).await.ended(0);
    with_token(&cell, &bob, &["job", "status", "ann/crunch"]).await.ended(0).prints("crunch");
    with_token(&cell, &bob, &["--yes", "job", "stop", "ann/crunch"]).await.ended(0);
    cell.borough(&["auth", "grant", "user/bob", "--deny", "modify_any_job"]).await.ended(0);
    let denied = with_token(&cell, &bob, &["--yes", "job", "stop", "ann/web"]).await.ended(6);
    denied.warns("modify_any_job is denied to user/bob");
    cell.borough(&["auth", "who-can", "modify_any_job"]).await.ended(0).warns("denied").warns("user/bob");
    cell.borough(&["auth", "who-can", "read"])
        .await
        .ended(0)
        .prints("user/bob")
        .prints("has role maintainer");
    cell.borough(&["auth", "can-i", "ExecTask"]).await.ended(2).warns("ACTION");
    cell.borough(&["auth", "can-i", "Exec", "--as", "group/web", "--owner", "zoe"]).await.ended(1);
    let history = cell.borough(&["auth", "grants", "user/bob"]).await.ended(0);
    history.prints("user/tester").prints("modify_any_job");
    cell.borough(&["--yes", "auth", "revoke", "user/bob", "--all"]).await.ended(0).prints("user/bob  -");
    with_token(&cell, &bob, &["node", "list"]).await.ended(6).warns("bob has no grant of read");
    with_token(&cell, &bob, &["auth", "whoami"])
        .await
        .ended(0)
        .warns("user/bob, no groups")
        .prints("administer");
    cell.borough(&["auth", "whoami"]).await.ended(0).warns("an operator, in the name of tester");
    cell.finish().await;
}

/// Refused for the change, and not for the reading that it begins with.
async fn a_service_of_others_is_not_set(cell: &TestCell, ann: &Path) {
    let set = with_token(cell, ann, &["name", "set", "bob/shop", "--label", "app=shop"]).await.ended(6);
    set.warns("to set merged services of bob is not allowed")
        .warns("borough auth grant user/ann --allow modify_any_job --cell alpha");
}

/// Nobody takes the production band without a quota or a right.
async fn production_is_for_quotas(cell: &TestCell, ann: &Path) {
    a_service_of_others_is_not_set(cell, ann).await;
    let web = cell.file("web.yaml", &format!("name: web\n{}", BATCH.replace("kind: batch\n", "")));
    let refused = with_token(cell, ann, &["job", "run", "--detach", &web]).await.ended(6);
    refused.warns("ann has no quota in the production band").warns("borough quota set ann --band production");
    with_token(cell, ann, &["job", "plan", &web]).await.ended(2).warns("has no quota in the production band");
    let token = ann.display().to_string();
    let edit = ["--yes", "--token-file", &token, "--user", "ann", "job", "edit", "crunch"];
    let editor = [("VISUAL", ""), ("EDITOR", "sed -i -e '/^priority:/d' -e '$ a priority: 200'")];
    cell.borough_with(&edit, &editor).await.ended(6).warns("has no quota in the production band");
    cell.borough(&["quota", "set", "ann", "--band", "production", "--tasks", "2"]).await.ended(0);
    until("the quota at the gateway", || async {
        let ran = with_token(cell, ann, &["job", "run", "--detach", &web]).await;
        (ran.code == Some(0)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_key_that_the_file_no_longer_has_ends_its_tokens_within_seconds() {
    let issuer = TokenIssuer::new();
    let cell = TestCell::start(options!().nodes(1).dev_arguments(&["--issuer", &issuer.file()])).await;
    cell.borough(&["auth", "grant", "user/ann", "--role", "viewer"]).await.ended(0);
    let old = issuer.token("ann", &[]);
    with_token(&cell, &old, &["job", "list"]).await.ended(0);
    let token = std::fs::read_to_string(&old).unwrap();
    let get = async |path: &'static str| http_get(&cell.http(), path, Some(token.trim())).await.unwrap().0;
    assert_eq!((get("/metrics").await, get("/v1/cells/alpha/names").await), (200, 200));
    cell.borough(&["--yes", "auth", "revoke", "user/ann", "--all"]).await.ended(0);
    assert_eq!(
        (get("/metrics").await, get("/v1/cells/alpha/names").await),
        (403, 403),
        "metrics need a right"
    );
    cell.borough(&["auth", "grant", "user/ann", "--role", "viewer"]).await.ended(0);
    // An invalid file changes nothing, and a new key ends the tokens of the old one.
    let whole = std::fs::read(issuer.file()).unwrap();
    std::fs::write(issuer.file(), "{").unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    with_token(&cell, &old, &["job", "list"]).await.ended(0);
    std::fs::write(issuer.file(), whole).unwrap();
    issuer.key_make("second");
    until("the end of the old key", || async {
        let ran = with_token(&cell, &old, &["job", "list"]).await;
        (ran.code == Some(6)).then_some(())
    })
    .await;
    with_token(&cell, &old, &["job", "list"])
        .await
        .ended(6)
        .warns("no issuer that this gateway trusts has signed");
    with_token(&cell, &issuer.token_of("second", "ann", &[]), &["job", "list"]).await.ended(0);
    assert_eq!(get("/metrics").await, 401);
    cell.finish().await;
}

/// Grants are in the store: they outlive the gateway, and a gateway without them refuses everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn grants_outlive_the_control_process() {
    let issuer = TokenIssuer::new();
    let mut cell = TestCell::start(options!().nodes(1).dev_arguments(&["--issuer", &issuer.file()])).await;
    cell.borough(&["auth", "grant", "user/ann", "--role", "viewer"]).await.ended(0);
    cell.control_kill();
    cell.control_start().await;
    let ann = issuer.token("ann", &[]);
    until("the grants at the new gateway", || async {
        let ran = with_token(&cell, &ann, &["job", "list"]).await;
        (ran.code == Some(0)).then_some(())
    })
    .await;
    cell.finish().await;
}

#[test]
fn keys_and_tokens_are_private_and_never_overwritten() {
    use std::os::unix::fs::PermissionsExt as _;
    let issuer = TokenIssuer::new();
    let token = issuer.token("ann", &[]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&issuer.path("key")), mode(&token)), (0o600, 0o600));
    let (key, to) = (issuer.text("key"), token.display().to_string());
    program(&["auth", "token", "ann", "--key", &key, "--to", &to]).ended(4).warns("is there already");
    program(&["auth", "issuer", "--key", &key, "--to", &issuer.text("other")])
        .ended(4)
        .warns("is there already");
    let line = |expires: &str| {
        let to = issuer.text("long");
        program(&["auth", "token", "ann", "--key", &key, "--to", &to, "--expires", expires])
    };
    line("91d").ended(2).warns("a time from 1m to 90d");
    line("1s").ended(2).warns("a time from 1m to 90d");
    std::fs::set_permissions(issuer.path("key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    line("1h").ended(2).warns("chmod 600");
    let not_a_key = issuer.text("issuer.json");
    std::fs::set_permissions(issuer.path("issuer.json"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let to = issuer.text("none");
    program(&["auth", "token", "ann", "--key", &not_a_key, "--to", &to])
        .ended(2)
        .warns("is no key of an issuer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stream_ends_when_the_right_to_it_is_taken_away() {
    let issuer = TokenIssuer::new();
    let cell = TestCell::start(options!().nodes(1).dev_arguments(&["--issuer", &issuer.file()])).await;
    let ann = issuer.token("ann", &[]).display().to_string();
    cell.borough(&["auth", "grant", "user/ann", "--role", "viewer"]).await.ended(0);
    let gateway = cell.grpc();
    let mut command =
        cell.command(&["--token-file", &ann, "--gateway", &gateway, "--cell", "alpha", "event", "watch"]);
    command.env_remove("BOROUGH_USER").kill_on_drop(true);
    let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut events = BufReader::new(watch.stdout.take().unwrap()).lines();
    // It is open once it shows a change; the first ones may be before it.
    let mut seen = None;
    for label in 0.. {
        cell.borough(&["node", "label", "alpha-1", &format!("round=r{label}")]).await.ended(0);
        seen = tokio::time::timeout(Duration::from_secs(1), events.next_line()).await.ok();
        if seen.is_some() || label > 60 {
            break;
        }
    }
    assert!(seen.unwrap().unwrap().is_some());
    cell.borough(&["--yes", "auth", "revoke", "user/ann", "--all"]).await.ended(0);
    let ended = tokio::time::timeout(DEADLINE, watch.wait_with_output()).await.expect("it ends").unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(6), "{told}");
    assert!(told.contains("ann has no grant"), "{told}");
    cell.finish().await;
}
