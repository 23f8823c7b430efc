//! Trimming: retention wins over slow readers. The floor is written with the clear, and every tail reads it.

use borough_kv::{Transaction, Version, Versionstamp};

use super::{Cursor, JournalFloor};
use crate::error::StoreResult;
use crate::keys::{self, CellSpace, JournalFloorKey, JournalKey, Key, Prefix};

/// The first stamp that is kept, `retention_ms` before the read version. Versions count microseconds; over a
/// restart they jump, so that entries of before look older than they are by that jump.
pub fn trim_cutoff(read_version: Version, retention_ms: u64) -> Versionstamp {
    let retention = i64::try_from(retention_ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
    Versionstamp::new(read_version.saturating_sub(retention).max(0), 0)
}

/// Removes entries before `cutoff` and moves the floor. Answers the last position removed; `None` where there was
/// nothing to remove, and then nothing is written.
pub async fn journal_trim(
    tx: &Transaction,
    space: &CellSpace,
    cutoff: Versionstamp,
    at_ms: i64,
) -> StoreResult<Option<Cursor>> {
    let store_epoch = super::gate_read(tx, space).await?.store_epoch;
    let begin = Prefix::<JournalKey>::of(&store_epoch).range(space).start;
    let end = JournalKey { store_epoch, stamp: cutoff, part: 0 }.encode(space);
    if end <= begin {
        return Ok(None);
    }
    let request = borough_kv::RangeRequest::between(begin.clone(), end.clone());
    let rows = tx.range_all(request.reverse().limit(1).snapshot()).await?;
    let Some((last, _)) = rows.first() else { return Ok(None) };
    let last = JournalKey::decode(space, last)?;
    let trimmed_to = Cursor { store_epoch, stamp: last.stamp };
    tx.clear_range(&begin, &end)?;
    keys::write(tx, space, &JournalFloorKey {}, &JournalFloor { trimmed_to, at_ms })?;
    Ok(Some(trimmed_to))
}

/// The floor: the last position that was removed, where anything was.
pub async fn journal_floor(tx: &Transaction, space: &CellSpace) -> StoreResult<Option<JournalFloor>> {
    keys::read(tx, space, &JournalFloorKey {}).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cutoff_lies_the_retention_before_the_read_version() {
        assert_eq!(trim_cutoff(10_000_000, 2_000), Versionstamp::new(8_000_000, 0));
        assert_eq!(trim_cutoff(10, 2_000), Versionstamp::ZERO);
        assert_eq!(trim_cutoff(10, u64::MAX), Versionstamp::ZERO);
    }
}
