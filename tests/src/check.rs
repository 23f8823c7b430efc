//! Checks the store that a cell leaves behind.

use std::fs;
use std::path::Path;

use borough_kv::Idempotency;
use borough_kv::env::SystemClock;
use borough_model::Name;
use borough_store::CellSpace;
use borough_store::check::{CheckMode, cell_check};
use borough_store::journal::{journal_trim, trim_cutoff};

use crate::store::TestStore;

/// The violations of the settled cells in a store without writers, each on one line.
///
/// # Panics
/// The store cannot be opened or read.
pub async fn store_violations(store: &TestStore, cells: &[String]) -> Vec<String> {
    let store = store.open();
    let mut found = Vec::new();
    for cell in cells {
        let space = CellSpace::new(Name::new(cell.as_str()).expect("a cell's name"));
        let space = &space;
        let check = store.db.run("cell_check", Idempotency::ReadOnly, |tx, _| async move {
            cell_check(&tx, space, CheckMode::Settled).await
        });
        let violations = check.await.expect("the store is read");
        found.extend(violations.into_iter().map(|violation| format!("{cell}: {violation}")));
    }
    store.close().await;
    found
}

/// Trims the whole journal of a cell in a store without writers.
///
/// # Panics
/// The store cannot be opened or written.
pub async fn journal_trim_all(store: &TestStore, cell: &str) {
    let at_ms = SystemClock::shared().wall_ms();
    let store = store.open();
    let space = CellSpace::new(Name::new(cell).expect("a cell's name"));
    let space = &space;
    let trim = store.db.run("journal_trim", Idempotency::Natural, |tx, _| async move {
        let cutoff = trim_cutoff(tx.read_version().await?, 0);
        journal_trim(&tx, space, cutoff, at_ms).await
    });
    let trimmed = trim.await.expect("the journal is trimmed");
    assert!(trimmed.is_some(), "there was nothing to trim");
    store.close().await;
}

/// Every file below `directory` with its bytes, by path.
///
/// # Panics
/// A file cannot be read.
pub fn bytes_of(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![directory.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(directory).expect("below").display().to_string();
                found.push((name, fs::read(&path).expect("a file")));
            }
        }
    }
    found.sort();
    found
}
