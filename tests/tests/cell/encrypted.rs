//! Encrypted connections: certificates of an authority, what they prove, and how they end.

use std::fs;

use borough_tests::{EncryptedCell, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn certificates_prove_roles_and_nothing_goes_unencrypted() {
    let mut cell = EncryptedCell::new(env!("CARGO_BIN_EXE_borough-under-test"));
    let gateway = cell.grpc();
    // A node speaks for itself alone. An agent that is given the certificate of another one says so and ends; this one
    // gets it while it runs.
    let own = cell.certificate("n1");
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let (state, line) = (cell.text("wrong-state"), ["agent", "--cell", "alpha", "--node", "n2", "--gateway"]);
    let wrong = cell.program(&[&line[..], &[&gateway, "--state-dir", &state], &own[..]].concat()).ended(2);
    wrong.warns("is the certificate of node n1 of cell alpha; this agent is for node n2 of cell alpha");
    cell.issue("alpha/n2", "posing", &[]).ended(0);
    cell.agent("posing", "posing", "n2", &gateway);
    cell.logged("posing", "gateway").await;
    for file in ["cert.pem", "key.pem"] {
        fs::copy(cell.path("n1").join(file), cell.path("posing").join(file)).unwrap();
    }
    cell.gateway_ready().await;
    cell.agent("n1", "n1", "n1", &format!("https://{gateway}"));
    cell.node_ready("n1").await;
    cell.logged("posing", "this token is for node n1 of cell alpha").await;
    // Users have what the grants say.
    cell.ask("ann", &["node", "list"]).ended(6).warns("ann has no grant of read");
    cell.ask("operator", &["auth", "grant", "group/web", "--role", "viewer"]).ended(0);
    cell.ask("ann", &["node", "list"]).ended(0).prints("n1");
    cell.ask("ann", &["auth", "whoami"]).ended(0).warns("user/ann, groups web");
    cell.ask("n1", &["job", "list"]).ended(6).warns("opens sessions of agents and nothing else");
    cell.ask("gateway", &["job", "list"]).ended(6).warns("needs a token");
    // A token still counts, over an encrypted connection only.
    let (token, ca) = (cell.text("token"), cell.path("ca").join("ca.pem").display().to_string());
    let line = ["--gateway", &gateway, "--cell", "alpha", "--user", "tester", "--token-file", &token];
    cell.program(&[&line[..], &["--tls-ca", &ca, "node", "list"]].concat()).ended(0).prints("n1");
    cell.program(&[&line[..], &["node", "list"]].concat()).ended(5).warns("--tls-ca");
    // What is wrong with the encryption is said with the option or the file to change.
    let other = cell.text("other-ca");
    cell.program(&["auth", "ca", "init", "--ca", &other]).ended(0);
    let foreign = format!("{other}/ca.pem");
    let refused = cell.program(&[&line[..], &["--tls-ca", &foreign, "node", "list"]].concat()).ended(5);
    refused.warns(&format!("is not of the authority in {foreign}; accepted: --tls-ca"));
    let scheme = ["--gateway", "http://127.0.0.1:1", "--tls-ca", &ca, "node", "list"];
    cell.program(&scheme).ended(2).warns("accepted: HOST:PORT or https://HOST:PORT");
    // A context keeps the way.
    let own = cell.certificate("ann");
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let add = ["context", "add", "work", "--gateway", &gateway, "--cell", "alpha", "--user", "ann"];
    cell.program(&[&add[..], &own[..]].concat()).ended(0);
    cell.program(&["--context", "work", "job", "list"]).ended(0);
    cell.program(&["context", "list", "-o", "json"]).ended(0).prints("cert.pem");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nobody_poses_as_a_gateway() {
    let mut cell = EncryptedCell::new(env!("CARGO_BIN_EXE_borough-under-test"));
    // A node that was taken over listens where agents and users look for a gateway.
    let (grpc, http) =
        (format!("127.0.0.1:{}", cell.ports.grpc()), format!("127.0.0.1:{}", cell.ports.http()));
    cell.gateway("false", "n2", &grpc, &http);
    cell.logged("false", "borough gateway").await;
    cell.logged("false", "nobody will trust this role").await;
    let refused = cell.ask("operator", &["cell", "list"]).ended(5);
    refused.warns("certificate");
    let gateway = cell.grpc();
    cell.agent("n1", "n1", "n1", &gateway);
    cell.logged("n1", "certificate").await;
    assert!(!cell.log("n1").contains("connected to"), "{}", cell.log("n1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn certificates_are_renewed_and_revoked_while_everything_runs() {
    let mut cell = EncryptedCell::new(env!("CARGO_BIN_EXE_borough-under-test"));
    cell.gateway_ready().await;
    let gateway = cell.grpc();
    cell.agent("n1", "n1", "n1", &gateway);
    cell.agent("n2", "n2", "n2", &gateway);
    cell.node_ready("n1").await;
    cell.node_ready("n2").await;
    cell.ask("operator", &["auth", "grant", "user/ann", "--role", "viewer"]).ended(0);
    cell.ask("ann", &["node", "list"]).ended(0);
    // The gateway takes its new certificate without a restart: the old one is revoked, and clients would not mind, but
    // its serial number shows.
    let server = ["--dns", "localhost", "--ip", "127.0.0.1", "--renew"];
    cell.issue("gateway", "gateway", &server).ended(0);
    cell.logged("gateway", "certificates read again").await;
    cell.ask("ann", &["node", "list"]).ended(0);
    cell.authority(&["list"]).ended(0).prints("user/ann").prints("valid");
    // One node and one user are revoked. Their connections end within seconds, and no new one begins.
    let own = cell.certificate("ann");
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let watch =
        ["--gateway", &gateway, "--cell", "alpha", "--user", "ann", "node", "list", "--watch", "-o", "json"];
    cell.start("watch", &[&watch[..], &own[..]].concat());
    cell.logged("watch", "n1").await;
    for name in ["user/ann", "cell/alpha/node/n2"] {
        cell.authority(&["revoke", name]).ended(0).warns("revoked 1 of 1");
    }
    cell.authority(&["revoke", "user/zoe"]).ended(3).warns("has issued nothing that is called");
    until("the end of the connections", || async {
        let log = cell.log("gateway");
        log.lines()
            .any(|line| line.contains("certificates read again") && !line.contains("cut=0"))
            .then_some(())
    })
    .await;
    cell.ask("ann", &["node", "list"]).ended(5).warns("expired, revoked, or of another authority");
    until("the loss of the session of n2", || async {
        let ran = cell.ask("operator", &["node", "list", "-o", "json"]).ended(0).json();
        let gone = |one: &&serde_json::Value| one["name"] == "n2" && one["connected"] == false;
        ran.as_array()?.iter().find(gone).map(drop)
    })
    .await;
    cell.node_ready("n1").await;
    // The renewed certificate of the same node is another one.
    cell.issue("alpha/n2", "n2", &["--renew"]).ended(0);
    cell.node_ready("n2").await;
}

#[test]
fn a_role_without_certificates_stays_on_loopback() {
    let cell = EncryptedCell::new(env!("CARGO_BIN_EXE_borough-under-test"));
    let (store, token) = (format!("embedded:{}", cell.text("store")), cell.text("token"));
    let line = [
        "gateway",
        "--store",
        &store,
        "--cells",
        "alpha",
        "--token-file",
        &token,
        "--http-listen",
        "127.0.0.1:0",
    ];
    let open = cell.program(&[&line, &["--listen", "0.0.0.0:0"][..]].concat()).ended(2);
    open.warns("is no loopback address").warns("--tls-ca, --tls-cert and --tls-key").warns("--plaintext");
    let half = cell.path("gateway").join("ca.pem").display().to_string();
    cell.program(&[&line, &["--tls-ca", &half][..]].concat()).ended(2).warns("a server needs a certificate");
    let missing = cell.issue("gateway", "other", &[]).ended(2);
    missing.warns("--dns HOST or --ip ADDRESS");
    cell.issue("user/ann", "ann", &[]).ended(4).warns("is there already");
    cell.issue("node", "other", &[]).ended(2).warns("user/NAME, or CELL/NODE");
    cell.program(&["auth", "ca", "list", "--ca", &cell.text("none")]).ended(4).warns("borough auth ca init");
}
