//! gRPC clients with targets of xDS, as processes that count their calls.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use borough_tests::{TestCell, until};
use tokio::io::AsyncBufReadExt as _;
use tokio::process::{Child, ChildStdin, Command};

use super::load::Tally;

/// Calls that a client has under way at a time.
const CALLERS: u64 = 8;

/// A client that runs. It ends with its input, however this process ends.
pub(super) struct GrpcLoad {
    pub(super) tally: Arc<Tally>,
    child: Child,
    input: Option<ChildStdin>,
}

impl GrpcLoad {
    /// Starts a client of the job `echo`.
    pub(super) async fn start(
        cell: &TestCell,
        name: &'static str,
        program: &Path,
        arguments: &[&str],
    ) -> Self {
        let bootstrap = serde_json::json!({
            "xds_servers": [{
                "server_uri": cell.xds(),
                "channel_creds": [{"type": "insecure"}],
                "server_features": ["xds_v3"],
            }],
            "node": {"id": name},
        });
        let mut command = Command::new(program);
        command.args(arguments).arg("xds:///echo.tester.alpha");
        command.env("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let tally = Tally::new(name, CALLERS);
        let (counted, output) = (Arc::clone(&tally), child.stdout.take().unwrap());
        tokio::spawn(async move {
            let mut output = tokio::io::BufReader::new(output).lines();
            while let Ok(Some(line)) = output.next_line().await {
                line_count(&counted, &line);
            }
        });
        tally.servers_until(1).await;
        Self { tally, input: child.stdin.take(), child }
    }

    /// Ends it, and waits for its end.
    pub(super) async fn end(mut self) {
        drop(self.input.take());
        let child = tokio::sync::Mutex::new(&mut self.child);
        until("the end of a gRPC client", || async { child.lock().await.try_wait().unwrap() }).await;
    }
}

fn line_count(tally: &Tally, line: &str) {
    match line.split_once(' ') {
        Some(("server", server)) => tally.server_seen(server),
        Some(("failed", failure)) => tally.failure_seen(failure),
        Some(("calls", calls)) => tally.asked_set(calls.parse().unwrap()),
        _ => {}
    }
}
