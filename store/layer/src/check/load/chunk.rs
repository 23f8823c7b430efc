//! Reads some rows of a kind and decodes each one alone: a damaged row is reported, and the others are read.

use borough_kv::database::key_after;
use borough_kv::{RangeRequest, Transaction};

use super::super::Violation;
use crate::error::{StoreError, StoreResult};
use crate::key_kind::KeyKind;
use crate::keys::{CellSpace, Key, Prefix, value_decode};

/// Some rows of a kind, in the order of keys.
pub(super) struct RowChunk<K: Key> {
    pub(super) rows: Vec<(K, K::Value)>,
    pub(super) damage: Vec<Violation>,
    /// The key after which the next chunk begins; `None` at the end.
    pub(super) next: Option<Vec<u8>>,
}

/// Up to `limit` rows (0: all) after the key `after`, without conflicts.
pub(super) async fn chunk_read<K: Key>(
    tx: &Transaction,
    space: &CellSpace,
    after: Option<Vec<u8>>,
    limit: usize,
) -> StoreResult<RowChunk<K>> {
    let range = Prefix::<K>::all().range(space);
    let begin = after.map_or(range.start, |after| key_after(&after));
    let stored = tx.range_all(RangeRequest::between(begin, range.end).limit(limit).snapshot()).await?;
    let more = limit > 0 && stored.len() >= limit;
    let next = stored.last().filter(|_| more).map(|(key, _)| key.to_vec());
    let mut chunk = RowChunk { rows: Vec::with_capacity(stored.len()), damage: Vec::new(), next };
    for (key, value) in &stored {
        let row =
            K::decode(space, key).and_then(|row| Ok((row, value_decode::<K::Value>(K::KIND, key, value)?)));
        match row {
            Ok(row) => chunk.rows.push(row),
            Err(error) => chunk.damage.push(damage_of(&error, key, value)),
        }
    }
    Ok(chunk)
}

/// The violation for a row that cannot be read.
pub(super) fn damage_of(error: &StoreError, key: &[u8], value: &[u8]) -> Violation {
    let (rule, key_text, expected) = match error {
        StoreError::DamagedValue { kind, found, .. } => (
            "damaged_value",
            format!("{kind} {}", hex(key)),
            format!("a value of kind {kind}; this is {found}"),
        ),
        StoreError::DamagedKey { kind, found, .. } => {
            ("damaged_key", format!("{kind} {}", hex(key)), format!("a key of kind {kind}; this is {found}"))
        }
        _ => ("unknown_key", hex(key), "nothing: no kind that this build knows has this key".to_owned()),
    };
    let secret = matches!(error, StoreError::DamagedValue { kind: KeyKind::WorkloadSigner, .. });
    let stored = if secret { "a secret, which is not shown".to_owned() } else { hex(value) };
    Violation { rule, key: key_text, stored, expected }
}

fn hex(bytes: &[u8]) -> String {
    const SHOWN: usize = 128;
    let shown = bytes.get(..SHOWN).unwrap_or(bytes);
    let text: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
    if shown.len() < bytes.len() { format!("{text}… ({} bytes)", bytes.len()) } else { text }
}
