//! The `borough` program: a subcommand per role, and the verbs of people who use a cell.

use std::process::ExitCode;

/// jemalloc instead of the C library's allocator, which takes locks when a thread frees what another has allocated.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let code = borough_cli::main(std::env::args_os());
    // Every database is gone by now. A process that ends with FoundationDB's client running may crash.
    borough_fdb::shutdown();
    code
}
