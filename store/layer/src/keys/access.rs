//! Typed reads and writes in a transaction.

use borough_kv::contract::limits::VALUE_BYTES_MAX;
use borough_kv::database::key_after;
use borough_kv::{AtomicOp, Isolation, RangeRequest, Transaction, Watch};

use super::{CellSpace, Counter, Key, Prefix, StampValue, value_decode, value_encode};
use crate::error::StoreError;

/// The value under `key`, with a read conflict.
pub async fn read<K: Key>(
    tx: &Transaction,
    space: &CellSpace,
    key: &K,
) -> Result<Option<K::Value>, StoreError> {
    let bytes = key.encode(space);
    let value = tx.get(&bytes).await?;
    value.map(|value| value_decode(K::KIND, &bytes, &value)).transpose()
}

/// The value under `key`, without a read conflict.
pub async fn read_snapshot<K: Key>(
    tx: &Transaction,
    space: &CellSpace,
    key: &K,
) -> Result<Option<K::Value>, StoreError> {
    let bytes = key.encode(space);
    let value = tx.get_snapshot(&bytes).await?;
    value.map(|value| value_decode(K::KIND, &bytes, &value)).transpose()
}

/// Stores `value` under `key`, whatever is there.
pub fn write<K: Key>(
    tx: &Transaction,
    space: &CellSpace,
    key: &K,
    value: &K::Value,
) -> Result<(), StoreError> {
    let bytes = value_encode(K::KIND, value)?;
    if bytes.len() > VALUE_BYTES_MAX {
        return Err(StoreError::TooLarge { kind: K::KIND, bytes: bytes.len(), bytes_max: VALUE_BYTES_MAX });
    }
    Ok(tx.set(&key.encode(space), &bytes)?)
}

/// Stores `value` under `key`, whose stamp is all ones: the commit replaces it with its own stamp.
pub fn write_stamped_key<K: Key>(
    tx: &Transaction,
    space: &CellSpace,
    key: &K,
    value: &K::Value,
) -> Result<(), StoreError> {
    let mut bytes = key.encode(space);
    let placeholder = borough_kv::Versionstamp::INCOMPLETE;
    let after_space = space.prefix().len();
    let at = bytes
        .get(after_space..)
        .and_then(|fields| fields.windows(placeholder.len()).position(|window| window == placeholder))
        .and_then(|at| u32::try_from(at.saturating_add(after_space)).ok())
        .ok_or_else(|| StoreError::Unencodable { kind: K::KIND, detail: "no stamp to fill in".to_owned() })?;
    bytes.extend_from_slice(&at.to_le_bytes());
    Ok(tx.atomic(AtomicOp::SetVersionstampedKey, &bytes, &value_encode(K::KIND, value)?)?)
}

/// Stores the commit's own stamp under `key`.
pub fn write_stamped_value<K: Key<Value = StampValue>>(
    tx: &Transaction,
    space: &CellSpace,
    key: &K,
) -> Result<(), StoreError> {
    let mut bytes = value_encode(K::KIND, &StampValue(borough_kv::Versionstamp::MAX))?;
    let at = u32::try_from(StampValue::STAMP_AT).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&at.to_le_bytes());
    Ok(tx.atomic(AtomicOp::SetVersionstampedValue, &key.encode(space), &bytes)?)
}

/// Adds `amount` to the counter under `key`, without reading it.
pub fn count_add<K: Key<Value = Counter>>(
    tx: &Transaction,
    space: &CellSpace,
    key: &K,
    amount: i64,
) -> Result<(), StoreError> {
    Ok(tx.atomic(AtomicOp::Add, &key.encode(space), &amount.to_le_bytes())?)
}

/// Removes `key`.
pub fn clear<K: Key>(tx: &Transaction, space: &CellSpace, key: &K) -> Result<(), StoreError> {
    Ok(tx.clear(&key.encode(space))?)
}

/// Removes every key that begins with `prefix`.
pub fn clear_prefix<K: Key>(
    tx: &Transaction,
    space: &CellSpace,
    prefix: &Prefix<K>,
) -> Result<(), StoreError> {
    let range = prefix.range(space);
    Ok(tx.clear_range(&range.start, &range.end)?)
}

/// Makes the commit fail if another one has written `key`. Reads nothing.
pub fn guard<K: Key>(tx: &Transaction, space: &CellSpace, key: &K) -> Result<(), StoreError> {
    Ok(tx.read_conflict_key(&key.encode(space))?)
}

/// Makes the commit fail if another one has written any key from `first` to `last`, both included. Reads nothing.
pub fn guard_span<K: Key>(
    tx: &Transaction,
    space: &CellSpace,
    first: &K,
    last: &K,
) -> Result<(), StoreError> {
    let mut end = last.encode(space);
    end.push(0);
    Ok(tx.read_conflict_range(&first.encode(space)[..]..&end[..])?)
}

/// Makes others fail that guard on `key`, without writing a value.
pub fn touch<K: Key>(tx: &Transaction, space: &CellSpace, key: &K) -> Result<(), StoreError> {
    Ok(tx.write_conflict_key(&key.encode(space))?)
}

/// A watch of `key`, inert until the commit.
pub async fn watch<K: Key>(tx: &Transaction, space: &CellSpace, key: &K) -> Result<Watch, StoreError> {
    Ok(tx.watch(&key.encode(space)).await?)
}

/// How a range is read. By default all of it, with conflicts, from the beginning.
#[derive(Clone, Debug)]
pub struct RangeOptions<K> {
    /// Only keys after this one.
    pub after: Option<K>,
    /// The most rows; 0 is no limit.
    pub limit: usize,
    pub isolation: Isolation,
    pub reverse: bool,
}

impl<K> Default for RangeOptions<K> {
    fn default() -> Self {
        Self { after: None, limit: 0, isolation: Isolation::Serializable, reverse: false }
    }
}

impl<K> RangeOptions<K> {
    /// All of it, without read conflicts.
    pub fn snapshot() -> Self {
        Self { isolation: Isolation::Snapshot, ..Self::default() }
    }
}

/// All rows under `prefix` that the options select.
pub async fn range<K: Key>(
    tx: &Transaction,
    space: &CellSpace,
    prefix: &Prefix<K>,
    options: RangeOptions<K>,
) -> Result<Vec<(K, K::Value)>, StoreError> {
    let bounds = prefix.range(space);
    let begin = options.after.map_or(bounds.start, |after| key_after(&after.encode(space)));
    let mut request = RangeRequest::between(begin, bounds.end).limit(options.limit);
    request.isolation = options.isolation;
    request.reverse = options.reverse;
    let rows = tx.range_all(request).await?;
    rows.iter().map(|(key, value)| Ok((K::decode(space, key)?, value_decode(K::KIND, key, value)?))).collect()
}

/// The rows of one chunk, and the key after which the next one begins; `None` at the end.
pub async fn chunk_read<K: Key>(
    tx: &Transaction,
    space: &CellSpace,
    prefix: &Prefix<K>,
    after: Option<K>,
    limit: usize,
) -> Result<(Vec<(K, K::Value)>, Option<K>), StoreError> {
    let limit = limit.max(1);
    let options = RangeOptions { after, limit, isolation: Isolation::Snapshot, reverse: false };
    let rows = range(tx, space, prefix, options).await?;
    let next = if rows.len() < limit { None } else { rows.last().map(|(key, _)| key.clone()) };
    Ok((rows, next))
}
