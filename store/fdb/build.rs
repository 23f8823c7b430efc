//! Passes the directory of `libfdb_c` to the linker if a local build has put it where Rust's linker does not search.

use std::path::Path;

const DIRECTORY: &str = "/usr/local/lib";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_FDB").is_some() && Path::new(DIRECTORY).join("libfdb_c.so").exists() {
        println!("cargo::rustc-link-search=native={DIRECTORY}");
    }
}
