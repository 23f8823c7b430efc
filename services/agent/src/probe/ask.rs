//! One probe.

use std::process::Stdio;

use borough_proto::v1;
use borough_proto::v1::health_check::Probe;
use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::TcpStream;

use super::Target;
use crate::serve::exec_command;

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

/// A process group that is killed unless it has ended.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Not there where the command has not got so far as to lead one; it is killed by itself then.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn command_ask(target: &Target, probe: &v1::CommandProbe) -> Result<(), String> {
    let mut command = exec_command(&target.program, &target.directory, false, &probe.command)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    // It leads a session. Where the probe is broken off, all of it goes: a command that hangs may have started others.
    let mut group = Group(child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)));
    let status = child.wait().await.map_err(|error| error.to_string())?;
    group.0 = None;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}
