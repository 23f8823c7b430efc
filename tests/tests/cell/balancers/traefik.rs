//! Traefik over the catalogue of Consul.

use std::path::Path;

use borough_testkit::HeldProgram;
use borough_tests::TestCell;

use super::page::{example, replaced};

/// Starts it before the job `web`. It listens on `address`.
pub(super) fn start(cell: &TestCell, program: &Path, address: &str) -> HeldProgram {
    let again = cell.file("again.yaml", AGAIN);
    let text = example(cell, "### Traefik", address);
    let text = replaced(&text, "/etc/traefik/again.yaml", &again);
    let file = cell.file("traefik.yaml", &text);
    HeldProgram::start(program, &[format!("--configFile={file}")], Path::new(&file).with_extension("log"))
}

/// The file that the documentation describes.
const AGAIN: &str = "http: {middlewares: {again: {retry: {attempts: 4}}}}\n";
