//! Idle connections: they keep nobody out, take no descriptor from the store, and are closed in time.

use std::io::Read as _;
use std::net::TcpStream;

use borough_tests::{Options, TestCell, http_get, options, until};

/// More than the process may have open files.
const IDLE: usize = 280;

/// Opens `count` idle connections to the cell's listeners, as far as they are accepted.
fn idle(cell: &TestCell, count: usize) -> Vec<TcpStream> {
    let addresses = [cell.grpc(), cell.http()];
    (0..count).filter_map(|number| TcpStream::connect(&addresses[number % 2]).ok()).collect()
}

/// Counts connections that the gateway has closed. Checks each once, without waiting.
fn closed(connections: &[TcpStream]) -> usize {
    let is_closed = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        loop {
            // A server of HTTP/2 greets first.
            match stream.read(&mut [0; 256]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
            }
        }
    };
    connections.iter().filter(|stream| is_closed(stream)).count()
}

/// The value of a metric without labels.
async fn metric(cell: &TestCell, name: &str) -> Option<u64> {
    let (status, text) = http_get(&cell.http(), "/metrics", Some(&cell.token())).await.ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned))?;
    (status == 200).then(|| line.parse().ok()).flatten()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn idle_connections_keep_no_caller_out() {
    let prelude = Some("ulimit -n 160".to_owned());
    // Long, so that they are closed because they are too many, and not because they are old.
    let dev_arguments = vec!["--unauthenticated-ms=600000".to_owned()];
    let cell = TestCell::start(Options { prelude, dev_arguments, ..options!() }).await;
    let connections = idle(&cell, IDLE);
    // Accepting all of them may take a while on a busy machine.
    let open = until("the count of connections", || metric(&cell, "borough_gateway_connections_open")).await;
    assert!(open <= 96, "{open} connections of 160 descriptors");
    for number in 0..20 {
        let file = cell
            .file("idle.yaml", &format!("name: idle-{number}\ncount: 1\ntask: {{command: [sleep, 600]}}\n"));
        cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    }
    for path in ["/healthz", "/readyz"] {
        // The check of the store is up to a second old, and the cell is young.
        until(&format!("{path} to be ok"), || async {
            let answer = http_get(&cell.http(), path, None).await.unwrap();
            (answer == (200, "ok\n".to_owned())).then_some(())
        })
        .await;
    }
    cell.nodes_ready().await;
    assert!(closed(&connections) >= IDLE - 96, "{} of {IDLE} are closed", closed(&connections));
    drop(connections);
    until("the connections to be gone", || async {
        let left = metric(&cell, "borough_gateway_connections_unauthenticated").await?;
        (left <= 1).then_some(())
    })
    .await;
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn connections_without_a_token_are_closed_in_time() {
    let dev_arguments = vec!["--unauthenticated-ms=500".to_owned()];
    let cell = TestCell::start(Options { dev_arguments, ..options!().nodes(1) }).await;
    let connections = idle(&cell, 6);
    // Half a request is no token either.
    std::io::Write::write_all(&mut &connections[1], b"GET /metrics HTTP/1.1\r\n").unwrap();
    std::io::Write::write_all(&mut &connections[0], b"PRI * HTTP/2.0\r\n\r\n").unwrap();
    until("all of them closed", || async { (closed(&connections) == 6).then_some(()) }).await;
    // The agent's session is as old, and has a token.
    assert!(cell.client().node_list().await.unwrap().iter().all(|node| node.connected));
    cell.finish().await;
}
