//! Fuzz targets: plain functions over bytes, one per file. Each file states its property. A broken property panics.
//!
//! | to run | command |
//! |---|---|
//! | each target over its corpus and some thousand seeded changes of it | `cargo test -p borough-fuzz` |
//! | the same, with command lines | `cargo test -p borough-fuzz --features cli` |
//! | one input of a failure again | as the failure prints it |
//! | the corpora as files, for libFuzzer | `BOROUGH_CORPUS=$PWD/fuzz/corpus cargo test -p borough-fuzz` |
//! | a target without end, on nightly | `cargo install cargo-fuzz`, then `cargo +nightly fuzz run --features libfuzzer keys` |
//! | the target `command_line` | the same with `--features libfuzzer,cli` |

pub mod amounts;
pub mod certificates;
#[cfg(feature = "cli")]
pub mod command_line;
pub mod dns_packets;
pub mod job_file;
pub mod journal;
pub mod keys;
pub mod names;
pub mod requests;
pub mod rows;
pub mod store_files;
pub mod tokens;

use std::borrow::Cow;

/// The bytes of every stored type.
const GOLDEN: &str = include_str!("../../store/model/tests/model/golden/encoding.txt");

/// Every pinned encoding of the samples of a type.
fn golden(sample: &str) -> Vec<Vec<u8>> {
    let of_type = |line: &&str| line.split(['.', ' ']).next() == Some(sample);
    let bytes = |line: &str| hex::decode(line.split_once(' ')?.1).ok();
    GOLDEN.lines().filter(of_type).filter_map(bytes).collect()
}

/// The bytes as a text. Those that are no text are replaced.
fn text(data: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(data)
}
