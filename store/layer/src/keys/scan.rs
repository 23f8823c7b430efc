//! Visits everything that a cell owns, row by row. Checks that each key has a known kind and that each value matches
//! its key.

use borough_kv::database::key_after;
use borough_kv::{RangeRequest, Transaction};

use super::{CellSpace, StoredRow};
use crate::error::{StoreError, StoreResult};

/// A chunk of a scan.
#[derive(Debug, Default)]
pub struct Scan {
    /// The rows that match their keys.
    pub rows: Vec<StoredRow>,
    /// The other rows: [`StoreError::UnknownKey`], [`StoreError::DamagedKey`] or [`StoreError::DamagedValue`].
    pub damage: Vec<StoreError>,
    /// The bytes of the key after which the next chunk begins; `None` at the end.
    pub next: Option<Vec<u8>>,
}

/// Decodes up to `limit` rows of `space` after the key `after`, without conflicts. For tools that visit whole stores. A
/// damaged row is reported and is no error of the scan.
pub async fn space_scan(
    tx: &Transaction,
    space: &CellSpace,
    after: Option<&[u8]>,
    limit: usize,
) -> StoreResult<Scan> {
    let range = space.range();
    let begin = after.map_or(range.start, key_after);
    let limit = limit.max(1);
    let rows = tx.range_all(RangeRequest::between(begin, range.end).limit(limit).snapshot()).await?;
    let mut scan = Scan::default();
    if rows.len() >= limit {
        scan.next = rows.last().map(|(key, _)| key.to_vec());
    }
    for (key, value) in &rows {
        match StoredRow::decode(space, key, value) {
            Ok(row) => scan.rows.push(row),
            Err(damage) => scan.damage.push(damage),
        }
    }
    Ok(scan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{CellGateKey, CellMetaKey, Key, NodeKey, value_encode};
    use crate::testing::TestCell;
    use borough_model::NodeId;

    #[tokio::test]
    async fn a_scan_gives_rows_and_names_damage() {
        let cell = TestCell::new().await;
        let gate = cell.run(async |tx| crate::cell::cell_gate_read(&tx, &cell.space).await).await.unwrap();
        let put = async |key: Vec<u8>, value: Vec<u8>| {
            cell.run(async |tx| Ok(tx.set(&key, &value)?)).await.unwrap();
        };
        let mut unknown = cell.space.prefix().to_vec();
        unknown.extend_from_slice(&[0x15, 0xfe, 0x15, 1]);
        put(unknown.clone(), vec![0xfe, 1]).await;
        let misplaced = NodeKey { node: NodeId(1) }.encode(&cell.space);
        put(misplaced, value_encode(CellGateKey::KIND, &gate).unwrap()).await;
        let newer = NodeKey { node: NodeId(2) }.encode(&cell.space);
        put(newer, vec![NodeKey::KIND.code(), 9]).await;
        let (mut rows, mut damage, mut after) = (Vec::new(), Vec::new(), None);
        loop {
            let scan =
                cell.run(async |tx| space_scan(&tx, &cell.space, after.as_deref(), 2).await).await.unwrap();
            rows.extend(scan.rows);
            damage.extend(scan.damage.iter().map(ToString::to_string));
            after = scan.next;
            if after.is_none() {
                break;
            }
        }
        assert!(
            matches!(&rows[..], [StoredRow::CellMeta(CellMetaKey {}, _), StoredRow::CellGate(CellGateKey {}, found)]
            if **found == gate)
        );
        assert_eq!(damage.len(), 3, "{damage:?}");
        assert!(damage[0].contains("found a value of kind 2 (cell_gate)"), "{}", damage[0]);
        assert!(damage[1].contains("format 9, which this build does not know"), "{}", damage[1]);
        assert!(damage[2].contains("of no kind that this build knows"), "{}", damage[2]);
    }
}
