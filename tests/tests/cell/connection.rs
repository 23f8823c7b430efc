//! Connections: a wrong address, port, token or cell is answered in words that say what to correct.

use std::convert::Infallible;
use std::time::Duration;

use borough_tests::{Ran, TestCell, http_get, options};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
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
    assert!(unknown.stderr.contains("needs a token, and none is given"), "{unknown:?}");
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
    let asked = with_gateway(&cell, &cell.http(), &words).await.ended(5);
    let expected = format!("{} is the HTTP port of a gateway; accepted: the gRPC port", cell.http());
    assert!(asked.stderr.contains(&expected), "{asked:?}");
    // The ports of the name service: xDS answers gRPC, and the others close the connection.
    let banner = std::fs::read_to_string(cell.log()).unwrap_or_default();
    let xds = banner.split_once(", xDS ").and_then(|(_, behind)| behind.lines().next());
    let xds = xds.expect("the banner has the port").to_owned();
    let asked = with_gateway(&cell, &xds, &words).await.ended(5);
    asked.warns(&format!(
        "{xds} is no gateway, or one of an earlier version; accepted: the gRPC port of a gateway"
    ));
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
    let expected = format!("{address} is no gateway, but a web server or another service; accepted: ");
    assert!(asked.stderr.contains(&expected), "{asked:?}");
    server.abort();
    // One that answers in plain text before it is asked, or in HTTP/1.0 only.
    for greeting in ["SSH-2.0-x\r\n", "HTTP/1.0 400 Bad Request\r\n\r\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    stream.write_all(greeting.as_bytes()).await.ok();
                    // Until the other side closes it.
                    while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
                });
            }
        });
        let asked = with_gateway(&cell, &address, &words).await.ended(5);
        let expected = format!("{address} speaks TLS or is no gateway: give --tls-ca FILE");
        assert!(asked.stderr.contains(&expected), "{greeting:?}: {asked:?}");
        assert!(asked.stderr.contains("--gateway HOST:PORT") && !asked.stderr.contains("borough dev"));
        server.abort();
    }
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
    let all = "an agent needs --node NAME, --state-dir DIR, --gateway HOST:PORT, --join-token-file FILE (or \
               --token-file FILE, or --tls-cert FILE), --cell NAME";
    cell.borough(&["agent"]).await.ended(2).warns(all);
    let words = ["agent", "--node", "n1", "--state-dir", state.to_str().unwrap()];
    let asked = cell.borough(&words).await.ended(2);
    let expected = "an agent needs --gateway HOST:PORT, --join-token-file FILE (or --token-file FILE, or --tls-cert \
                    FILE), --cell NAME";
    assert!(asked.stderr.contains(expected), "{asked:?}");
    cell.borough(&["agent", "--help"]).await.ended(0).prints("and --cell: an agent has no");
    cell.finish().await;
}

/// An error of a token names where the token is from, and never the header that a library sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_token_that_does_not_open_the_cell_is_named_by_its_place() {
    let cell = TestCell::start_bare(options!().nodes(1)).await;
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (wrong, empty, words) = (file("wrong", "0123\n"), file("empty", "\n"), file("words", "two words"));
    let refused = |source: &str| {
        let why = "this gateway knows no such token: it may be incomplete, or of another cell";
        format!("error: the gateway at {} does not accept the token of {source}: {why}\n", cell.grpc())
    };
    let told = async |variables: &[(&str, &str)], words: &[&str], error: String| {
        let ran = cell.borough_with(words, variables).await.ended(6);
        assert!(ran.stderr.starts_with(&error), "{error} in {ran:?}");
        assert!(ran.stderr.contains("--token-file") && !ran.stderr.contains("authorization"), "{ran:?}");
    };
    let list = ["node", "list"];
    let line = ["--token-file", wrong.as_str(), "node", "list"];
    told(&[], &line, refused(&format!("the file {wrong} (--token-file)"))).await;
    let variable = [("BOROUGH_TOKEN_FILE", wrong.as_str())];
    told(&variable, &list, refused(&format!("the file {wrong} (BOROUGH_TOKEN_FILE)"))).await;
    let line = ["--token-file", empty.as_str(), "node", "list"];
    told(&[], &line, format!("error: the token of the file {empty} (--token-file) is empty; accepted: "))
        .await;
    let line = ["--token-file", words.as_str(), "node", "list"];
    let other = "has other characters; accepted: one line of visible ASCII characters";
    told(&[], &line, format!("error: the token of the file {words} (--token-file) {other}")).await;

    let config = home.path().display().to_string();
    let gateway = cell.grpc();
    let add = |name: &'static str, option: &'static str, value: &str| {
        let words = ["context", "add", name, "--gateway", &gateway, "--cell", "alpha", option, value];
        words.map(str::to_owned)
    };
    for words in [add("file", "--token-file", &wrong), add("variable", "--token-variable", "EDGE_TOKEN")] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        cell.borough_with(&words, &[("XDG_CONFIG_HOME", &config)]).await.ended(0);
    }
    let variables = [("XDG_CONFIG_HOME", config.as_str()), ("EDGE_TOKEN", "0123")];
    let line = ["--context", "file", "node", "list"];
    told(&variables, &line, refused(&format!("the file {wrong} (context \"file\")"))).await;
    let line = ["--context", "variable", "node", "list"];
    told(&variables, &line, refused("the variable EDGE_TOKEN (context \"variable\")")).await;
    cell.finish().await;
}
