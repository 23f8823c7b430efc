//! Batches whose flush may wait: what they cost, and what a power cut leaves of them.

use super::client::{row_put, row_put_with, rows_read};
use super::programme::{CrashWorld, each_seed};
use crate::contract::TransactionOption;

const LATER: &[TransactionOption] = &[TransactionOption::FlushLater];

/// Heartbeats of an idle store write little: no flush of the log, and none of its marker.
#[test]
fn a_batch_that_may_wait_flushes_nothing_and_the_next_one_flushes_both() {
    let mut world = CrashWorld::with_sizes(1, 1 << 16, 1 << 30);
    let opened = world.try_open().expect("an empty disk");
    row_put(&opened.engine, b"before", b"x").expect("a commit");
    opened.engine.step();
    let before = world.disk.file_flushes();
    for beat in 0..100_u8 {
        row_put_with(&opened.engine, b"beat", &[beat], LATER).expect("a commit");
        // An idle engine.
        opened.engine.step();
    }
    assert_eq!(world.disk.file_flushes(), before);
    row_put(&opened.engine, b"after", b"x").expect("a commit");
    assert_eq!(world.disk.file_flushes(), before + 1, "one flush makes all of them durable");
    world.power_cut();
    let opened = world.try_open().expect("a power cut is no damage");
    let (_, rows) = rows_read(&opened.engine).expect("an open store is read");
    assert_eq!(rows.get(b"beat".as_slice()).map(AsRef::as_ref), Some([99].as_slice()));
}

/// Without a power cut nothing is lost, also if the process is killed or the log goes to another segment.
#[test]
fn a_kill_loses_no_batch_that_may_wait() {
    each_seed(40, |seed| {
        let mut world = CrashWorld::with_sizes(seed, 1 << 11, 1 << 30);
        let mut opened = world.try_open().expect("an empty disk");
        for round in 0..4_u8 {
            for beat in 0..60_u8 {
                row_put_with(&opened.engine, b"beat", &[round, beat], LATER).expect("a commit");
            }
            world.disk = world.disk.kill();
            opened = world.try_open().expect("a kill is no damage");
            let (_, rows) = rows_read(&opened.engine).expect("an open store is read");
            assert_eq!(rows.get(b"beat".as_slice()).map(AsRef::as_ref), Some([round, 59].as_slice()));
        }
    });
}
