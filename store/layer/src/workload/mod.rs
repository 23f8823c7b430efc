//! The keys that sign the identities of tasks.
//!
//! Every gateway of a cell signs with the same key. The first one that needs a key makes it, in a transaction that
//! reads all of them, so two gateways agree. A key signs for a month. Its successor is published a day before it signs,
//! and it stays published until its last token has ended.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::job::IDENTITY_TTLS_MS;

use crate::error::{StoreError, StoreResult};
use crate::gate::cell_gate_read;
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, Prefix, RangeOptions, WorkloadKeyKey, WorkloadSignerKey};
use crate::row::CellState;
pub use crate::row::{WorkloadKey, WorkloadSigner};

/// For how long a key signs: 30 days.
pub const KEY_SIGNS_MS: i64 = 30 * 86_400_000;
/// For how long a key is published before it signs, so that everybody who checks tokens has it: a day.
pub const KEY_AHEAD_MS: i64 = 86_400_000;
/// For how long clocks of those who check tokens may be behind: an hour.
const SKEW_MS: i64 = 3_600_000;

/// The keys of a cell, by number. Later keys have larger numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadKeys {
    /// The public halves.
    pub published: BTreeMap<u64, WorkloadKey>,
    /// The private halves. A key of an imported cell has none: it only checks what it has signed elsewhere.
    pub signers: BTreeMap<u64, WorkloadSigner>,
}

/// A pair of keys that nobody has yet.
#[derive(Clone, Debug)]
pub struct NewWorkloadKey {
    /// The public half as JSON.
    pub jwk: String,
    pub signer: WorkloadSigner,
}

/// What is due for the keys of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadKeysStep {
    /// A new key, with its number and when it signs.
    pub make: Option<(u64, i64)>,
    /// Keys whose last token has ended.
    pub over: Vec<u64>,
}

impl WorkloadKeysStep {
    /// Returns true if nothing is due.
    pub fn is_nothing(&self) -> bool {
        self.make.is_none() && self.over.is_empty()
    }
}

impl WorkloadKeys {
    /// The number of the key that signs now.
    pub fn signing(&self, now_ms: i64) -> Option<u64> {
        let due = |(number, _): &(&u64, &WorkloadSigner)| {
            self.published.get(number).is_some_and(|key| key.signs_from_ms <= now_ms)
        };
        // After a jump of the clock none may be due: then it is the oldest.
        let oldest = || self.signers.keys().find(|number| self.published.contains_key(number));
        self.signers.iter().rfind(due).map(|(number, _)| number).or_else(oldest).copied()
    }

    /// The key that signs after the present one.
    fn next(&self, now_ms: i64) -> Option<(u64, &WorkloadKey)> {
        let after = self.signing(now_ms)?.saturating_add(1);
        let mut later =
            self.signers.range(after..).filter_map(|(number, _)| self.published.get_key_value(number));
        later.next().map(|(&number, key)| (number, key))
    }

    /// What is due at `now_ms`.
    pub fn step(&self, now_ms: i64) -> WorkloadKeysStep {
        let last = self.signers.keys().rev().find_map(|number| self.published.get(number));
        let signs_from_ms = match last {
            None => Some(now_ms),
            Some(last) => {
                let next_ms = last.signs_from_ms.saturating_add(KEY_SIGNS_MS);
                (next_ms.saturating_sub(KEY_AHEAD_MS) <= now_ms).then(|| now_ms.saturating_add(KEY_AHEAD_MS))
            }
        };
        let make = signs_from_ms.map(|signs_from_ms| (self.next_number(), signs_from_ms));
        WorkloadKeysStep { make, over: self.over(now_ms) }
    }

    fn next_number(&self) -> u64 {
        let last = self.published.keys().chain(self.signers.keys()).max();
        last.map_or(1, |last| last.saturating_add(1))
    }

    /// Keys that a later one replaced so long ago that none of their tokens is valid.
    fn over(&self, now_ms: i64) -> Vec<u64> {
        let longest_ms = i64::try_from(*IDENTITY_TTLS_MS.end()).unwrap_or(i64::MAX);
        let kept_ms = longest_ms.saturating_add(SKEW_MS);
        let replaced = |number: &u64| {
            let mut later = self.published.range(number.saturating_add(1)..);
            later.any(|(later, key)| {
                self.signers.contains_key(later) && key.signs_from_ms.saturating_add(kept_ms) <= now_ms
            })
        };
        self.published.keys().copied().filter(replaced).collect()
    }
}

/// The keys of the cell, without a conflict.
pub async fn workload_keys_read(tx: &Transaction, space: &CellSpace) -> StoreResult<WorkloadKeys> {
    keys_read(tx, space, RangeOptions::snapshot(), RangeOptions::snapshot()).await
}

async fn keys_read(
    tx: &Transaction,
    space: &CellSpace,
    published: RangeOptions<WorkloadKeyKey>,
    signers: RangeOptions<WorkloadSignerKey>,
) -> StoreResult<WorkloadKeys> {
    let published = keys::range(tx, space, &Prefix::all(), published).await?;
    let signers = keys::range(tx, space, &Prefix::all(), signers).await?;
    Ok(WorkloadKeys {
        published: published.into_iter().map(|(key, row)| (key.number, row)).collect(),
        signers: signers.into_iter().map(|(key, row)| (key.number, row)).collect(),
    })
}

/// Does what is due for the keys of the cell, with `new` as the key that may be needed. Returns the keys after it.
pub async fn workload_keys_renew(
    tx: &Transaction,
    space: &CellSpace,
    new: &NewWorkloadKey,
    now_ms: i64,
) -> StoreResult<WorkloadKeys> {
    let gate = cell_gate_read(tx, space).await?;
    if matches!(gate.state, CellState::Moved | CellState::Importing) {
        return Err(StoreError::CellClosed { cell: space.to_string(), state: gate.state.as_str() });
    }
    let mut known = keys_read(tx, space, RangeOptions::default(), RangeOptions::default()).await?;
    let step = known.step(now_ms);
    if let Some((number, signs_from_ms)) = step.make {
        let key = WorkloadKey { jwk: new.jwk.clone(), signs_from_ms };
        keys::write(tx, space, &WorkloadKeyKey { number }, &key)?;
        keys::write(tx, space, &WorkloadSignerKey { number }, &new.signer)?;
        known.published.insert(number, key);
        known.signers.insert(number, new.signer.clone());
    }
    for number in step.over {
        keys::clear(tx, space, &WorkloadKeyKey { number })?;
        keys::clear(tx, space, &WorkloadSignerKey { number })?;
        known.published.remove(&number);
        known.signers.remove(&number);
    }
    Ok(known)
}

/// How a key is replaced before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRotation {
    /// The new key is published for so many milliseconds before it signs. Those before it stay as long as their tokens.
    /// If the next key is published already, it signs after so many milliseconds at the latest, and no other is made.
    Ahead(i64),
    /// The new key signs at once, and those before it are gone with all of their tokens.
    Withdraw,
}

/// Adds `new` to the keys of the cell, if it needs one. Returns the number of the key that signs next.
pub async fn workload_keys_rotate(
    tx: &Transaction,
    changes: &ChangeSet,
    new: &NewWorkloadKey,
    rotation: KeyRotation,
) -> StoreResult<u64> {
    let space = changes.space();
    let known = keys_read(tx, space, RangeOptions::default(), RangeOptions::default()).await?;
    let number = known.next_number();
    let signs_from_ms = match rotation {
        KeyRotation::Ahead(ahead_ms) => {
            let due_ms = changes.at_ms().saturating_add(ahead_ms);
            if let Some((number, next)) = known.next(changes.at_ms()) {
                let sooner = WorkloadKey { signs_from_ms: next.signs_from_ms.min(due_ms), ..next.clone() };
                keys::write(tx, space, &WorkloadKeyKey { number }, &sooner)?;
                return Ok(number);
            }
            due_ms
        }
        KeyRotation::Withdraw => {
            for &number in known.published.keys().chain(known.signers.keys()) {
                keys::clear(tx, space, &WorkloadKeyKey { number })?;
                keys::clear(tx, space, &WorkloadSignerKey { number })?;
            }
            changes.at_ms()
        }
    };
    let key = WorkloadKey { jwk: new.jwk.clone(), signs_from_ms };
    keys::write(tx, space, &WorkloadKeyKey { number }, &key)?;
    keys::write(tx, space, &WorkloadSignerKey { number }, &new.signer)?;
    Ok(number)
}

#[cfg(test)]
mod tests;
