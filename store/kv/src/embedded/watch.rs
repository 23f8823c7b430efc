//! Watches: which watcher waits for which key to differ from its baseline.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::mutation::Mutation;
use crate::contract::limits::WATCHES_MAX;
use crate::contract::{ErrorCode, KvError, KvResult, Watch};

/// A place among the watches of an engine, freed when dropped.
#[derive(Debug)]
struct WatchSlot(Arc<AtomicUsize>);

impl Drop for WatchSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The engine's side of one watch.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// The value whose change fires the watch.
    pub(crate) baseline: Option<Bytes>,
    sender: oneshot::Sender<KvResult<()>>,
}

impl Watcher {
    pub(crate) fn end(self, result: KvResult<()>) {
        // The other side may be gone; nobody waits then.
        let _ = self.sender.send(result);
    }
}

/// Armed watches by key.
#[derive(Debug, Default)]
struct ArmedWatches {
    keys: BTreeMap<Bytes, Vec<Watcher>>,
    /// Above so many keys, those without a waiting watcher are removed.
    sweep_above: usize,
}

/// Below so many keys, the removal is not worthwhile.
const SWEEP_MIN: usize = 64;

impl ArmedWatches {
    fn sweep(&mut self) {
        if self.keys.len() > self.sweep_above.max(SWEEP_MIN) {
            self.keys.retain(|_, watchers| {
                watchers.retain(|one| !one.sender.is_closed());
                !watchers.is_empty()
            });
            self.sweep_above = self.keys.len().saturating_mul(2);
        }
    }
}

/// All watches of an engine.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    waiting: Mutex<ArmedWatches>,
    outstanding: Arc<AtomicUsize>,
}

impl Watches {
    /// A watch with its engine's side, or 1032.
    pub(crate) fn open(&self, baseline: Option<Bytes>) -> KvResult<(Watcher, Watch)> {
        let place = WatchSlot(Arc::clone(&self.outstanding));
        if self.outstanding.fetch_add(1, Ordering::Relaxed) >= WATCHES_MAX {
            return Err(ErrorCode::TooManyWatches.into());
        }
        let (sender, receiver) = oneshot::channel();
        let watch = async move {
            let _place = place;
            // The engine's side is dropped only with a transaction that never committed.
            receiver.await.unwrap_or(Err(KvError::new(ErrorCode::TransactionCancelled)))
        };
        Ok((Watcher { baseline, sender }, Box::pin(watch)))
    }

    /// Arms a watch. The caller checks the value after this, so that no change is missed.
    pub(crate) fn arm(&self, key: Bytes, watcher: Watcher) {
        let mut waiting = self.waiting.lock();
        waiting.sweep();
        let watchers = waiting.keys.entry(key).or_default();
        watchers.retain(|one| !one.sender.is_closed());
        watchers.push(watcher);
    }

    /// Fires the watches of `key` whose baseline is not `value`.
    pub(crate) fn check(&self, key: &Bytes, value: Option<&Bytes>) {
        let mut waiting = self.waiting.lock();
        if let Some(watchers) = waiting.keys.remove(key) {
            let (fired, left): (Vec<_>, Vec<_>) =
                watchers.into_iter().partition(|one| one.baseline.as_ref() != value);
            fired.into_iter().for_each(|watcher| watcher.end(Ok(())));
            let left: Vec<_> = left.into_iter().filter(|one| !one.sender.is_closed()).collect();
            if !left.is_empty() {
                waiting.keys.insert(key.clone(), left);
            }
        }
    }

    /// The watched keys that `mutations` may have changed.
    pub(crate) fn touched(&self, mutations: &[Mutation]) -> Vec<Bytes> {
        let waiting = &self.waiting.lock().keys;
        if waiting.is_empty() {
            return Vec::new();
        }
        let mut keys = Vec::new();
        for mutation in mutations {
            match mutation {
                Mutation::ClearRange(begin, end) => {
                    keys.extend(waiting.range(begin.clone()..end.clone()).map(|(key, _)| key.clone()));
                }
                Mutation::Set(key, _)
                | Mutation::Clear(key)
                | Mutation::Atomic(_, key, _)
                | Mutation::StampedKey(key, _)
                | Mutation::StampedValue(key, _) => {
                    keys.extend(waiting.contains_key(key).then(|| key.clone()))
                }
            }
        }
        keys
    }

    /// Keys that have watches, as far as known.
    #[cfg(test)]
    pub(crate) fn keys_watched(&self) -> usize {
        self.waiting.lock().keys.len()
    }

    /// Ends every watch with `error`: the engine stops.
    pub(crate) fn end_all(&self, error: &KvError) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.keys.into_values().flatten().for_each(|watcher| watcher.end(Err(error.clone())));
    }
}
