//! The gate against a store: it fences transactions in flight.

use borough_model::{Delta, JobId};

use super::*;
use crate::error::StoreError;
use crate::journal::{ChangeSet, journal_head, journal_tail};
use crate::keys::CellSpace;
use crate::row::Cursor;
use crate::testing::{TestCell, change, gate_open, name, store_epoch_begin};

async fn gate_set(cell: &TestCell, state: CellState) -> CellGate {
    cell.run(async |tx| cell_gate_set(&tx, &cell.space, state, 5).await).await.unwrap()
}

#[tokio::test]
async fn creating_a_cell_twice_is_creating_it_once() {
    let cell = TestCell::new().await;
    let other = CellMeta { profile: "other".to_owned(), ..CellMeta::default() };
    let again = cell.run(async |tx| cell_create(&tx, &cell.space, &other, 9).await).await.unwrap();
    assert_eq!(again, Created::Before);
    let meta = cell.run(async |tx| cell_meta_read(&tx, &cell.space).await).await.unwrap();
    assert_eq!((meta.profile.as_str(), meta.created_ms, meta.revision), ("borg-hybrid", 1_000, 1));
    let edit = async |text: &str| {
        let editing = cell.run(async |tx| {
            let mut changes = ChangeSet::begin(&tx, &cell.space, &change(1, "edit")).await?;
            let meta = cell_meta_change(&tx, &mut changes, |meta| meta.profile = text.to_owned()).await?;
            let deltas = changes.deltas().to_vec();
            changes.append(&tx)?;
            Ok((meta.revision, deltas))
        });
        editing.await.unwrap()
    };
    assert_eq!(edit("swarm-spread").await, (2, vec![Delta::CellSettings { revision: 2 }]));
    assert_eq!(edit("swarm-spread").await, (2, Vec::new()), "changing nothing writes nothing");
}

#[tokio::test]
async fn a_cell_that_is_not_here_is_refused_by_name() {
    let cell = TestCell::new().await;
    let elsewhere = CellSpace::new(name("beta"));
    let begun = cell.run(async |tx| ChangeSet::begin(&tx, &elsewhere, &change(1, "x")).await).await;
    assert!(matches!(begun, Err(StoreError::CellUnknown { cell }) if cell == "beta"));
}

#[tokio::test]
async fn a_draining_cell_takes_no_new_work_and_a_moved_one_none() {
    let cell = TestCell::new().await;
    let begin = async || cell.run(async |tx| ChangeSet::begin(&tx, &cell.space, &change(1, "x")).await).await;
    let begin_open =
        async || cell.run(async |tx| ChangeSet::begin_open(&tx, &cell.space, &change(1, "x")).await).await;
    begin_open().await.unwrap();
    assert_eq!(gate_set(&cell, CellState::Draining).await.revision, 2);
    assert_eq!(gate_set(&cell, CellState::Draining).await.revision, 2, "set already");
    begin().await.unwrap();
    assert!(matches!(begin_open().await, Err(StoreError::CellClosed { state: "draining", .. })));
    gate_set(&cell, CellState::Moved).await;
    assert!(matches!(begin().await, Err(StoreError::CellClosed { state: "moved", .. })));
}

/// A decision from before the gate closed cannot commit after it, even though it read nothing except the gate.
#[tokio::test]
async fn closing_the_gate_fails_what_is_in_flight() {
    let cell = TestCell::new().await;
    let gate = cell.run(async |tx| gate_open(&tx, &cell.space).await).await.unwrap();
    gate_set(&cell, CellState::Draining).await;
    let committing = cell.db.commit_at("late", gate.version(), |tx| {
        let mut changes = ChangeSet::begin_at(tx, &gate, &change(1, "late"))?;
        changes.push(Delta::JobRemoved { job: JobId(1), name: None });
        changes.append(tx)
    });
    let error = committing.await.unwrap_err().error;
    assert!(matches!(error, StoreError::Kv(error) if error.code == borough_kv::ErrorCode::NotCommitted));
    let head = cell.run(async |tx| journal_head(&tx, &cell.space).await).await.unwrap();
    assert_eq!(head, Cursor::start(1), "nothing was recorded");
}

#[tokio::test]
async fn a_new_epoch_has_a_journal_of_its_own() {
    let cell = TestCell::new().await;
    let write = async || {
        let changing = cell.change(change(1, "x"), async |_, changes| {
            changes.push(Delta::JobRemoved { job: JobId(1), name: None });
            Ok(())
        });
        changing.await.unwrap();
    };
    write().await;
    let old = cell.run(async |tx| journal_head(&tx, &cell.space).await).await.unwrap();
    cell.run(async |tx| store_epoch_begin(&tx, &cell.space, 1).await).await.unwrap();
    let tail = async |after| cell.run(async |tx| journal_tail(&tx, &cell.space, after, 10).await).await;
    assert!(matches!(tail(old).await, Err(StoreError::ForeignEpoch { current: 2, .. })));
    assert!(tail(Cursor::start(2)).await.unwrap().entries.is_empty());
    write().await;
    assert_eq!(tail(Cursor::start(2)).await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn every_cell_of_a_store_is_found_whatever_else_is_there() {
    let cell = TestCell::new().await;
    for other in ["alpha-2", "b", "z9"] {
        let space = CellSpace::new(name(other));
        cell.run(async |tx| cell_create(&tx, &space, &CellMeta::default(), 1).await).await.unwrap();
    }
    let foreign: [&[u8]; 8] = [
        b"\x02",
        b"\x02alpha",
        b"\x02alpha\0\xffx\0",
        b"\x02Not A Name\0\x15\x01",
        b"\x02\xff\xfe\0",
        b"\x01x",
        b"\x03x",
        b"\0",
    ];
    let put = async |tx: borough_kv::Transaction| {
        foreign.iter().try_for_each(|key| tx.set(key, b"?"))?;
        Ok(())
    };
    cell.run(put).await.unwrap();
    let found = cell.run(async |tx| cell_list(&tx).await).await.unwrap();
    assert_eq!(found, ["alpha", "alpha-2", "b", "z9"].map(name));
}
