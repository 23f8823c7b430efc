//! Connections through the proxy: their bytes pass between the client and the calls, as the state of the line says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::proxy::ProxyState;
use crate::proxy::call;
use crate::proxy::fault::LineState;

/// How long a connection is held back for a later one.
const REORDER_WAIT: Duration = Duration::from_millis(300);
const PART_BYTES: usize = 64 << 10;

/// The connections of one address.
pub(crate) struct Line {
    state: watch::Sender<LineState>,
    /// How often all connections were cut.
    cuts: watch::Sender<u64>,
    /// The newest connection that has passed something.
    passed: watch::Sender<u64>,
    connections: AtomicU64,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            state: watch::Sender::new(LineState::Open),
            cuts: watch::Sender::new(0),
            passed: watch::Sender::new(0),
            connections: AtomicU64::new(0),
        }
    }
}

impl Line {
    /// Sets how connections behave. Who must not get in is not left in.
    pub(crate) fn set(&self, state: LineState) {
        self.state.send_replace(state);
        if state == LineState::Refused {
            self.cut();
        }
    }

    /// Closes all connections.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

/// Serves the connections of one address for ever.
pub(crate) async fn serve(state: Arc<ProxyState>, gateway: usize, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let line = &state.lines[gateway];
        if *line.state.borrow() == LineState::Refused {
            reset(stream);
            continue;
        }
        while connections.try_join_next().is_some() {}
        connections.spawn(connection(Arc::clone(&state), gateway, stream));
    }
}

/// Passes one connection on until it ends or is cut.
async fn connection(state: Arc<ProxyState>, gateway: usize, mut stream: TcpStream) {
    let line = &state.lines[gateway];
    let number = line.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let mut cuts = line.cuts.subscribe();
    let (own_cut, mut own_cuts) = watch::channel(());
    let (inside, outside) = tokio::io::duplex(PART_BYTES);
    let calls = call::serve(Arc::clone(&state), gateway, outside, own_cut);
    let over = {
        let (read, write) = stream.split();
        let (inside_read, inside_write) = tokio::io::split(inside);
        let to = pump(line, number, read, inside_write);
        let from = pump(line, number, inside_read, write);
        tokio::select! {
            () = calls => Over::Ended,
            _ = async { tokio::join!(to, from) } => Over::Ended,
            _ = cuts.changed() => Over::Cut,
            _ = own_cuts.changed() => Over::Cut,
        }
    };
    match over {
        Over::Ended => {}
        Over::Cut => reset(stream),
    }
}

enum Over {
    Ended,
    Cut,
}

/// Closes a connection so that its other side sees an error and not an end.
fn reset(stream: TcpStream) {
    stream.set_zero_linger().ok();
    drop(stream);
}

/// Passes bytes on in one direction.
async fn pump(
    line: &Line,
    number: u64,
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
) {
    let mut part = vec![0; PART_BYTES];
    let mut state = line.state.subscribe();
    loop {
        let length = match from.read(&mut part).await {
            Ok(0) | Err(_) => break,
            Ok(length) => length,
        };
        let now = state.wait_for(|state| *state != LineState::Silent).await.map(|state| *state);
        match now {
            Ok(LineState::Delayed(by)) => tokio::time::sleep(by).await,
            Ok(LineState::Reordered) => {
                let mut passed = line.passed.subscribe();
                let later = passed.wait_for(|passed| *passed > number);
                // In time or not, it passes then.
                let _ = tokio::time::timeout(REORDER_WAIT, later).await.is_ok();
            }
            _ => {}
        }
        line.passed.send_if_modified(|passed| {
            let is_newer = number > *passed;
            *passed = number.max(*passed);
            is_newer
        });
        if to.write_all(&part[..length]).await.is_err() {
            break;
        }
    }
    to.shutdown().await.ok();
}
