//! Finds out whether a batch was committed, after a commit with an unknown result.

use borough_kv::{Transaction, Version, Versionstamp};
use borough_model::RequestId;

use crate::error::StoreResult;
use crate::journal::journal_tail;
use crate::keys::CellSpace;
use crate::row::Cursor;

/// A commit that timed out (1031) can no longer happen once the read version has passed the batch's by this much. A
/// transaction lasts at most five seconds, at a million versions per second; one more second allows for differences
/// between clocks.
pub const TRANSACTION_LIFE_VERSIONS: Version = 6_000_000;

/// Journal entries read per page.
const PAGE_ENTRIES: usize = 512;

/// The stamp of the commit of batch `id`, decided at read version `decided_at`; `None` if it is not in the journal at
/// this transaction's read version.
///
/// Call it in a transaction begun after the commit's unknown result (1021, 1039), or after a 1031 at a read version
/// more than [`TRANSACTION_LIFE_VERSIONS`] past `decided_at`. Only then does `None` prove that the commit never
/// happened.
pub async fn placement_find(
    tx: &Transaction,
    space: &CellSpace,
    store_epoch: u64,
    decided_at: Version,
    id: RequestId,
) -> StoreResult<Option<Versionstamp>> {
    let mut after = Cursor { store_epoch, stamp: Versionstamp::new(decided_at, u16::MAX) };
    loop {
        let page = journal_tail(tx, space, after, PAGE_ENTRIES).await?;
        if let Some((cursor, _)) = page.entries.iter().find(|(_, entry)| entry.request == id) {
            return Ok(Some(cursor.stamp));
        }
        if !page.more {
            return Ok(None);
        }
        after = page.next;
    }
}
