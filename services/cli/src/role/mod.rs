//! Roles of the system that the program can play. `dev` plays every control role in one process; `gateway`, `scheduler`
//! and `controller` play one each over a shared store; node agents are processes of their own in every setting.

pub(crate) mod agent;
mod control;
pub(crate) mod dev;
mod log;
pub(crate) mod serve;
pub(crate) mod store;

use borough_store::error_chain;

use crate::exit::{Code, Failure};

/// Waits for the signal that ends a role, and names it.
async fn terminated() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).ok();
    let terminated = async {
        match &mut terminate {
            Some(terminate) => drop(terminate.recv().await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => "interrupted",
        () = terminated => "terminated",
    }
}

/// A failure of a role, with its causes on one line.
fn failed(what: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::new(Code::Failed, format!("{what}: {}", error_chain(error)))
}
