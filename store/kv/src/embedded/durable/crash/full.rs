//! A full disk: the store opens on it and can be read, loses nothing, and recovers by itself once a checkpoint frees
//! space.

use rand::Rng as _;

use super::client::{batch_run, row_put, rows_read};
use super::model::Ending;
use super::model::ExpectedRows;
use super::programme::{CrashWorld, StoreOpening, each_seed};
use crate::contract::ErrorCode;

fn rows(attempt: &StoreOpening) -> ExpectedRows {
    rows_read(&attempt.engine).expect("an open store is read").1
}

/// Writes batches until one is refused for lack of space.
fn fill(world: &mut CrashWorld, attempt: &StoreOpening) {
    for _ in 0..10_000 {
        let mut codes = Vec::new();
        assert!(batch_run(&attempt.engine, &mut world.rng, &mut world.model, &mut codes));
        if codes.contains(&Some(ErrorCode::NoSpace)) {
            return;
        }
    }
    panic!("the disk never fills");
}

#[test]
fn a_store_opens_on_a_full_disk_and_is_read() {
    each_seed(40, |seed| {
        let mut world = CrashWorld::without_checkpoints(seed);
        let mut attempt = world.try_open().expect("an empty disk");
        let mut codes = Vec::new();
        for _ in 0..world.rng.random_range(0..20) {
            assert!(batch_run(&attempt.engine, &mut world.rng, &mut world.model, &mut codes));
        }
        world.disk.free_set(0);
        for round in 0..6 {
            // Even the last segment is full, except for its reserve.
            fill(&mut world, &attempt);
            assert_eq!(rows(&attempt), world.model.rows());
            world.model.version_seen(rows_read(&attempt.engine).expect("a read").0);
            match round % 3 {
                0 => world.disk = world.disk.kill(),
                1 => world.power_cut(),
                _ => {
                    drop(attempt);
                    world.disk = world.disk.kill();
                }
            }
            world.disk.free_set(0);
            attempt = world.try_open().expect("a full disk is no reason not to open");
            let (version, found) = rows_read(&attempt.engine).expect("an open store is read");
            world.model.version_reopened(version);
            world.model.recovered(&found, Ending::PowerCut);
        }
        world.disk.free_set(1 << 30);
        assert!(batch_run(&attempt.engine, &mut world.rng, &mut world.model, &mut codes));
        assert!(codes.contains(&None), "with space again commits go on: {codes:?}");
        assert_eq!(rows(&attempt), world.model.rows());
    });
}

#[test]
fn a_program_notes_its_start_on_a_full_disk() {
    each_seed(20, |seed| {
        let mut world = CrashWorld::with_sizes(seed, 1 << 16, 1 << 30);
        let mut attempt = world.try_open().expect("an empty disk");
        world.disk.free_set(0);
        for opening in 0..20_u8 {
            fill(&mut world, &attempt);
            world.disk = world.disk.kill();
            attempt = world.try_open().expect("a full disk is no reason not to open");
            let noted = row_put(&attempt.engine, b"note", &[opening; 100]);
            assert!(noted.is_ok() || opening >= 15, "opening {opening}: {noted:?}");
            assert_eq!(rows(&attempt), world.model.rows());
        }
    });
}

#[test]
fn a_checkpoint_frees_space_on_a_full_disk() {
    each_seed(10, |seed| {
        let mut world = CrashWorld::with_sizes(seed, 1 << 15, 1 << 17);
        let attempt = world.try_open().expect("an empty disk");
        let put = |round: u32| {
            // The same few rows again and again: a checkpoint of them is small, the log of them is not.
            let key = [b's', u8::try_from(round % 20).expect("small")];
            attempt.clock.advance(std::time::Duration::from_secs(1));
            match row_put(&attempt.engine, &key, &[7; 300]) {
                Ok(()) => true,
                Err(error) if error.code == ErrorCode::NoSpace => false,
                Err(error) => panic!("{error}"),
            }
        };
        for round in 0..1000 {
            assert!(put(round));
            world.disk.turns().grant(50);
        }
        // From now on the log may use only a few segments besides the checkpoint.
        world.disk.free_set(1 << 18);
        for _ in 0..5 {
            // A checkpoint that makes no progress, until the disk is full.
            let filled = (0..4000).find(|round| !put(*round));
            assert!(filled.is_some(), "the disk never fills");
            let again = (0..50).find(|round| {
                world.disk.turns().grant(world.rng.random_range(1..50));
                put(*round)
            });
            assert!(again.is_some(), "the space does not come back");
        }
        assert_eq!(rows(&attempt), world.model.rows());
    });
}
