//! gRPC-Web: calls as a browser sends them, and whose pages may.

use borough_proto::v1::{ListCellsRequest, ListCellsResponse, RequestContext};
use borough_tests::{TestCell, options};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use prost::Message as _;
use tokio::net::TcpStream;

const PATH: &str = "/borough.v1.CellService/ListCells";
const ORIGIN: &str = "https://console.example.com";
/// The bit of a frame that has no message, but the end of the call.
const TRAILERS: u8 = 0x80;

async fn send(cell: &TestCell, request: Request<Full<Bytes>>) -> Response<Bytes> {
    let stream = TcpStream::connect(cell.grpc()).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

/// A call of a page of `origin`, as a browser sends it over HTTP/1.1.
async fn call(cell: &TestCell, origin: &str, token: Option<&str>) -> Response<Bytes> {
    let context = Some(RequestContext { user: "ann".to_owned(), ..RequestContext::default() });
    let message = ListCellsRequest { context, ..ListCellsRequest::default() }.encode_to_vec();
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend(message);
    let mut request = Request::post(PATH).header("host", cell.grpc()).header("origin", origin);
    request = request.header("content-type", "application/grpc-web+proto").header("x-grpc-web", "1");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    send(cell, request.body(Full::from(frame)).unwrap()).await
}

/// The question of a browser whether a page of `origin` may call.
async fn asked(cell: &TestCell, origin: &str) -> HeaderMap {
    let request = Request::builder().method(Method::OPTIONS).uri(PATH).header("host", cell.grpc());
    let request = request.header("origin", origin).header("access-control-request-method", "POST");
    let request = request.header("access-control-request-headers", "authorization,content-type,x-grpc-web");
    let answer = send(cell, request.body(Full::default()).unwrap()).await;
    assert!(answer.status().is_success(), "{answer:?}");
    answer.headers().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_page_calls_the_gateway_if_its_origin_is_named() {
    let cell = TestCell::start_bare(options!().dev_arguments(&["--web-origin", ORIGIN])).await;
    let allowed = asked(&cell, ORIGIN).await;
    assert_eq!(allowed["access-control-allow-origin"], ORIGIN);
    assert!(allowed["access-control-allow-headers"].to_str().unwrap().contains("authorization"));
    for other in ["https://evil.example.com", "http://console.example.com", "null"] {
        assert!(!asked(&cell, other).await.contains_key("access-control-allow-origin"), "{other}");
    }
    let answer = call(&cell, ORIGIN, Some(&cell.token())).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["access-control-allow-origin"], ORIGIN);
    let body = answer.body();
    assert!(!body.is_empty(), "{answer:?}");
    let length = usize::try_from(u32::from_be_bytes(body[1..5].try_into().unwrap())).unwrap();
    let cells = ListCellsResponse::decode(&body[5..5 + length]).unwrap();
    assert_eq!(cells.cells[0].name, "alpha");
    let end = &body[5 + length..];
    assert_eq!(end[0], TRAILERS);
    assert!(String::from_utf8_lossy(&end[5..]).contains("grpc-status:0"), "{end:?}");
    // A page can read why it is refused.
    let refused = call(&cell, ORIGIN, None).await;
    let readable = refused.headers()["access-control-expose-headers"].to_str().unwrap().to_owned();
    let status = refused.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned());
    assert!(status.as_deref() == Some("16") && readable.contains("grpc-status"), "{refused:?}");
    // What is no origin is refused at the start, with the value.
    let wrong = ["--dir", "/nonexistent", "dev", "--web-origin", "console.example.com"];
    cell.borough(&wrong).await.ended(2).warns("console.example.com").warns("https://console.example.com");
    cell.finish().await;
}
