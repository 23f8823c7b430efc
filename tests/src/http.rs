//! A plain HTTP client: one request per connection.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// The time limit for one answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Gets `path` from `address` (`host:port`), with a token if given. Returns the status and the body.
///
/// # Errors
/// Why no answer came, for people.
pub async fn http_get(address: &str, path: &str, token: Option<&str>) -> Result<(u16, String), String> {
    let asked = async {
        let response = request(address, path, token).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::time::timeout(ANSWER_WAIT, asked).await.map_err(|_| "no answer in time".to_owned())?
}

async fn request(address: &str, path: &str, token: Option<&str>) -> Result<Response<Incoming>, String> {
    let mut request = Request::get(path).header("host", address);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::default()).map_err(|error| error.to_string())?;
    send(address, request).await
}

async fn send(address: &str, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let stream = TcpStream::connect(address).await.map_err(|error| text(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| text(&error))?;
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(|error| text(&error))
}

/// Posts JSON to `path` at `address` (`host:port`). Returns the status and the body.
///
/// # Errors
/// Why no answer came, for people.
pub async fn http_post(address: &str, path: &str, json: &str) -> Result<(u16, String), String> {
    let asked = async {
        let request = Request::post(path).header("host", address).body(Full::from(json.to_owned()));
        let response = send(address, request.map_err(|error| error.to_string())?).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::time::timeout(ANSWER_WAIT, asked).await.map_err(|_| "no answer in time".to_owned())?
}

/// Reads server-sent events: the kind and the data of each.
///
/// # Errors
/// Why the stream failed, for people.
pub async fn sse_events(
    address: &str,
    path: &str,
    token: &str,
) -> Result<mpsc::UnboundedReceiver<(String, Value)>, String> {
    let response = request(address, path, Some(token)).await?;
    if response.status() != 200 {
        return Err(response.status().to_string());
    }
    let (events, received) = mpsc::unbounded_channel();
    let mut body = response.into_body();
    tokio::spawn(async move {
        let mut text = String::new();
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            text.push_str(&String::from_utf8_lossy(&data));
            while let Some((event, rest)) = text.split_once("\n\n").map(|(a, b)| (a.to_owned(), b.to_owned()))
            {
                text = rest;
                if let Some(event) = event_read(&event)
                    && events.send(event).is_err()
                {
                    return;
                }
            }
        }
    });
    Ok(received)
}

fn event_read(text: &str) -> Option<(String, Value)> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let data = serde_json::from_str(field("data: ")?).ok()?;
    Some((field("event: ")?.to_owned(), data))
}
