//! Whole-system tests: real processes, real clients, faults. This library contains what the tests share. The tests
//! themselves are in `tests/tests/`, those of a cell with one file per noun.
//!
//! A [`TestCell`] is `borough dev` as a child process in a directory of its own, with faults injected into its store
//! from a seed that a failing test prints. A guard ends everything that was started, even if the test itself is killed.

#![expect(clippy::expect_used, reason = "a test that cannot go on says why and fails")]
#![expect(clippy::print_stderr, reason = "a failing test prints what it saw")]

mod cell;
mod check;
mod command;
mod encrypted;
mod follow;
mod http;
mod options;
mod process;
mod proxy;
mod slot;
mod store;
mod task;
mod terminal;
mod wait;
mod window;

pub use cell::TestCell;
pub use check::{bytes_of, journal_trim_all, store_violations};
pub use command::Ran;
pub use encrypted::EncryptedCell;
pub use follow::{Seen, Watcher};
pub use http::{http_get, http_post, sse_events};
pub use options::{NEVER_SHORT, Options};
pub use process::{child_terminated, descendants_of, is_stopped, recorded};
pub use proxy::FaultProxy;
pub use slot::PortSlot;
pub use store::{TestStore, is_fdb};
pub use task::{is_healthy, is_running, is_up};
pub use terminal::answered;
pub use wait::{DEADLINE, now, until, until_or};
pub use window::{TerminalProgram, TerminalSize, TestTerminal};

/// Names the directory in which a cell under test records itself.
pub const RECORDS_VARIABLE: &str = "BOROUGH_TEST_RECORDS";

/// The usual options of a cell of this test.
#[macro_export]
macro_rules! options {
    () => {
        $crate::Options::new(env!("CARGO_BIN_EXE_borough-under-test"), env!("CARGO_CRATE_NAME"))
    };
}
