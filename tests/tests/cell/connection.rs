//! Connections: a wrong address, port, token or cell is answered in words that say what to correct.

use std::convert::Infallible;
use std::time::Duration;

use borough_tests::{Ran, TestCell, http_get, options};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

/// Runs a verb without the directory's default gateway.
async fn with_gateway(cell: &TestCell, gateway: &str, more: &[&str]) -> Ran {
    let mut words = vec!["--gateway", gateway];
    words.extend(more);
    cell.borough(&words).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_name_of_the_own_gateway_keeps_the_defaults() {
    let cell = TestCell::start_bare(options!().nodes(1)).await;
    let (_, port) =
        cell.grpc().rsplit_once(':').map(|(host, port)| (host.to_owned(), port.to_owned())).unwrap();
    for gateway in [format!("localhost:{port}"), format!("http://127.0.0.1:{port}"), cell.grpc()] {
        with_gateway(&cell, &gateway, &["node", "list"]).await.ended(0);
    }
    // Another name has neither its token nor its cell. The token is what the gateway asks for first.
    let other = with_gateway(&cell, &format!("127.0.0.2:{port}"), &["node", "list"]).await.ended(5);
    assert!(other.stderr.contains("no gateway answers at 127.0.0.2"), "{other:?}");
    let token = cell.root().join("token");
    let token = ["--token-file", token.to_str().unwrap()];
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = ["--dir", directory.path().to_str().unwrap()];
    let unknown =
        with_gateway(&cell, &cell.grpc(), &[&elsewhere[..], &["node", "list"]].concat()).await.ended(6);
    assert!(unknown.stderr.contains("no valid token"), "{unknown:?}");
    let nameless = [&elsewhere[..], &token[..], &["node", "list"]].concat();
    let nameless = with_gateway(&cell, &cell.grpc(), &nameless).await.ended(2);
    assert!(nameless.stderr.contains("no cell is named; the gateway at 127.0.0.1:"), "{nameless:?}");
    assert!(nameless.stderr.contains("has: alpha\n"), "{nameless:?}");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_port_tells_a_client_of_the_other_what_it_is() {
    let cell = TestCell::start_bare(options!().nodes(1)).await;
    let token = cell.root().join("token");
    let words = ["--cell", "alpha", "--token-file", token.to_str().unwrap(), "node", "list"];
    let asked = with_gateway(&cell, &cell.http(), &words).await.ended(4);
    assert!(asked.stderr.contains("this port answers HTTP; for gRPC, use the other address"), "{asked:?}");
    for token in [None, Some(cell.token())] {
        let (status, body) = http_get(&cell.grpc(), "/metrics", token.as_deref()).await.unwrap();
        assert_eq!(status, 415);
        assert!(body.starts_with("this port answers gRPC; for HTTP, use the other address"), "{body}");
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_server_that_is_no_gateway_is_named_as_such() {
    let cell = TestCell::start_bare(options!().nodes(1)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let page = service_fn(|_: Request<Incoming>| async {
                let mut page = Response::new("a page".to_owned());
                *page.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
                Ok::<_, Infallible>(page)
            });
            tokio::spawn(async move {
                auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), page)
                    .await
                    .ok();
            });
        }
    });
    let token = cell.root().join("token");
    let words = ["--cell", "alpha", "--token-file", token.to_str().unwrap(), "node", "list"];
    let asked = with_gateway(&cell, &address, &words).await.ended(5);
    let expected = format!("{address} answers, but not as the gRPC port of a gateway");
    assert!(asked.stderr.contains(&expected), "{asked:?}");
    server.abort();
    cell.finish().await;
}

/// A read that runs out of time has changed nothing, and says so. A change may have been made.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn only_a_change_that_runs_out_of_time_may_have_been_made() {
    let cell = TestCell::start_bare(options!().nodes(1)).await;
    // It takes connections and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let silent = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    let token = cell.root().join("token");
    let common = ["--cell", "alpha", "--token-file", token.to_str().unwrap()];
    let read = with_gateway(&cell, &address, &[&common[..], &["job", "list"]].concat()).await.ended(5);
    assert!(read.stderr.contains(&format!("the gateway at {address} did not answer within")), "{read:?}");
    assert!(read.stderr.contains("nothing was changed"), "{read:?}");
    let change =
        with_gateway(&cell, &address, &[&common[..], &["job", "stop", "web"]].concat()).await.ended(5);
    assert!(change.stderr.contains("may or may not have been made"), "{change:?}");
    silent.abort();
    tokio::time::timeout(Duration::from_secs(60), cell.finish()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_agent_names_every_option_that_it_lacks() {
    let cell = TestCell::start_bare(options!().nodes(1)).await;
    let state = cell.root().join("other-agent");
    let words = ["agent", "--node", "n1", "--state-dir", state.to_str().unwrap()];
    let asked = cell.borough(&words).await.ended(2);
    let expected = "an agent also needs --gateway HOST:PORT, --token-file FILE, --cell NAME";
    assert!(asked.stderr.contains(expected), "{asked:?}");
    cell.borough(&["agent", "--help"]).await.ended(0).prints("and --cell: an agent has no");
    cell.finish().await;
}
