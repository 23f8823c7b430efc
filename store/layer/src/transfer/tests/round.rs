//! From one store to another.

use std::collections::BTreeSet;
use std::io::{self, Read};

use borough_kv::{ErrorCode, RangeRequest};

use super::*;
use crate::cell::cell_gate_set;
use crate::check::tests::load::{assert_same, entries, slow};
use crate::check::{CheckMode, cell_rows_load, cell_rows_read, cell_violations};
use crate::federation::federation_cell_read;
use crate::journal::{ChangeSet, journal_tail};
use crate::key_kind::KeyKind;
use crate::keys::{self, AccessGrantKey, StoredRow};
use crate::lease::LeaseAcquired;
use crate::placement::tests::Steps;
use crate::placement::tests::world::World;
use crate::row::AccessGrantRow;
use crate::testing::{change, seeds};

async fn world(seed: u64, steps: u32) -> (World, Steps) {
    let (mut world, mut going) = (World::new(seed).await, Steps::new());
    for _ in 0..steps {
        going.step(&mut world).await;
    }
    (world, going)
}

/// The exported rows are the same, and the others belong to a new epoch.
fn assert_copy(copy: &CellRows, exported: &CellRows, seed: u64) {
    let mut model = exported.clone();
    let names = |rows: &CellRows| rows.name_revisions.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(copy), names(exported), "seed {seed}");
    model.name_revisions = copy.name_revisions.clone();
    assert_same(copy, &model, seed);
    assert_eq!(copy.meta, exported.meta, "seed {seed}");
    assert_eq!(copy.quota_limits, exported.quota_limits, "seed {seed}");
    assert_eq!(copy.quota_used, exported.quota_used, "seed {seed}");
    assert_eq!(copy.quota_released, exported.quota_released, "seed {seed}");
    assert_eq!(copy.quota_below, exported.quota_below, "seed {seed}");
    assert_eq!(copy.requests, exported.requests, "seed {seed}");
    assert_eq!(copy.request_expiries, exported.request_expiries, "seed {seed}");
    assert!(copy.leases.is_empty() && copy.node_leases.is_empty() && copy.journal_head.is_none());
}

/// Exports while the world changes, imports elsewhere, and compares with the journal's records of the position.
async fn round_trip(seed: u64) {
    let (mut world, mut steps) = world(seed, 120).await;
    let (db, space) = (slow(&world), world.space.clone());
    let exporting = cell_export(&db, &space, 4, |_| {});
    let going_on = async {
        loop {
            steps.step(&mut world).await;
        }
    };
    let exported = tokio::select! {
        exported = exporting => exported.unwrap(),
        () = going_on => unreachable!("it goes on"),
    };
    let mut model = CellRows::default();
    for (cursor, entry) in entries(&world, exported.at).await {
        entry.deltas.into_iter().for_each(|delta| crate::check::delta_apply(&mut model, cursor, delta));
    }
    assert_same(&exported.rows, &model, seed);
    let (file, end) = file_of(&exported.rows, &header(1, exported.at), 7);
    assert!(end.blocks > 1, "seed {seed}: {end:?}");
    assert_eq!(file_verify(&file[..]).unwrap().1, end);
    let target = empty_store(seed, FaultPlan::standard());
    let named = CellSpace::new(name("gamma"));
    let imported = import(&target, &named, &file).await.unwrap();
    assert_eq!((imported.rows, imported.gate.state), (end.rows, CellState::Open), "seed {seed}");
    assert!(imported.gate.store_epoch > exported.at.store_epoch, "seed {seed}");
    let copy = cell_rows_load(&target, &named, 5, |_| {}).await.unwrap().0;
    assert_copy(&copy, &exported.rows, seed);
    let lines: Vec<String> =
        cell_violations(&copy, CheckMode::Always).iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "seed {seed}:\n{}", lines.join("\n"));
}

/// One seed alone: `BOROUGH_SEED=<seed> cargo test -p borough-store transfer`.
#[tokio::test(start_paused = true)]
async fn a_copy_is_the_cell_as_of_one_position_whatever_happens_meanwhile() {
    for seed in seeds(5) {
        Box::pin(round_trip(seed)).await;
    }
}

/// All stored rows of a world, in the order of keys.
async fn stored_rows(world: &World) -> Vec<StoredRow> {
    let range = world.space.range();
    let request = RangeRequest::between(range.start, range.end).snapshot();
    let rows = world.read(async |tx, _| Ok(tx.range_all(request.clone()).await?)).await.unwrap();
    rows.iter().map(|(key, value)| StoredRow::decode(&world.space, key, value).unwrap()).collect()
}

/// The file contains every stored row of an exported kind, unchanged.
#[tokio::test(start_paused = true)]
async fn nothing_of_a_cell_is_forgotten() {
    let (world, _) = world(2, 160).await;
    let grant = AccessGrantKey { subject: "user/ann".to_owned() };
    world.read(async |tx, space| keys::write(tx, space, &grant, &AccessGrantRow::default())).await.unwrap();
    let exported = cell_export(&world.db, &world.space, 50, |_| {}).await.unwrap();
    let (file, end) = file_of(&exported.rows, &header(1, exported.at), 1_000);
    assert_eq!(file_verify(&file[..]).unwrap().1, end, "it can be read back");
    let mut reader = ExportReader::begin(&file[..]).unwrap();
    let mut carried = Vec::new();
    while let FileBlock::Rows { rows, .. } = reader.block().unwrap() {
        carried.extend(rows);
    }
    let rows = stored_rows(&world).await;
    let own = rows.iter().filter(|row| super::super::export::is_carried(row.kind()));
    let own: Vec<(Vec<u8>, Vec<u8>)> = own
        .map(|row: &StoredRow| {
            let (key, value) = row.encode(&world.space).unwrap();
            (key[world.space.prefix().len()..].to_vec(), value)
        })
        .collect();
    assert_eq!(carried, own);
    let kinds: BTreeSet<KeyKind> = rows.iter().map(StoredRow::kind).collect();
    assert!(kinds.len() > 15, "{kinds:?}");
}

/// A file whose reading ends after some bytes, as if the process is killed there.
struct Killed<'a> {
    file: &'a [u8],
    left: usize,
}

impl Read for Killed<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = out.len().min(self.left);
        if length == 0 {
            return Err(io::Error::other("killed"));
        }
        let read = self.file.read(&mut out[..length])?;
        self.left -= read;
        Ok(read)
    }
}

/// Where each block of a file ends.
fn block_ends(file: &[u8]) -> Vec<usize> {
    let (mut at, mut ends) = (12, Vec::new());
    while at < file.len() {
        let length = u32::from_le_bytes(file[at + 1..at + 5].try_into().unwrap()) as usize;
        at += 9 + length;
        ends.push(at);
    }
    ends
}

#[tokio::test(start_paused = true)]
async fn an_import_that_is_interrupted_anywhere_goes_on_and_shows_nothing_before() {
    let (world, _) = world(4, 60).await;
    let exported = cell_export(&world.db, &world.space, 50, |_| {}).await.unwrap();
    let (file, end) = file_of(&exported.rows, &header(1, exported.at), 6);
    let target = empty_store(9, FaultPlan::heavy());
    let space = CellSpace::new(name("alpha"));
    let (mut stored, mut unanswered) = (0, 0);
    let ends = block_ends(&file);
    for (at, after) in ends.iter().take(ends.len() - 1).enumerate() {
        // In the middle of the block that follows. If a commit is never answered it ends earlier; then try again.
        loop {
            let killed = Killed { file: &file, left: after + 5 };
            let mut reader = ExportReader::begin(killed).unwrap();
            let begun = begin(&target, &space, &reader.header().clone(), ReplaceCell::Never).await.unwrap();
            match &begun {
                ImportBegun::Fresh => assert_eq!(at, 0),
                // A commit that was never answered may have been stored.
                ImportBegun::Resumed(row) => assert!([at, at + 1].contains(&(row.blocks as usize + 1))),
                ImportBegun::Done => panic!("it is done before its end was read"),
            }
            match cell_import_run(&target, &space, &mut reader, 9_500, |_| stored += 1).await {
                Err(ImportError::File(ExportFileError::Io(_))) => break,
                Err(ImportError::Store(StoreError::Kv(error)))
                    if error.code == ErrorCode::TransactionTimedOut =>
                {
                    unanswered += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        let progress = run(&target, async |tx| cell_import_progress(tx, &space).await).await.unwrap();
        assert_eq!(progress.map(|import| import.blocks), Some(at as u64), "the blocks that were read whole");
        let closed = run_change(&target, &space).await;
        assert!(matches!(closed, Err(StoreError::CellClosed { state: "importing", .. })), "{closed:?}");
        let export = cell_export(&target, &space, 50, |_| {}).await;
        assert!(matches!(export, Err(StoreError::CellClosed { .. })));
    }
    assert!((stored..=stored + unanswered).contains(&end.blocks), "each block is stored once");
    let imported = import(&target, &space, &file).await.unwrap();
    assert_eq!((imported.blocks_stored, imported.rows), (0, end.rows));
    run_change(&target, &space).await.unwrap();
    let copy = run(&target, async |tx| cell_rows_read(tx, &space).await).await.unwrap();
    assert_copy(&copy, &exported.rows, 4);
    let again = begin(&target, &space, &header(1, exported.at), ReplaceCell::Never).await.unwrap();
    assert_eq!(again, ImportBegun::Done);
    let known = run(&target, async |tx| federation_cell_read(tx, &name("alpha")).await).await.unwrap();
    assert_eq!(known.store, crate::federation::STORE_HERE);
}

async fn run_change(db: &Database, space: &CellSpace) -> StoreResult<()> {
    run(db, async |tx| ChangeSet::begin(tx, space, &change(1, "test")).await.map(drop)).await
}

#[tokio::test(start_paused = true)]
async fn a_cell_that_is_there_is_refused_unless_it_has_moved() {
    let (world, _) = world(6, 40).await;
    let exported = cell_export(&world.db, &world.space, 50, |_| {}).await.unwrap();
    let (file, _) = file_of(&exported.rows, &header(1, exported.at), 20);
    let (other, _) = file_of(&exported.rows, &header(2, exported.at), 20);
    let target = empty_store(1, FaultPlan::none());
    let space = CellSpace::new(name("alpha"));
    assert_eq!(
        begin(&target, &space, &header(1, exported.at), ReplaceCell::Never).await.unwrap(),
        ImportBegun::Fresh
    );
    let refused = import(&target, &space, &other).await.unwrap_err();
    assert!(
        matches!(&refused, ImportError::Store(StoreError::AlreadyExists { what }) if what.contains("half")),
        "{refused:?}"
    );
    let first = import(&target, &space, &file).await.unwrap();
    let refused = import(&target, &space, &other).await.unwrap_err();
    assert!(matches!(refused, ImportError::Store(StoreError::AlreadyExists { .. })), "{refused:?}");
    for replace in [ReplaceCell::Never, ReplaceCell::Closed] {
        let refused = begin(&target, &space, &header(2, exported.at), replace).await;
        assert!(matches!(refused, Err(StoreError::AlreadyExists { .. })), "an open cell is never replaced");
    }
    run(&target, async |tx| cell_gate_set(tx, &space, CellState::Moved, 1).await).await.unwrap();
    let refused = begin(&target, &space, &header(2, exported.at), ReplaceCell::Never).await;
    assert!(matches!(refused, Err(StoreError::AlreadyExists { what }) if what.contains("moved")));
    let begun = begin(&target, &space, &header(2, exported.at), ReplaceCell::Closed).await.unwrap();
    assert_eq!(begun, ImportBegun::Fresh);
    let second = import(&target, &space, &other).await.unwrap();
    assert!(second.gate.store_epoch > first.gate.store_epoch, "positions of the first copy are refused");
    let after = Cursor::start(first.gate.store_epoch);
    let tail = run(&target, async |tx| journal_tail(tx, &space, after, 1).await).await;
    assert!(matches!(tail, Err(StoreError::ForeignEpoch { .. })), "{tail:?}");
}

#[tokio::test(start_paused = true)]
async fn keys_without_a_gate_are_nobodys_to_overwrite() {
    let target = empty_store(1, FaultPlan::none());
    let space = CellSpace::new(name("alpha"));
    let claim = crate::lease::LeaseClaim {
        role: "scheduler".to_owned(),
        shard: 0,
        holder: "a".to_owned(),
        duration_ms: 1,
        generation: 0,
        expired: None,
    };
    let held = run(&target, async |tx| crate::lease::lease_acquire(tx, &space, &claim).await).await.unwrap();
    assert!(matches!(held, LeaseAcquired::Held(_)));
    let refused = begin(&target, &space, &header(1, Cursor::start(1)), ReplaceCell::Never).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
}

/// The copy would lack rows that cannot be read.
#[tokio::test(start_paused = true)]
async fn a_damaged_cell_is_not_exported() {
    let (world, _) = world(1, 30).await;
    let range = crate::keys::kind_range(&world.space, KeyKind::Node);
    let damage = world.read(async |tx, _| {
        let rows =
            tx.range_all(RangeRequest::between(range.start.clone(), range.end.clone()).limit(1)).await?;
        Ok(tx.set(&rows[0].0, b"\x0a\x01?")?)
    });
    damage.await.unwrap();
    let refused = cell_export(&world.db, &world.space, 50, |_| {}).await.unwrap_err();
    assert!(refused.to_string().contains("cannot be read"), "{refused}");
}
