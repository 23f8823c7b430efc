//! The micro workload of the benchmarks: a task that records its start, listens, and waits for its end.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;

/// Arguments of the task.
#[derive(Debug, Args)]
pub(crate) struct MicroTaskArguments {
    /// File into which the wall time of the start goes, microseconds since 1970
    #[arg(long)]
    note: PathBuf,
    /// Port to listen on
    #[arg(long)]
    port: u16,
}

/// Microseconds since 1970: the one clock that two processes of a machine share and can write down.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
pub(crate) fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Runs until a signal ends it.
pub(crate) fn run(arguments: &MicroTaskArguments) -> anyhow::Result<()> {
    let started_us = wall_us();
    let temporary = arguments.note.with_extension("new");
    let mut file = std::fs::File::create(&temporary)?;
    file.write_all(started_us.to_string().as_bytes())?;
    std::fs::rename(&temporary, &arguments.note)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port))?;
    for connection in listener.incoming() {
        drop(connection);
    }
    Ok(())
}
