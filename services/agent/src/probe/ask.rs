//! One probe.

use std::process::Stdio;

use borough_proto::v1;
use borough_proto::v1::health_check::Probe;
use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Target;
use crate::serve::exec_file;

/// Asks once; the error says what was wrong, for people.
pub async fn ask(target: &Target) -> Result<(), String> {
    match &target.check.probe {
        Some(Probe::Http(http)) => http_ask(target, http).await,
        Some(Probe::Tcp(tcp)) => connect(target, &tcp.port).await.map(drop),
        Some(Probe::Command(command)) => command_ask(target, command).await,
        None => Ok(()),
    }
}

async fn connect(target: &Target, port: &str) -> Result<TcpStream, String> {
    let number = target.ports.iter().find(|have| have.name == port).map(|have| have.number);
    let number = number.and_then(|number| u16::try_from(number).ok());
    let number = number.ok_or_else(|| format!("the task has no port {port:?}"))?;
    TcpStream::connect((target.host.as_str(), number))
        .await
        .map_err(|error| format!("port {number}: {error}"))
}

async fn http_ask(target: &Target, probe: &v1::HttpProbe) -> Result<(), String> {
    let stream = connect(target, &probe.port).await?;
    let text = |error: hyper::Error| error.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    let path = if probe.path.is_empty() { "/" } else { &probe.path };
    let request = Request::get(path)
        .header("host", &target.host)
        .header("user-agent", "borough-health")
        .header("connection", "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| format!("{path}: {error}"))?;
    let answer = sender.send_request(request);
    tokio::pin!(answer);
    // The connection lives as long as the question: dropped with it, also when the probe is broken off. One that
    // closes has often answered before.
    let answer = tokio::select! {
        answer = &mut answer => answer,
        _ = connection => answer.await,
    };
    let answer = answer.map_err(text)?;
    let status = answer.status();
    if (200..400).contains(&status.as_u16()) { Ok(()) } else { Err(format!("{path}: {status}")) }
}

async fn command_ask(target: &Target, probe: &v1::CommandProbe) -> Result<(), String> {
    let file = exec_file(&target.directory, &probe.command, None)?;
    let mut command = tokio::process::Command::new(&target.program);
    command.arg("exec").arg(&file).env_clear().current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let status = command.status().await.map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}
