//! One probe.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;

use borough_proto::v1;
use borough_proto::v1::health_check::Probe;
use borough_shim::exec::ExecMode;
use borough_shim::file::error_text;
use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::TcpStream;

use crate::listener::{Listener, Listeners, who_answers};
use crate::machine::ProbeTarget;
use crate::shim::exec_command;

/// Probes once. The error says what was wrong, for people.
pub(crate) async fn ask(target: &ProbeTarget) -> Result<(), String> {
    match &target.check.probe {
        Some(Probe::Http(http)) => http_ask(target, http).await,
        Some(Probe::Tcp(tcp)) => connect(target, &tcp.port).await.map(drop),
        Some(Probe::Command(command)) => command_ask(target, command).await,
        None => undisturbed(target).await,
    }
}

/// Fails if another process listens on the task's ports. The task itself need not listen yet.
async fn undisturbed(target: &ProbeTarget) -> Result<(), String> {
    for port in &target.ports {
        let Ok(number) = u16::try_from(port.number) else { continue };
        let Ok(found) = tokio::net::lookup_host((target.host.as_str(), number)).await else { continue };
        for address in found.take(1) {
            if let Listeners::Other(other) = answers(target, address).await? {
                return Err(other_text(other));
            }
        }
    }
    Ok(())
}

async fn answers(target: &ProbeTarget, address: SocketAddr) -> Result<Listeners, String> {
    let (owner, known) = (target.owner.clone(), Arc::clone(&target.known));
    let asked = tokio::task::spawn_blocking(move || who_answers(&owner, address, &known)).await;
    let text = |error: &dyn std::error::Error| format!("cannot see who listens on {address}: {error}");
    asked.map_err(|error| text(&error))?.map_err(|error| text(&error))
}

fn other_text(other: Listener) -> String {
    format!("another process than the task's listens on {}", other.address)
}

async fn connect(target: &ProbeTarget, port: &str) -> Result<TcpStream, String> {
    let number = target.ports.iter().find(|have| have.name == port).map(|have| have.number);
    let number = number.and_then(|number| u16::try_from(number).ok());
    let number = number.ok_or_else(|| format!("the task has no port {port:?}"))?;
    let failed = |error: std::io::Error| format!("port {port}: {}", error_text(&error));
    let stream = TcpStream::connect((target.host.as_str(), number)).await.map_err(failed)?;
    // The process that answers must be the task: an answer of another server means nothing.
    match answers(target, stream.peer_addr().map_err(failed)?).await? {
        Listeners::Task | Listeners::Hidden => Ok(stream),
        Listeners::Other(other) => Err(other_text(other)),
        Listeners::Nobody => Err(format!("port {port} is answered, but no process of this machine listens")),
    }
}

async fn http_ask(target: &ProbeTarget, probe: &v1::HttpProbe) -> Result<(), String> {
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
    // The connection lives no longer than the request, even if the probe is aborted. A task that closes the connection
    // may have answered before.
    let answer = tokio::select! {
        answer = &mut answer => answer,
        _ = connection => answer.await,
    };
    let answer = answer.map_err(text)?;
    let status = answer.status();
    if (200..400).contains(&status.as_u16()) { Ok(()) } else { Err(format!("{path}: {status}")) }
}

/// A process group that is killed unless it has ended.
struct ProbeProcessGroup(Option<Pid>);

impl Drop for ProbeProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Absent if the command does not lead a group yet; the command is then killed itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn command_ask(target: &ProbeTarget, probe: &v1::CommandProbe) -> Result<(), String> {
    let mut command = exec_command(&target.program, &target.directory, ExecMode::Plain, &probe.command)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    // The command leads a session. If the probe is aborted, its whole group is killed, since a hanging command may have
    // started others.
    let mut group = ProbeProcessGroup(child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)));
    let status = child.wait().await.map_err(|error| error.to_string())?;
    group.0 = None;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}
