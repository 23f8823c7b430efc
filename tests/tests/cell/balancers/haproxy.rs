//! HAProxy over DNS.

use std::path::Path;

use borough_testkit::HeldProgram;
use borough_tests::TestCell;

use super::page::example;

/// What the documentation leaves to its reader.
const BEFORE: &str = "defaults
    mode http
    timeout connect 2s
    timeout client 10s
    timeout server 10s
";

/// Starts it before the job `web`. It listens on `address`.
pub(super) fn start(cell: &TestCell, program: &Path, address: &str) -> HeldProgram {
    let documented = example(cell, "### HAProxy", address);
    let text = format!("{BEFORE}{documented}\nfrontend in\n    bind {address}\n    default_backend web\n");
    let file = cell.file("haproxy.cfg", &text);
    HeldProgram::start(program, &["-f", &file], Path::new(&file).with_extension("log"))
}
