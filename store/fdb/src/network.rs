//! The client's network thread: started once per process, stopped when the process exits.
//!
//! It can never be started again once stopped, and a process that exits while it runs may crash in its last moments.
//! So nobody owns it: it starts with the first database and an exit handler stops it.

use foundationdb::api::{FdbApiBuilder, NetworkAutoStop};
use parking_lot::Mutex;

/// Where the thread is in its life.
enum Network {
    NotStarted,
    Running(#[expect(dead_code, reason = "its drop is what matters")] NetworkAutoStop),
    /// It failed to start, for this reason.
    Failed(String),
    Stopped,
}

static NETWORK: Mutex<Network> = Mutex::new(Network::NotStarted);

#[expect(unsafe_code, reason = "the C library's exit hook, the one moment that is after everything else")]
unsafe extern "C" {
    safe fn atexit(callback: extern "C" fn()) -> i32;
}

extern "C" fn network_stop() {
    // Dropping the guard stops the thread and waits for it.
    drop(std::mem::replace(&mut *NETWORK.lock(), Network::Stopped));
}

/// Starts the network thread unless it runs already.
pub(crate) fn network_start() -> Result<(), String> {
    let mut network = NETWORK.lock();
    if matches!(*network, Network::NotStarted) {
        *network = match network_boot() {
            Ok(guard) if atexit(network_stop) == 0 => Network::Running(guard),
            // The guard is dropped here, which stops the thread: better none than one that outlives `main`.
            Ok(_) => Network::Failed("the exit handler could not be registered".to_owned()),
            Err(error) => Network::Failed(error),
        };
    }
    match &*network {
        Network::Running(_) => Ok(()),
        Network::Failed(error) => Err(error.clone()),
        Network::NotStarted | Network::Stopped => Err("the client's network thread was stopped".to_owned()),
    }
}

fn network_boot() -> Result<NetworkAutoStop, String> {
    let describe = |error: foundationdb::FdbError| format!("{error} (code {})", error.code());
    let builder = FdbApiBuilder::default().build().map_err(describe)?;
    #[expect(
        unsafe_code,
        reason = "the guard must be dropped before the process exits: the exit handler does"
    )]
    unsafe { builder.boot() }.map_err(describe)
}
