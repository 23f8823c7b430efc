//! The model: a store as a list of its states, and transactions as lists of their reads and writes. It decides the
//! right answer of an engine to each step, and shares no code with any engine.

use super::super::model::{ModelRows, atomic};
use super::machine::{Late, ProgramOutcome, bound_cut, symbolic, template, union};
use super::step::{At, Frame, ProgramAction, ProgramStep, Range, SLOTS, Selector, SlotName, Switch};
use super::view::{Bound, KeyRange, ModelChange, ModelView, Own, Plain, RangeRead, plain};
use borough_kv::contract::limits::{
    KEY_BYTES_MAX, METADATA_VERSION_KEY, METADATA_VERSION_OPERAND, USER_KEYS_END,
};
use borough_kv::contract::{ConflictKind, ErrorCode, StreamingMode, Versionstamp};
use borough_kv::database::key_after;

/// The phase of a transaction of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelPhase {
    Open,
    Ended,
    Cancelled,
    /// Its last error is final.
    GivenUp(ErrorCode),
}

/// A read version: one of the store's states, or one that is too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelVersion {
    State(usize),
    Ancient,
}

/// A write, in program order.
#[derive(Clone, Debug)]
enum Write {
    Clear(KeyRange),
    Change(Vec<u8>, ModelChange),
    StampedValue(Vec<u8>, Vec<u8>),
    /// The template, its place until the commit, and the value.
    StampedKey(Vec<u8>, Vec<u8>, Vec<u8>),
}

/// A watch of the program.
#[derive(Clone, Debug)]
struct ModelWatch {
    key: Vec<u8>,
    baseline: Option<Vec<u8>>,
    /// The state at which it was armed, or the error that ended it.
    armed: Option<Result<usize, ErrorCode>>,
    /// Its own transaction wrote the key afterwards: the engine decides when it fires then.
    overwritten: bool,
}

#[derive(Clone, Debug)]
struct ModelTransaction {
    phase: ModelPhase,
    version: Option<ModelVersion>,
    /// Whether anything was read. After that, no read version can be set.
    read: bool,
    /// Whether anything was read or written. After that, own writes cannot be turned off.
    touched: bool,
    poisoned: bool,
    /// The first error of a read. The commit returns it too.
    failed: Option<ErrorCode>,
    own: Own,
    writes: Vec<Write>,
    reads: Vec<KeyRange>,
    /// What an engine may count as read, though the answer did not depend on it.
    may_read: Vec<KeyRange>,
    conflicts: Vec<KeyRange>,
    own_writes: bool,
    snapshot_own_writes: i64,
    next_hidden: bool,
    bypass: bool,
    risky: bool,
    watches: Vec<usize>,
    promises: Vec<usize>,
}

impl ModelTransaction {
    fn new() -> Self {
        Self {
            phase: ModelPhase::Open,
            version: None,
            read: false,
            touched: false,
            poisoned: false,
            failed: None,
            own: Own::default(),
            writes: Vec::new(),
            reads: Vec::new(),
            may_read: Vec::new(),
            conflicts: Vec::new(),
            own_writes: true,
            snapshot_own_writes: 1,
            next_hidden: false,
            bypass: false,
            risky: false,
            watches: Vec::new(),
            promises: Vec::new(),
        }
    }

    /// The error that every operation returns now, if any.
    fn refusal(&self) -> Option<ErrorCode> {
        match self.phase {
            ModelPhase::Cancelled => Some(ErrorCode::TransactionCancelled),
            ModelPhase::Ended => Some(ErrorCode::UsedDuringCommit),
            ModelPhase::GivenUp(code) => Some(code),
            ModelPhase::Open if self.poisoned => Some(ErrorCode::ClientInvalidOperation),
            ModelPhase::Open => None,
        }
    }

    fn depend(&mut self, (begin, end): KeyRange) {
        if !self.own_writes {
            self.reads.push((begin, end));
        } else if begin < end {
            self.reads.extend(self.own.undecided(&begin, &end));
        }
    }
}

/// The store and the program's transactions.
pub(super) struct ProgramModel {
    frame: Frame,
    states: Vec<ModelRows>,
    /// What each state's commit wrote, for conflicts.
    written: Vec<Vec<KeyRange>>,
    slots: Vec<ModelTransaction>,
    watches: Vec<ModelWatch>,
    promises: Vec<Option<Late>>,
    /// Set by an answer after which the contract leaves the rest open: the program ends there.
    pub(super) open_ended: bool,
    /// Whether it is open which ranges the last refusal may name.
    pub(super) names_open: bool,
}

/// The model's check of an answer.
type ModelVerdict = Result<(), String>;

fn expect(outcome: &ProgramOutcome, expected: &ProgramOutcome) -> ModelVerdict {
    if outcome == expected {
        Ok(())
    } else {
        Err(format!("answered {outcome:?}, the model has {expected:?}"))
    }
}

fn meets(one: &KeyRange, other: &KeyRange) -> bool {
    one.0.clone().max(other.0.clone()) < one.1.clone().min(other.1.clone())
}

fn name(bytes: &[u8]) -> SlotName {
    SlotName(bytes.to_vec())
}

/// The keys that a write may name: 2000, 2004 and 2102.
fn key_check(key: &[u8]) -> Result<(), ErrorCode> {
    if key == METADATA_VERSION_KEY {
        return Err(ErrorCode::ClientInvalidOperation);
    }
    if key >= USER_KEYS_END {
        return Err(ErrorCode::KeyOutsideLegalRange);
    }
    if key.len() > KEY_BYTES_MAX { Err(ErrorCode::KeyTooLarge) } else { Ok(()) }
}

fn range_check(begin: &[u8], end: &[u8]) -> Result<(), ErrorCode> {
    if begin > end {
        return Err(ErrorCode::InvertedRange);
    }
    if end > USER_KEYS_END { Err(ErrorCode::KeyOutsideLegalRange) } else { Ok(()) }
}

impl ProgramModel {
    pub(super) fn new(frame: Frame) -> Self {
        let mut rows: ModelRows = frame.fixed().into_iter().map(|key| (key, b"fixed".to_vec())).collect();
        rows.insert(frame.metadata(), symbolic(0).0.to_vec());
        Self {
            frame,
            states: vec![rows],
            written: vec![Vec::new()],
            slots: (0..SLOTS).map(|_| ModelTransaction::new()).collect(),
            watches: Vec::new(),
            promises: Vec::new(),
            open_ended: false,
            names_open: false,
        }
    }

    fn newest(&self) -> usize {
        self.states.len().saturating_sub(1)
    }

    /// The rows of the store now.
    pub(super) fn rows(&self) -> Vec<(SlotName, SlotName)> {
        let rows = self.states.last().into_iter().flatten();
        rows.filter(|(key, _)| key.as_slice() < USER_KEYS_END)
            .map(|(key, value)| (name(key), name(value)))
            .collect()
    }

    /// Returns true if the step reads in a transaction whose earlier read has failed. Any answer is right then, since
    /// the transaction cannot commit.
    pub(super) fn is_idle(&self, step: &ProgramStep) -> bool {
        let reads = matches!(
            step.action,
            ProgramAction::Get(..)
                | ProgramAction::GetKey(..)
                | ProgramAction::GetRange(_)
                | ProgramAction::Watch(_)
        );
        reads && self.slots[step.slot].failed.is_some() && self.slots[step.slot].refusal().is_none()
    }

    /// Takes one step with the engine's answer to it.
    pub(super) fn step(&mut self, step: &ProgramStep, outcome: &ProgramOutcome) -> ModelVerdict {
        let refusal = self.slots[step.slot].refusal();
        match &step.action {
            ProgramAction::Reset => {
                self.restart(step.slot);
                return expect(outcome, &ProgramOutcome::Done);
            }
            ProgramAction::Cancel => {
                // A cancel after the commit may reach its watches.
                for watch in self.slots[step.slot].watches.clone() {
                    self.watches[watch].overwritten |= self.slots[step.slot].phase == ModelPhase::Ended;
                }
                self.restart(step.slot);
                self.slots[step.slot].phase = ModelPhase::Cancelled;
                return expect(outcome, &ProgramOutcome::Done);
            }
            ProgramAction::OnError(code) => return self.on_error(step.slot, *code, outcome),
            ProgramAction::Stamp => {
                let promise = self.promises.len();
                self.promises.push(refusal.map(Late::Error));
                self.slots[step.slot].promises.push(promise);
                return expect(outcome, &ProgramOutcome::Done);
            }
            _ => {}
        }
        if let Some(code) = refusal {
            return expect(outcome, &ProgramOutcome::Error(code));
        }
        if self.is_idle(step) {
            return self.idle(&step.action, outcome);
        }
        match &step.action {
            ProgramAction::Commit => self.commit(step.slot, outcome),
            ProgramAction::Get(..)
            | ProgramAction::GetKey(..)
            | ProgramAction::GetRange(_)
            | ProgramAction::Watch(_) => self.read(step.slot, &step.action, outcome),
            ProgramAction::ReadVersion => {
                let newest = self.newest();
                let transaction = &mut self.slots[step.slot];
                transaction.read = true;
                transaction.version.get_or_insert(ModelVersion::State(newest));
                expect(outcome, &ProgramOutcome::Done)
            }
            ProgramAction::SetReadVersion(at) => self.version_set(step.slot, *at, outcome),
            ProgramAction::Switch(switch) => self.switch(step.slot, *switch, outcome),
            action => {
                let expected = match self.write(step.slot, action) {
                    Ok(()) => ProgramOutcome::Done,
                    Err(code) => ProgramOutcome::Error(code),
                };
                expect(outcome, &expected)
            }
        }
    }

    fn restart(&mut self, slot: usize) {
        let old = std::mem::replace(&mut self.slots[slot], ModelTransaction::new());
        self.hang_end(&old, Err(ErrorCode::TransactionCancelled));
    }

    /// Resolves the watches and the promised stamps of a transaction.
    fn hang_end(&mut self, transaction: &ModelTransaction, result: Result<Option<usize>, ErrorCode>) {
        for &watch in &transaction.watches {
            let newest = self.newest();
            self.watches[watch].armed.get_or_insert_with(|| result.map(|_| newest));
        }
        for &promise in &transaction.promises {
            self.promises[promise].get_or_insert(match result {
                Ok(Some(commit)) => Late::Stamp(commit),
                Ok(None) => Late::Error(ErrorCode::NoCommitVersion),
                Err(ErrorCode::TransactionCancelled) => Late::Error(ErrorCode::TransactionCancelled),
                Err(_) => Late::Error(ErrorCode::TransactionInvalidVersion),
            });
        }
    }

    fn on_error(&mut self, slot: usize, code: ErrorCode, outcome: &ProgramOutcome) -> ModelVerdict {
        match self.slots[slot].phase {
            ModelPhase::Cancelled => {
                return expect(outcome, &ProgramOutcome::Error(ErrorCode::TransactionCancelled));
            }
            ModelPhase::GivenUp(code) => return expect(outcome, &ProgramOutcome::Error(code)),
            ModelPhase::Open | ModelPhase::Ended => {}
        }
        if code.is_retryable() {
            self.restart(slot);
            return expect(outcome, &ProgramOutcome::Done);
        }
        self.restart(slot);
        self.slots[slot].phase = ModelPhase::GivenUp(code);
        expect(outcome, &ProgramOutcome::Error(code))
    }

    fn version_set(&mut self, slot: usize, at: At, outcome: &ProgramOutcome) -> ModelVerdict {
        let newest = self.newest();
        let transaction = &mut self.slots[slot];
        if at == At::Illegal {
            return expect(outcome, &ProgramOutcome::Error(ErrorCode::VersionInvalid));
        }
        if transaction.read || transaction.version.is_some() {
            return expect(outcome, &ProgramOutcome::Error(ErrorCode::ReadVersionAlreadySet));
        }
        transaction.version = Some(match at {
            At::CommitsBack(back) => ModelVersion::State(newest.saturating_sub(back)),
            At::Ancient | At::Illegal => ModelVersion::Ancient,
        });
        expect(outcome, &ProgramOutcome::Done)
    }

    fn switch(&mut self, slot: usize, switch: Switch, outcome: &ProgramOutcome) -> ModelVerdict {
        let transaction = &mut self.slots[slot];
        match switch {
            Switch::OwnWritesDisable if transaction.touched => {
                transaction.poisoned = true;
                return expect(outcome, &ProgramOutcome::Error(ErrorCode::ClientInvalidOperation));
            }
            Switch::OwnWritesDisable => transaction.own_writes = false,
            Switch::SnapshotOwnWritesEnable => transaction.snapshot_own_writes += 1,
            Switch::SnapshotOwnWritesDisable => transaction.snapshot_own_writes -= 1,
            Switch::NextWriteNoConflict => transaction.next_hidden = true,
            Switch::BypassUnreadable => transaction.bypass = true,
            Switch::CausalWriteRisky => transaction.risky = true,
            // A reader sees no difference.
            Switch::FlushLater => {}
        }
        expect(outcome, &ProgramOutcome::Done)
    }

    fn write(&mut self, slot: usize, action: &ProgramAction) -> Result<(), ErrorCode> {
        let frame = self.frame.clone();
        let key = |name: &SlotName| frame.key(name);
        let transaction = &mut self.slots[slot];
        match action {
            ProgramAction::Set(at, value) => {
                let at = key(at);
                key_check(&at)?;
                transaction.change(&at, ModelChange::Set(Some(value.0.clone())));
            }
            ProgramAction::Atomic(operation, at, operand) => {
                let at = key(at);
                key_check(&at)?;
                transaction.change(&at, ModelChange::Atomic(*operation, operand.0.clone()));
            }
            ProgramAction::Clear(at) => {
                let at = key(at);
                match key_check(&at) {
                    Err(ErrorCode::KeyTooLarge) => {}
                    Err(ErrorCode::ClientInvalidOperation) => return Err(ErrorCode::KeyOutsideLegalRange),
                    other => {
                        other?;
                        transaction.clear(&at, &key_after(&at));
                    }
                }
            }
            ProgramAction::ClearRange(begin, end) => {
                let (begin, end) = (key(begin), key(end));
                range_check(&begin, &end)?;
                transaction.clear(&bound_cut(begin), &bound_cut(end));
            }
            ProgramAction::Conflict(kind, begin, end) => {
                let (begin, end) = (key(begin), key(end));
                let metadata = begin == METADATA_VERSION_KEY && end == key_after(METADATA_VERSION_KEY);
                if !metadata || *kind == ConflictKind::Write {
                    range_check(&begin, &end)?;
                }
                let (begin, end) = (bound_cut(begin), bound_cut(end));
                match kind {
                    ConflictKind::Read => {
                        transaction.touched |= begin < end;
                        transaction.depend((begin, end));
                    }
                    ConflictKind::Write if begin < end => {
                        transaction.touched = true;
                        transaction.conflicts.push((begin, end));
                    }
                    ConflictKind::Write => {}
                }
            }
            ProgramAction::StampedKey(begin, suffix, value) => {
                let template = template(&key(begin), &suffix.0);
                key_check(&template)?;
                transaction.stamped_key(template, &value.0);
            }
            ProgramAction::Touch => {
                transaction.stamped_value(&frame.metadata(), METADATA_VERSION_OPERAND.to_vec());
            }
            ProgramAction::StampedValue(at, before, after) => {
                let at = key(at);
                key_check(&at)?;
                transaction.stamped_value(&at, template(&before.0, &after.0));
            }
            _ => {}
        }
        if let Some(touched) = self.slots[slot].writes.last().cloned() {
            self.watches_overwrite(slot, &touched);
        }
        Ok(())
    }

    fn watches_overwrite(&mut self, slot: usize, write: &Write) {
        for &watch in &self.slots[slot].watches {
            let key = &self.watches[watch].key;
            let hit = match write {
                Write::Clear((begin, end)) => begin <= key && key < end,
                Write::Change(at, _) | Write::StampedValue(at, _) => at == key,
                Write::StampedKey(..) => false,
            };
            self.watches[watch].overwritten |= hit;
        }
    }
}

impl ModelTransaction {
    /// Returns true if the next write adds a write conflict. Asking uses up the option that prevents it.
    fn conflicting(&mut self) -> bool {
        self.touched = true;
        !std::mem::take(&mut self.next_hidden)
    }

    fn change(&mut self, key: &[u8], change: ModelChange) {
        if self.conflicting() {
            self.conflicts.push((key.to_vec(), key_after(key)));
        }
        self.own.change(key, change.clone());
        self.writes.push(Write::Change(key.to_vec(), change));
    }

    fn clear(&mut self, begin: &[u8], end: &[u8]) {
        let conflicting = self.conflicting();
        if begin >= end {
            return;
        }
        let span = (begin.to_vec(), end.to_vec());
        if conflicting {
            self.conflicts.push(span.clone());
        }
        self.own.clear(begin, end);
        if self.own_writes {
            // A pending stamped key is cleared at its present place, wherever its final key is.
            let is_pending = |write: &Write| matches!(write, Write::StampedKey(_, placed, _) if begin <= placed.as_slice() && placed.as_slice() < end);
            self.writes.retain(|write| !is_pending(write));
        }
        self.writes.push(Write::Clear(span));
    }

    fn stamped_value(&mut self, key: &[u8], template: Vec<u8>) {
        if self.conflicting() {
            self.conflicts.push((key.to_vec(), key_after(key)));
        }
        self.own.stamped_value(key, template.clone());
        self.writes.push(Write::StampedValue(key.to_vec(), template));
    }

    fn stamped_key(&mut self, template: Vec<u8>, value: &[u8]) {
        self.conflicting();
        // Only the engine knows the version. Any stamp below a commit's has the same place among the program's keys.
        let least = stamp_fill(&template, Versionstamp::ZERO);
        let greatest = stamp_fill(&template, Versionstamp::MAX);
        let placed = [least.as_slice(), &template[template.len() - 4..]].concat();
        self.own.stamped_key((least, key_after(&greatest)), &placed, value.to_vec());
        self.writes.push(Write::StampedKey(template, placed, value.to_vec()));
    }
}

/// A template with its stamp and without its offset.
fn stamp_fill(template: &[u8], stamp: Versionstamp) -> Vec<u8> {
    let (body, offset) = template.split_at(template.len().saturating_sub(4));
    let at = offset.iter().rev().fold(0_usize, |at, byte| (at << 8) | usize::from(*byte));
    let mut bytes = body.to_vec();
    if let Some(place) = bytes.get_mut(at..at.saturating_add(10)) {
        place.copy_from_slice(&stamp.0);
    }
    bytes
}

mod commit;
mod read;
