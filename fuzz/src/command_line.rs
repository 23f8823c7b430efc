//! Command lines: verbs, names of jobs and tasks, durations, amounts, taints, queues and labels. A line break separates
//! two arguments.
//!
//! Property: no arguments make the parser panic, and the same arguments give the same answer again.

use std::ffi::OsString;

use borough_cli::args::Arguments;

use crate::text;

/// One command line.
pub fn run(data: &[u8]) {
    let text = text(data);
    let arguments = || std::iter::once("borough").chain(text.split('\n')).map(OsString::from);
    let answer = |read: Result<Arguments, _>| {
        read.map_or_else(|error: clap::Error| error.to_string(), |read| format!("{read:?}"))
    };
    assert_eq!(answer(Arguments::read(arguments())), answer(Arguments::read(arguments())));
}

/// Verbs with arguments of each kind.
pub fn corpus() -> Vec<Vec<u8>> {
    let lines = [
        "job list --label team=a --user ann",
        "job status ann/web",
        "job stop web --timeout 5m",
        "task logs ann/web/3 --follow",
        "task signal web/3 TERM",
        "why web/3",
        "node taint node-1 key=value:NoSchedule",
        "node drain node-1 --timeout 1h30m",
        "cell set --queue a/b=weight:2,guaranteed:10% --max-age 2d",
        "dev --cpu 2 --memory 1Gi",
    ];
    lines.map(|line| line.replace(' ', "\n").into_bytes()).to_vec()
}
