//! Keys for measuring a store that is in use: apart from those of every cell, and removed afterwards.

use std::ops::Range;

use borough_kv::{RangeRequest, Transaction};
use foundationdb_tuple::{Bytes, pack, unpack};

use crate::error::StoreResult;

/// The prefix of every key. The keys of cells begin with a text; this is a byte string.
const MARK: &[u8] = b"borough-bench";

/// The keys of one measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scratch {
    prefix: Vec<u8>,
}

impl Scratch {
    /// The keys of a measurement that began at a wall time (milliseconds since 1970). `id` distinguishes measurements
    /// of the same time.
    pub fn new(began_ms: i64, id: u64) -> Self {
        Self { prefix: pack(&(Bytes::from(MARK), began_ms, id)) }
    }

    /// One key.
    pub fn key(&self, number: u64) -> Vec<u8> {
        [self.prefix.as_slice(), &pack(&(number,))].concat()
    }

    /// Keys from `numbers.start` to before `numbers.end`.
    pub fn range(&self, numbers: Range<u64>) -> Range<Vec<u8>> {
        self.key(numbers.start)..self.key(numbers.end)
    }

    /// Removes all keys of the measurement.
    pub fn clear(&self, tx: &Transaction) -> StoreResult<()> {
        let end = [self.prefix.as_slice(), &[0xff]].concat();
        Ok(tx.clear_range(&self.prefix, &end)?)
    }
}

/// Removes the keys of measurements that began before `before_ms` and were killed. Returns true if any were found.
pub async fn scratch_sweep(tx: &Transaction, before_ms: i64) -> StoreResult<bool> {
    let begin = pack(&(Bytes::from(MARK),));
    let end = pack(&(Bytes::from(MARK), before_ms));
    let old = tx.range_all(RangeRequest::between(begin.clone(), end.clone()).limit(1)).await?;
    let Some((key, _)) = old.first() else { return Ok(false) };
    debug_assert!(unpack::<(Bytes<'_>, i64, u64, u64)>(key).is_ok(), "a scratch key");
    tx.clear_range(&begin, &end)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::cell_list;
    use crate::testing::{TestCell, name};

    #[tokio::test]
    async fn what_is_measured_with_is_no_cell_and_leaves_nothing() {
        let cell = TestCell::new().await;
        let (old, new) = (Scratch::new(1_000, 1), Scratch::new(2_000, 2));
        let put = async |tx: borough_kv::Transaction| {
            (0..3).try_for_each(|number| tx.set(&old.key(number), b"x"))?;
            (0..3).try_for_each(|number| tx.set(&new.key(number), b"x"))?;
            Ok(())
        };
        cell.run(put).await.unwrap();
        assert_eq!(cell.run(async |tx| cell_list(&tx).await).await.unwrap(), [name("alpha")]);
        let count = async |scratch: &Scratch| {
            let range = scratch.range(0..10);
            let read = async |tx: borough_kv::Transaction| {
                let range = RangeRequest::between(range.start.clone(), range.end.clone());
                Ok(tx.range_all(range).await?.len())
            };
            cell.run(read).await.unwrap()
        };
        assert_eq!((count(&old).await, count(&new).await), (3, 3));
        assert!(cell.run(async |tx| scratch_sweep(&tx, 1_500).await).await.unwrap());
        assert!(!cell.run(async |tx| scratch_sweep(&tx, 1_500).await).await.unwrap());
        assert_eq!((count(&old).await, count(&new).await), (0, 3));
        cell.run(async |tx| new.clear(&tx)).await.unwrap();
        assert_eq!(count(&new).await, 0);
    }
}
