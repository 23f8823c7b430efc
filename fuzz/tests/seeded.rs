//! Runs each target over its corpus and over seeded changes of it, on stable Rust. The number of inputs bounds a run,
//! so that it is the same on every machine. A failure prints the command that runs its input again.
//!
//! | variable | what it sets | otherwise |
//! |---|---|---|
//! | `BOROUGH_SEED` | the seed of the first changed input; each next one has the next seed | 0 |
//! | `BOROUGH_RUNS` | the number of changed inputs | that of the target |
//! | `BOROUGH_CORPUS` | a folder into which each target's corpus is written, in a folder of its name | no folder |

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test says what it expected, and what failed"
)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The longest input. Longer ones only take longer.
const BYTES_MAX: usize = 4_096;
/// Bytes at which readers have borders: CBOR and tuple headers, digits, quotes, units.
const INTERESTING: &[u8] =
    b"\0\x01\x14\x15\x16\x18\x1b\x1f\x5f\x7f\x80\x9f\xbf\xf6\xf7\xff-.:/'\"{}[]&*!#0159eEmKi\n ";

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

fn changed(corpus: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut one = || corpus[random.random_range(0..corpus.len())].clone();
    let (mut data, other) = (one(), one());
    for _ in 0..random.random_range(1..8) {
        let at = random.random_range(0..=data.len());
        let end = random.random_range(at..=data.len().min(at + 16));
        match random.random_range(0..8) {
            0 if at < data.len() => data[at] ^= 1 << random.random_range(0..8),
            1 if at < data.len() => data[at] = INTERESTING[random.random_range(0..INTERESTING.len())],
            2 => data.insert(at, INTERESTING[random.random_range(0..INTERESTING.len())]),
            3 => data.insert(at, random.random()),
            4 => drop(data.drain(at..end)),
            5 => {
                let part = data[at..end].to_vec();
                data.splice(at..at, part);
            }
            6 => data.truncate(at),
            _ => {
                let from = random.random_range(0..=other.len());
                data.splice(at..end, other[from..].iter().copied().take(32));
            }
        }
    }
    data.truncate(BYTES_MAX);
    data
}

fn each_input(name: &str, target: fn(&[u8]), corpus: &[Vec<u8>], runs: u64) {
    assert!(!corpus.is_empty(), "{name} has no corpus");
    let run = |input: &[u8], command: &str| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
            println!(
                "{name} failed on {input:02x?}\nagain: {command} cargo test -p borough-fuzz --test seeded {name}"
            );
            resume_unwind(panic);
        }
    };
    if let Some(folder) = std::env::var_os("BOROUGH_CORPUS") {
        let folder = std::path::Path::new(&folder).join(name);
        std::fs::create_dir_all(&folder).expect("a folder for the corpus");
        for (number, input) in corpus.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number:04}")), input).expect("a file of the corpus");
        }
    }
    corpus.iter().for_each(|input| run(input, "BOROUGH_RUNS=0"));
    let first = number("BOROUGH_SEED", 0);
    for seed in first..first + number("BOROUGH_RUNS", runs) {
        run(&changed(corpus, seed), &format!("BOROUGH_SEED={seed} BOROUGH_RUNS=1"));
    }
}

macro_rules! targets {
    ($($(#[$condition:meta])* $name:ident $runs:literal;)*) => {$(
        $(#[$condition])*
        #[test]
        fn $name() {
            each_input(stringify!($name), borough_fuzz::$name::run, &borough_fuzz::$name::corpus(), $runs);
        }
    )*};
}

targets! {
    amounts 20_000;
    certificates 20_000;
    dns_packets 20_000;
    job_file 5_000;
    journal 20_000;
    keys 20_000;
    names 20_000;
    requests 20_000;
    rows 20_000;
    store_files 400;
    tokens 2_000;
    #[cfg(feature = "cli")] command_line 2_000;
}
