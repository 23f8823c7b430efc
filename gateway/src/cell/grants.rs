//! The grants of a cell in the memory of a gateway.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::access::AccessTable;
use borough_store::StoreResult;
use borough_store::access::{AccessPart, access_head, access_head_watch, access_part_read};
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::context::CellContext;

/// The gateway looks so often by itself, since a watch may be lost. A grant that is taken away ends within it.
const LOOK: Duration = Duration::from_secs(2);
/// How long a failed look waits.
const AGAIN: Duration = Duration::from_millis(200);

/// The grants as last read. A gateway that loses the store goes on with them.
#[derive(Debug, Default)]
pub(crate) struct AccessMirror {
    read: RwLock<Option<AccessRead>>,
    moved: Notify,
}

#[derive(Clone, Debug)]
struct AccessRead {
    head: i64,
    table: Arc<AccessTable>,
}

impl AccessMirror {
    /// The grants; `None` until they were read once.
    pub(crate) fn table(&self) -> Option<Arc<AccessTable>> {
        self.read.read().as_ref().map(|read| Arc::clone(&read.table))
    }

    /// Completes at the next change of the grants after this call.
    pub(super) fn moved(&self) -> Notified<'_> {
        self.moved.notified()
    }

    /// Waits until the table shows a change that the store has at `head`.
    pub(crate) async fn shows(&self, head: i64) {
        loop {
            let moved = self.moved.notified();
            if self.read.read().as_ref().is_some_and(|read| read.head >= head) {
                return;
            }
            moved.await;
        }
    }
}

/// Keeps the grants of a cell up to date, for ever.
pub(crate) async fn access_follow(cell: Arc<CellContext>) {
    loop {
        match look(&cell).await {
            Ok(watch) => drop(tokio::time::timeout(LOOK, watch).await),
            Err(error) => {
                tracing::warn!(cell = %cell.name, %error, "the grants of the cell cannot be read; those known stay in force");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// Reads the grants if they have changed, and returns a watch for the next change.
async fn look(cell: &CellContext) -> StoreResult<borough_kv::Watch> {
    let space = &cell.space;
    let looked = cell.db.run("access_head", Idempotency::ReadOnly, |tx, _| async move {
        Ok::<_, borough_store::StoreError>((
            access_head(&tx, space).await?,
            access_head_watch(&tx, space).await?,
        ))
    });
    let (head, watch) = looked.await?;
    let known = cell.access.read.read().as_ref().map(|read| read.head);
    if known != Some(head) {
        // A change meanwhile moves the head again, so the next look reads it.
        let table = Arc::new(table_read(cell).await?);
        *cell.access.read.write() = Some(AccessRead { head, table });
        cell.access.moved.notify_waiters();
    }
    Ok(watch)
}

async fn table_read(cell: &CellContext) -> StoreResult<AccessTable> {
    let (mut whole, mut part, space) = (AccessTable::default(), AccessPart::default(), &cell.space);
    while !part.is_last() {
        let begin = &part;
        let read = cell.db.run("access_read", Idempotency::ReadOnly, |tx, _| async move {
            access_part_read(&tx, space, begin.clone()).await
        });
        let (table, next) = read.await?;
        whole.grants.extend(table.grants);
        whole.quotas.extend(table.quotas);
        part = next;
    }
    Ok(whole)
}
