//! The cells of the directory: those of the store, also the ones that come later.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::{Database, Idempotency, Transaction};
use borough_model::Name;
use borough_store::cell::{CellState, cell_gate_read, cell_meta_read};
use borough_store::federation::{STORE_HERE, federation_cell_list};
use borough_store::mirror::MirrorFollower;
use borough_store::{CellSpace, StoreError, StoreResult, error_chain};
use tokio::task::JoinSet;

use crate::follow::{FollowedCell, cell_follow};
use crate::service::NamesShared;

/// Between two looks at the directory. A cell that has come is served after this time.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Which cells a name service serves.
pub enum NamesCells {
    /// These. The first one is the default of the catalogue.
    Given(Vec<FollowedCell>),
    /// Every cell in the directory of this store, also those that come later. The oldest one is the default.
    Directory(Database),
}

/// A cell in the directory that can be served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ListedInDirectory {
    created_ms: i64,
    cell: Name,
}

/// What a look at the directory has found.
#[derive(Debug, Default, PartialEq, Eq)]
struct DirectoryLook {
    /// The oldest first.
    cells: BTreeSet<ListedInDirectory>,
    /// Cells of other stores, or without rows that could be followed.
    elsewhere: BTreeSet<Name>,
}

/// Reads the directory. Of cells that are `known` it reads nothing more: they are served whatever it says.
async fn directory_read(tx: &Transaction, known: &BTreeSet<Name>) -> StoreResult<DirectoryLook> {
    let mut look = DirectoryLook::default();
    let listed = federation_cell_list(tx).await?;
    for (cell, row) in listed.into_iter().filter(|(cell, _)| !known.contains(cell)) {
        let space = CellSpace::new(cell.clone());
        let gate = match cell_gate_read(tx, &space).await {
            Ok(gate) if row.store == STORE_HERE => gate,
            Ok(_) | Err(StoreError::CellUnknown { .. }) => {
                look.elsewhere.insert(cell);
                continue;
            }
            Err(error) => return Err(error),
        };
        match gate.state {
            CellState::Open | CellState::Draining => {
                let created_ms = cell_meta_read(tx, &space).await?.created_ms;
                look.cells.insert(ListedInDirectory { created_ms, cell });
            }
            CellState::Moved | CellState::Importing => drop(look.elsewhere.insert(cell)),
        }
    }
    Ok(look)
}

/// Follows every cell of the directory until the future is dropped. A cell that the directory has no longer is served
/// as last known: only a restart forgets one, so that a directory read at a bad moment takes nothing away.
pub(crate) async fn directory_follow(shared: Arc<NamesShared>, db: Database) {
    let mut followers = JoinSet::new();
    let mut reported = BTreeSet::new();
    loop {
        let known: &BTreeSet<Name> = &shared.cells();
        let look = db.run("directory_read", Idempotency::ReadOnly, |tx, _| async move {
            directory_read(&tx, known).await
        });
        match look.await {
            Ok(look) => {
                let new = look.cells.iter();
                let followed: Vec<FollowedCell> =
                    new.map(|listed| followed(&shared, &db, &listed.cell)).collect();
                for cell in &followed {
                    tracing::info!(cell = %cell.name, "the directory has a cell that was not served yet");
                }
                shared.cells_enter(&followed);
                for cell in followed {
                    followers.spawn(cell_follow(Arc::clone(&shared), cell));
                }
                for cell in look.elsewhere {
                    if reported.insert(cell.clone()) {
                        tracing::warn!(%cell, "the directory has a cell whose rows are not in this store; it is not served");
                    }
                }
            }
            Err(error) => {
                tracing::warn!(error = %error_chain(&error), "cannot read the directory; the known cells are served on");
            }
        }
        shared.sleep_about(LOOK_INTERVAL).await;
    }
}

fn followed(shared: &NamesShared, db: &Database, cell: &Name) -> FollowedCell {
    let space = CellSpace::new(cell.clone());
    let mirror = MirrorFollower::spawn(db.clone(), space, shared.clock_shared(), shared.rng_shared());
    FollowedCell { name: cell.clone(), db: db.clone(), mirror }
}
