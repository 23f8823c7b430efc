//! What roles say while they work: structured lines on standard error, filtered by `BOROUGH_LOG`.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts the log of a role; `default` is the filter where `BOROUGH_LOG` says nothing.
pub(crate) fn log_begin(default: &str) {
    let filter = EnvFilter::try_from_env("BOROUGH_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // Set before by a test of this process: that one stays.
    subscriber.try_init().ok();
}
