//! Tells the linker where `libfdb_c` is when it lies where a local build puts it: Rust's linker does not look there.

use std::path::Path;

const DIRECTORY: &str = "/usr/local/lib";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_FDB").is_some() && Path::new(DIRECTORY).join("libfdb_c.so").exists() {
        println!("cargo::rustc-link-search=native={DIRECTORY}");
    }
}
