//! A proxy before a gateway that fails as it is told: it cuts, holds back and delays connections, and answers calls
//! itself. Its orders come over HTTP, so that a test in any language can give them: see `tests/clients/README.md`.

mod call;
mod control;
mod fault;
mod line;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::proxy::fault::{Script, Scripted};
use crate::proxy::line::Line;

/// Two addresses that lead to one gateway, and one for the orders. Dropping it ends it.
pub struct FaultProxy {
    /// The addresses `host:port` before the gateway.
    pub gateways: [SocketAddr; 2],
    /// Where orders are taken.
    pub control: SocketAddr,
    _tasks: JoinSet<()>,
}

/// What all connections of a proxy share.
struct ProxyState {
    /// The address of the gateway.
    target: String,
    lines: [Line; 2],
    scripts: Mutex<Vec<Script>>,
    /// Calls that have reached the gateway, by method.
    calls: Mutex<BTreeMap<String, u64>>,
}

impl FaultProxy {
    /// Starts a proxy before the gateway at `target` (`host:port`).
    ///
    /// # Panics
    /// Loopback has no free port.
    pub async fn start(target: String) -> Self {
        let lines = [Line::default(), Line::default()];
        let state =
            Arc::new(ProxyState { target, lines, scripts: Mutex::default(), calls: Mutex::default() });
        let mut tasks = JoinSet::new();
        let (first, second, control) = (listen().await, listen().await, listen().await);
        let gateways = [address(&first), address(&second)];
        let control_address = address(&control);
        for (number, listener) in [first, second].into_iter().enumerate() {
            tasks.spawn(line::serve(Arc::clone(&state), number, listener));
        }
        tasks.spawn(control::serve(state, control));
        Self { gateways, control: control_address, _tasks: tasks }
    }
}

impl ProxyState {
    /// Takes the next scripted fault for a call of `method`.
    fn scripted(&self, gateway: usize, method: &str) -> Option<Scripted> {
        let mut scripts = self.scripts.lock();
        let place = scripts.iter().position(|script| script.applies(gateway, method))?;
        let script = &mut scripts[place];
        script.count -= 1;
        let scripted = script.what.clone();
        if script.count == 0 {
            scripts.remove(place);
        }
        Some(scripted)
    }

    /// Counts a call that reaches the gateway.
    fn count(&self, method: &str) {
        *self.calls.lock().entry(method.to_owned()).or_default() += 1;
    }
}

async fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a port")
}

fn address(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().expect("an address")
}
