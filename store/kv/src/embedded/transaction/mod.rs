//! One transaction of the embedded engine: FoundationDB's client side over the rows in memory.
//!
//! Reads wait for nothing except a lock, and for the disk if a row is not in memory. Their futures are ready at once. A
//! transaction's state is behind one lock, which is never held across an await.

mod commit;
mod read;
mod retry;
mod state;
#[cfg(test)]
mod tests;
mod view;
mod writes;

use std::future::ready;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::writes::WriteConflict;
use super::engine::Inner;
use super::memory::{MemoryRows, Order};
use super::ranges::Span;
use crate::contract::check::{
    atomic_check, clear_check, conflict_check, is_readable, range_check, watch_check, write_check,
};
use crate::contract::limits::{KEY_BYTES_MAX, METADATA_VERSION_KEY, TRANSACTION_LIFE_VERSIONS};
use crate::contract::{
    AtomicOp, Committed, ConflictKind, EngineTransaction, ErrorCode, Isolation, KeySelector, KvError,
    KvResult, RangeBatch, RangeRequest, TransactionOption, Version, Versionstamp, Watch,
};
use state::{PendingWatch, TransactionState};

/// A transaction of the embedded engine.
pub(crate) struct EmbeddedTransaction {
    engine: Arc<Inner>,
    state: Mutex<TransactionState>,
}

impl EmbeddedTransaction {
    pub(crate) fn new(engine: Arc<Inner>) -> Self {
        let state = Mutex::new(TransactionState::new(engine.shared.clock.monotonic()));
        Self { engine, state }
    }

    /// Runs a read over the rows at the read version. A read that own writes answer alone takes no version: a
    /// transaction that has seen nothing of the database is as young as its commit.
    fn read<T>(&self, action: impl FnOnce(&mut TransactionState, &MemoryRows) -> KvResult<T>) -> KvResult<T> {
        let mut state = self.state.lock();
        state.open(self.engine.shared.clock.monotonic())?;
        let before = state.read_version;
        let version = self.version_take(&mut state)?;
        let newest = self.engine.shared.versions.read_version();
        (state.touched, state.read) = (true, true);
        (state.consulted, state.came_along) = (false, false);
        let rows = self.engine.shared.memory.read();
        let result = action(&mut state, &rows);
        if let Some(error) = rows.failure() {
            self.engine.shared.stop(error.clone());
            return Err(error);
        }
        let too_old = version < rows.oldest() || version < newest.saturating_sub(TRANSACTION_LIFE_VERSIONS);
        let result = match (state.consulted, result) {
            (true, _) if too_old && !state.came_along => Err(ErrorCode::TransactionTooOld.into()),
            (true, _) if version > newest => Err(ErrorCode::FutureVersion.into()),
            (_, result) => result,
        };
        if !state.consulted {
            state.read_version = before;
        }
        result.inspect_err(|error| read_failed(&mut state, error))
    }

    fn version_take(&self, state: &mut TransactionState) -> KvResult<Version> {
        self.engine.shared.running()?;
        Ok(*state.read_version.get_or_insert_with(|| self.engine.shared.versions.read_version()))
    }

    /// Runs a write that passed `check`. A write that failed it has no effect.
    fn write(
        &self,
        check: impl FnOnce() -> KvResult<()>,
        action: impl FnOnce(&mut TransactionState, WriteConflict),
    ) -> KvResult<()> {
        let mut state = self.state.lock();
        state.open(self.engine.shared.clock.monotonic())?;
        check()?;
        state.touched = true;
        let conflict = state.write_conflict_take();
        action(&mut state, conflict);
        Ok(())
    }

    fn value_read(&self, key: &[u8], isolation: Isolation) -> KvResult<Option<Bytes>> {
        self.read(|state, rows| {
            if !is_readable(key) {
                return Err(ErrorCode::KeyOutsideLegalRange.into());
            }
            if key == METADATA_VERSION_KEY {
                return read::metadata_version(state, rows, isolation);
            }
            // No key is that long, so it is absent and can never be written.
            if key.len() > KEY_BYTES_MAX { Ok(None) } else { read::get(state, rows, key, isolation) }
        })
    }

    fn watch_open(&self, key: &[u8]) -> KvResult<Watch> {
        {
            let state = self.state.lock();
            state.open(self.engine.shared.clock.monotonic())?;
            if state.options.read_your_writes_disabled {
                return Err(ErrorCode::WatchesDisabled.into());
            }
            watch_check(key)?;
        }
        let failed_before = self.state.lock().failed_read.clone();
        // Only the watch fails if it cannot read.
        let baseline = self
            .value_read(key, Isolation::Serializable)
            .inspect_err(|_| self.state.lock().failed_read = failed_before)?;
        let (watcher, watch) = self.engine.shared.watches.open(baseline)?;
        self.state.lock().watches.push(PendingWatch { key: Bytes::copy_from_slice(key), watcher });
        Ok(watch)
    }

    fn stamped_write(&self, operation: AtomicOp, key: &[u8], operand: &[u8]) -> KvResult<()> {
        let check = || atomic_check(operation, key, operand);
        self.write(check, |state, conflict| {
            let (key, operand) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(operand));
            if operation == AtomicOp::SetVersionstampedKey {
                let max_key = state.max_key.clone();
                state.writes.stamped_key(&key, operand, state.read_version, &max_key);
            } else {
                state.writes.stamped_value(key, operand, conflict);
            }
        })
    }
}

/// Keeps the first error of a real read (an illegal request is none) for the commit.
fn read_failed(state: &mut TransactionState, error: &KvError) {
    let failed = matches!(
        error.code,
        ErrorCode::AccessedUnreadable | ErrorCode::TransactionTooOld | ErrorCode::FutureVersion
    );
    if failed && state.failed_read.is_none() {
        state.failed_read = Some(error.clone());
    }
}

/// A bound as stored: keys over the limit do not exist, so a longer bound equals its beginning.
fn bound_cut(key: &[u8]) -> Bytes {
    Bytes::copy_from_slice(key.get(..=KEY_BYTES_MAX).unwrap_or(key))
}

impl EngineTransaction for EmbeddedTransaction {
    fn get<'a>(&'a self, key: &'a [u8], isolation: Isolation) -> BoxFuture<'a, KvResult<Option<Bytes>>> {
        Box::pin(ready(self.value_read(key, isolation)))
    }

    fn get_key<'a>(
        &'a self,
        selector: &'a KeySelector,
        isolation: Isolation,
    ) -> BoxFuture<'a, KvResult<Bytes>> {
        Box::pin(ready(self.read(|state, rows| {
            if selector.key > state.max_key {
                return Err(ErrorCode::KeyOutsideLegalRange.into());
            }
            read::get_key(state, rows, selector, isolation)
        })))
    }

    fn get_range<'a>(&'a self, request: &'a RangeRequest) -> BoxFuture<'a, KvResult<RangeBatch>> {
        Box::pin(ready(self.read(|state, rows| {
            if request.begin.key > state.max_key || request.end.key > state.max_key {
                return Err(ErrorCode::KeyOutsideLegalRange.into());
            }
            read::get_range(state, rows, request)
        })))
    }

    fn set(&self, key: &[u8], value: &[u8]) -> KvResult<()> {
        let check = || write_check(key, value);
        self.write(check, |state, conflict| {
            state.writes.set(Bytes::copy_from_slice(key), Bytes::copy_from_slice(value), conflict);
        })
    }

    fn clear(&self, key: &[u8]) -> KvResult<()> {
        let check = || clear_check(key);
        if key.len() > KEY_BYTES_MAX {
            // No such key exists.
            return self.state.lock().open(self.engine.shared.clock.monotonic()).and_then(|()| check());
        }
        self.write(check, |state, conflict| {
            state.writes.clear(Span::Point(Bytes::copy_from_slice(key)), conflict);
        })
    }

    fn clear_range(&self, begin: &[u8], end: &[u8]) -> KvResult<()> {
        let check = || range_check(begin, end);
        self.write(check, |state, conflict| {
            let (begin, end) = (bound_cut(begin), bound_cut(end));
            if begin < end {
                state.writes.clear(Span::new(begin, end), conflict);
            }
        })
    }

    fn atomic(&self, operation: AtomicOp, key: &[u8], operand: &[u8]) -> KvResult<()> {
        if matches!(operation, AtomicOp::SetVersionstampedKey | AtomicOp::SetVersionstampedValue) {
            return self.stamped_write(operation, key, operand);
        }
        let check = || atomic_check(operation, key, operand);
        self.write(check, |state, conflict| {
            let (key, operand) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(operand));
            state.writes.atomic(operation, key, operand, conflict);
        })
    }

    fn add_conflict_range(&self, kind: ConflictKind, range: Range<&[u8]>) -> KvResult<()> {
        let mut state = self.state.lock();
        state.open(self.engine.shared.clock.monotonic())?;
        conflict_check(kind, range.start, range.end)?;
        let (begin, end) = (bound_cut(range.start), bound_cut(range.end));
        if begin == end {
            return Ok(());
        }
        state.touched = true;
        match kind {
            ConflictKind::Read => read::conflict_add(&mut state, begin, end),
            ConflictKind::Write => state.writes.conflict_add(Span::new(begin, end)),
        }
        Ok(())
    }

    fn watch<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, KvResult<Watch>> {
        Box::pin(ready(self.watch_open(key)))
    }

    fn read_version(&self) -> BoxFuture<'_, KvResult<Version>> {
        let mut state = self.state.lock();
        let version =
            state.open(self.engine.shared.clock.monotonic()).and_then(|()| self.version_take(&mut state));
        Box::pin(ready(version))
    }

    fn set_read_version(&self, version: Version) -> KvResult<()> {
        let mut state = self.state.lock();
        state.open(self.engine.shared.clock.monotonic())?;
        if version <= 0 {
            return Err(ErrorCode::VersionInvalid.into());
        }
        if state.read_version.is_some() || state.read {
            return Err(ErrorCode::ReadVersionAlreadySet.into());
        }
        (state.read_version, state.version_given) = (Some(version), true);
        Ok(())
    }

    fn commit(&self) -> BoxFuture<'_, KvResult<Committed>> {
        Box::pin(self.commit_run())
    }

    fn versionstamp(&self) -> BoxFuture<'static, KvResult<Versionstamp>> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        if let Err(error) = state.open(self.engine.shared.clock.monotonic()) {
            return Box::pin(ready(Err(error)));
        }
        state.stamps.push(sender);
        Box::pin(
            async move { receiver.await.unwrap_or_else(|_| Err(ErrorCode::TransactionCancelled.into())) },
        )
    }

    fn on_error<'a>(&'a self, error: &'a KvError) -> BoxFuture<'a, KvResult<()>> {
        Box::pin(self.retry(error))
    }

    fn set_option(&self, option: TransactionOption) -> KvResult<()> {
        let mut state = self.state.lock();
        state.open(self.engine.shared.clock.monotonic())?;
        state.option_set(option)
    }

    fn conflicting_ranges(&self) -> BoxFuture<'_, KvResult<Vec<Range<Bytes>>>> {
        Box::pin(ready(Ok(self.state.lock().conflicting.clone())))
    }

    fn approximate_size(&self) -> BoxFuture<'_, KvResult<usize>> {
        let state = self.state.lock();
        let size = state.open(self.engine.shared.clock.monotonic()).map(|()| commit::size(&state));
        Box::pin(ready(size))
    }

    fn estimated_range_size<'a>(&'a self, range: Range<&'a [u8]>) -> BoxFuture<'a, KvResult<u64>> {
        Box::pin(ready(self.read(|state, rows| {
            state.consulted = true;
            let view = state.view(rows, Isolation::Snapshot)?;
            let sizes = view.rows.range(range.start, range.end, view.version, Order::Forward);
            let sizes =
                sizes.map(|(key, value)| u64::try_from(key.len().saturating_add(value.len())).unwrap_or(0));
            Ok(sizes.sum())
        })))
    }

    fn range_split_points<'a>(
        &'a self,
        range: Range<&'a [u8]>,
        chunk_bytes: u64,
    ) -> BoxFuture<'a, KvResult<Vec<Bytes>>> {
        Box::pin(ready(self.read(|state, rows| {
            range_check(range.start, range.end)?;
            state.consulted = true;
            let view = state.view(rows, Isolation::Snapshot)?;
            let mut points = vec![Bytes::copy_from_slice(range.start)];
            let mut filled = 0u64;
            for (key, value) in view.rows.range(range.start, range.end, view.version, Order::Forward) {
                if filled >= chunk_bytes.max(1) && key.as_ref() > range.start {
                    points.push(Bytes::copy_from_slice(&key));
                    filled = 0;
                }
                let size = u64::try_from(key.len().saturating_add(value.len())).unwrap_or(0);
                filled = filled.saturating_add(size);
            }
            points.push(Bytes::copy_from_slice(range.end));
            Ok(points)
        })))
    }

    fn cancel(&self) {
        let mut state = self.state.lock();
        let keep = state.options.clone();
        state.restart(keep);
        state.phase = state::Phase::Cancelled;
    }

    fn reset(&self) {
        let mut state = self.state.lock();
        state.restart(state::Options::default());
        state.began = self.engine.shared.clock.monotonic();
        state.retries = 0;
        state.backoff = state::BACKOFF_FIRST;
    }
}
