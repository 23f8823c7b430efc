//! The conversations of unmodified clients with the name service, as golden files: a change of ours is seen.
//! `UPDATE_EXPECT=1` writes them again.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use borough_kv::exercise::not_exercised;
use borough_testkit::{HeldProgram, program_find, python_with_grpc};
use expect_test::{ExpectFile, expect_file};
use tokio::process::{Child, Command};

use super::recorder::Recorder;
use super::{DEADLINE, Views};

/// The type of endpoints, as a conversation names it.
const ENDPOINTS: &str = "ClusterLoadAssignment";

/// Which clusters a client follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follows {
    Web,
    All,
}

/// A client that runs until the end of its test.
enum XdsClient {
    /// It ends with its input.
    Grpc {
        _child: Child,
    },
    Envoy {
        _program: HeldProgram,
    },
}

/// Lets a client see a job that comes, changes and goes, and begin again after the end of its stream.
async fn conversation(follows: Follows, start: impl FnOnce(&Recorder) -> XdsClient, golden: ExpectFile) {
    let mut views = Views::start().await;
    // Nobody listens there: what the clients say to the name service is the same.
    let port = 9;
    views.publish((1, "web"), 0, port).await;
    views.until("a cluster", async || views.has_endpoints("web", 1).await).await;
    let recorder = Recorder::start(views.addresses.xds).await;
    let client = start(&recorder);
    accepted(&recorder, 0, "web.ann.alpha of 1").await;
    views.publish((1, "web"), 1, port - 1).await;
    accepted(&recorder, 0, "web.ann.alpha of 2").await;
    views.publish((2, "api"), 0, port - 2).await;
    views.until("another job", async || views.has_endpoints("api", 1).await).await;
    if follows == Follows::All {
        accepted(&recorder, 0, "api.ann.alpha of 1").await;
    }
    views.withdraw((1, "web"), 0).await;
    accepted(&recorder, 0, "web.ann.alpha of 1").await;
    recorder.streams_end();
    match follows {
        Follows::Web => accepted(&recorder, 1, "web.ann.alpha of 1").await,
        // It says that it has everything, and gets nothing of it again.
        Follows::All => said("a request", &recorder, || recorder.has_asked(1, ENDPOINTS)).await,
    }
    views.publish((1, "web"), 2, port - 3).await;
    accepted(&recorder, 1, "web.ann.alpha of 2").await;
    said("the end of every exchange", &recorder, || recorder.is_settled()).await;
    golden.assert_eq(&recorder.text());
    drop(client);
}

/// Waits until the client has accepted a response of endpoints with this text.
async fn accepted(recorder: &Recorder, stream: usize, text: &str) {
    said(text, recorder, || recorder.has_accepted(stream, ENDPOINTS, text)).await;
}

async fn said(what: &str, recorder: &Recorder, look: impl Fn() -> bool) {
    let found = tokio::time::timeout(DEADLINE, async {
        while !look() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(found.await.is_ok(), "no {what} in\n{}", recorder.text());
}

fn grpc_client(recorder: &Recorder, program: &Path, arguments: &[&str]) -> XdsClient {
    let bootstrap = serde_json::json!({
        "xds_servers": [{
            "server_uri": recorder.address.to_string(),
            "channel_creds": [{"type": "insecure"}],
            "server_features": ["xds_v3"],
        }],
        "node": {"id": "client-1"},
    });
    let mut command = Command::new(program);
    command.args(arguments).arg("xds:///web.ann.alpha").kill_on_drop(true);
    command.env("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap.to_string());
    // Without calls under way, gRPC in Python reads its stream only so often. The usual time is 5 s.
    command.env("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "20");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    XdsClient::Grpc { _child: command.spawn().unwrap() }
}

/// Starts an Envoy without listeners: it follows clusters all the same.
fn envoy(recorder: &Recorder, program: &Path, folder: &Path, follows: Follows) -> XdsClient {
    let file = folder.join("envoy.yaml");
    let (kind, asked, named) = match follows {
        Follows::Web => ("GRPC", "", NAMED),
        Follows::All => ("DELTA_GRPC", "  cds_config: {ads: {}, resource_api_version: V3}\n", ""),
    };
    let text = format!(
        "node: {{id: proxy-1, cluster: edge}}
dynamic_resources:
  ads_config:
    api_type: {kind}
    transport_api_version: V3
    grpc_services: [{{envoy_grpc: {{cluster_name: borough}}}}]
{asked}static_resources:
  clusters:
    - name: borough
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {{http2_protocol_options: {{}}}}
      load_assignment:
        cluster_name: borough
        endpoints:
          - lb_endpoints:
              - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}}}
{named}",
        recorder.address.port()
    );
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let arguments = ["-c", &file, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"];
    XdsClient::Envoy { _program: HeldProgram::start(program, &arguments, folder.join("envoy.log")) }
}

/// A cluster that the file names.
const NAMED: &str = "    - name: web.ann.alpha
      type: EDS
      eds_cluster_config: {eds_config: {ads: {}, resource_api_version: V3}}
";

#[tokio::test]
async fn the_conversation_with_grpc_in_python_is_as_recorded() {
    let Some(python) = python_with_grpc().await else {
        let reason = "python3 has no module grpc, and BOROUGH_TEST_PYTHON names none";
        return not_exercised("the conversation of xDS with gRPC in Python", reason);
    };
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/programs/grpc-python/client.py");
    let start = |recorder: &Recorder| grpc_client(recorder, &python, &["-u", client]);
    conversation(Follows::Web, start, expect_file!["golden/grpc-python.txt"]).await;
}

#[tokio::test]
async fn the_conversation_with_grpc_in_go_is_as_recorded() {
    let Some(go) = program_find("grpc-go") else {
        return not_exercised("the conversation of xDS with gRPC in Go", "grpc-go is not installed");
    };
    let start = |recorder: &Recorder| grpc_client(recorder, &go, &["client"]);
    conversation(Follows::Web, start, expect_file!["golden/grpc-go.txt"]).await;
}

#[tokio::test]
async fn the_conversation_with_envoy_is_as_recorded() {
    let Some(program) = program_find("envoy") else {
        return not_exercised("the conversation of xDS with Envoy", "envoy is not installed");
    };
    for (follows, golden) in [
        (Follows::Web, expect_file!["golden/envoy-named.txt"]),
        (Follows::All, expect_file!["golden/envoy-all.txt"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        conversation(follows, |recorder| envoy(recorder, &program, folder.path(), follows), golden).await;
    }
}
