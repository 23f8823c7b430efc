//! The client's network thread: started once per process, and stopped before the process ends.
//!
//! A stopped network can never be started again, so no database owns it. It starts with the first database, and a
//! program stops it with [`network_stop`] as its last step. For a program that forgets this, an exit handler ends the
//! process at once. By then parts of the client's library are torn down already, so both stopping the network and
//! letting it run would crash.

use std::sync::mpsc;
use std::thread::JoinHandle;

use foundationdb::api::{FdbApiBuilder, NetworkAutoStop};
use parking_lot::Mutex;

/// The phase of the network.
enum Network {
    NotStarted,
    Running(Keeper),
    /// It failed to start, for this reason.
    Failed(String),
    Stopped,
}

/// The thread that runs the network. Dropping `end` stops it.
struct Keeper {
    end: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

static NETWORK: Mutex<Network> = Mutex::new(Network::NotStarted);

#[expect(unsafe_code, reason = "the C library's exit hook and its end without further hooks")]
unsafe extern "C" {
    safe fn on_exit(
        callback: extern "C" fn(i32, *mut std::ffi::c_void),
        argument: *mut std::ffi::c_void,
    ) -> i32;
    safe fn _exit(status: i32) -> !;
}

extern "C" fn exit_now(status: i32, _argument: *mut std::ffi::c_void) {
    // Rust has flushed its output by now. The handler must not wait for a lock.
    if NETWORK.try_lock().is_none_or(|network| matches!(*network, Network::Running(_))) {
        _exit(status);
    }
}

/// Stops the network for good and waits for it. Every database and transaction should be dropped before.
pub(crate) fn network_stop() {
    let network = std::mem::replace(&mut *NETWORK.lock(), Network::Stopped);
    if let Network::Running(Keeper { end, thread }) = network {
        drop(end);
        // The panic hook has reported a panic there.
        let _ = thread.join();
    }
}

/// Starts the network unless it runs already.
pub(crate) fn network_start() -> Result<(), String> {
    let mut network = NETWORK.lock();
    if matches!(*network, Network::NotStarted) {
        *network = match keeper_start() {
            Ok(keeper) => Network::Running(keeper),
            Err(error) => Network::Failed(error),
        };
    }
    match &*network {
        Network::Running(_) => Ok(()),
        Network::Failed(error) => Err(error.clone()),
        Network::NotStarted | Network::Stopped => Err("the client's network thread was stopped".to_owned()),
    }
}

fn keeper_start() -> Result<Keeper, String> {
    let (end, ended) = mpsc::channel::<()>();
    let (start, started) = mpsc::channel();
    let run = move || {
        let network = network_boot();
        let answer = network.as_ref().map(|_| ()).map_err(Clone::clone);
        // On an error nobody waits for the start; then this thread ends at once, and the network with it.
        if start.send(answer).is_ok() {
            // The other end never sends: this waits until it is dropped.
            let _ = ended.recv();
        }
        drop(network);
    };
    let thread = std::thread::Builder::new().name("fdb-keeper".to_owned()).spawn(run);
    let thread = thread.map_err(|error| error.to_string())?;
    started.recv().map_err(|error| error.to_string())??;
    if on_exit(exit_now, std::ptr::null_mut()) != 0 {
        // Better no network than one that outlives `main`.
        return Err("the exit handler could not be registered".to_owned());
    }
    Ok(Keeper { end, thread })
}

fn network_boot() -> Result<NetworkAutoStop, String> {
    let describe = |error: foundationdb::FdbError| format!("{error} (code {})", error.code());
    let builder = FdbApiBuilder::default().build().map_err(describe)?;
    #[expect(
        unsafe_code,
        reason = "the guard must be dropped before the process exits: by the keeper, else the exit handler ends it"
    )]
    unsafe { builder.boot() }.map_err(describe)
}
