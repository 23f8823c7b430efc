//! The machine: runs a program on an engine, step by step, and records each answer.
//!
//! Stamps and versions differ between runs. The machine replaces each commit's stamp by one that contains the number of
//! the commit in the program. Two engines' answers can then be compared byte by byte.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::step::{At, Frame, ProgramAction, ProgramStep, Range, SLOTS, SlotName, Switch};
use borough_kv::contract::limits::{KEY_BYTES_MAX, METADATA_VERSION_OPERAND};
use borough_kv::contract::{
    AtomicOp, Engine, EngineTransaction, ErrorCode, KvError, KvResult, RangeRequest, TransactionOption,
    Version, Versionstamp, Watch,
};

/// Long enough for any engine to answer, to fire a watch or to return a stamp.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// The answer to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProgramOutcome {
    Done,
    Error(ErrorCode),
    Value(Option<SlotName>),
    Key(SlotName),
    /// Rows, and whether more may be left.
    Rows(Vec<(SlotName, SlotName)>, bool),
    /// Whether anything was written.
    Committed(bool),
    /// Refused for a conflict, with the named ranges.
    Refused(Vec<(SlotName, SlotName)>),
}

/// The result of a watch or of a promised stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// The watch still waits.
    Waiting,
    Fired,
    /// The stamp of this commit of the program.
    Stamp(usize),
    Error(ErrorCode),
}

/// The stamp that stands for the program's commit of this number.
pub(super) fn symbolic(commit: usize) -> Versionstamp {
    Versionstamp::new(Version::try_from(commit).unwrap_or(0), 0)
}

/// The template of a stamped key: ten bytes for the stamp between `begin` and `suffix`, and their offset.
pub(super) fn template(begin: &[u8], suffix: &[u8]) -> Vec<u8> {
    let offset = u32::try_from(begin.len()).unwrap_or(0).to_le_bytes();
    [begin, &Versionstamp::INCOMPLETE, suffix, &offset].concat()
}

/// One run of one program.
pub(super) struct ProgramMachine {
    engine: Arc<dyn Engine>,
    frame: Frame,
    slots: Vec<Arc<dyn EngineTransaction>>,
    /// Stamps of the commits so far, beginning with that of the preparation.
    stamps: Vec<Versionstamp>,
    watches: Vec<Watch>,
    promises: Vec<BoxFuture<'static, KvResult<Versionstamp>>>,
}

fn code_of(error: &KvError) -> ProgramOutcome {
    ProgramOutcome::Error(error.code)
}

fn done(result: KvResult<()>) -> ProgramOutcome {
    result.map_or_else(|error| code_of(&error), |()| ProgramOutcome::Done)
}

/// Options that the machine sets on every fresh transaction: refusals name their ranges, and pauses are short.
fn prepare(transaction: &dyn EngineTransaction) {
    for option in [TransactionOption::ReportConflictingKeys, TransactionOption::MaxRetryDelayMs(1)] {
        // A transaction that accepts no options now accepts nothing else either; the next step shows it.
        let _ = transaction.set_option(option);
    }
}

impl ProgramMachine {
    /// A machine over an empty store that holds the frame's fixed keys.
    pub(super) async fn new(engine: Arc<dyn Engine>, frame: Frame) -> KvResult<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the suite looks at single transactions, without the runner"
        )]
        let begin = || -> Arc<dyn EngineTransaction> { Arc::from(engine.begin()) };
        let first = begin();
        let (from, to) = frame.bounds();
        first.clear_range(&from, &to)?;
        frame.fixed().iter().try_for_each(|key| first.set(key, b"fixed"))?;
        first.atomic(AtomicOp::SetVersionstampedValue, &frame.metadata(), &METADATA_VERSION_OPERAND)?;
        let stamp = first.commit().await?.stamp.unwrap_or_default();
        let slots: Vec<_> = (0..SLOTS).map(|_| begin()).collect();
        slots.iter().for_each(|slot| prepare(slot.as_ref()));
        Ok(Self { engine, frame, slots, stamps: vec![stamp], watches: Vec::new(), promises: Vec::new() })
    }

    /// The bytes with every known stamp replaced by its symbol.
    fn name(&self, bytes: &[u8]) -> SlotName {
        let mut bytes = bytes.to_vec();
        for at in 0..bytes.len().saturating_sub(9) {
            let Some(window) = bytes.get_mut(at..at.saturating_add(10)) else { break };
            if let Some(commit) = self.stamps.iter().position(|stamp| stamp.0 == *window) {
                window.copy_from_slice(&symbolic(commit).0);
            }
        }
        SlotName(bytes)
    }

    pub(super) async fn step(&mut self, step: &ProgramStep) -> ProgramOutcome {
        let Some(transaction) = self.slots.get(step.slot).cloned() else { return ProgramOutcome::Done };
        match &step.action {
            ProgramAction::Commit => self.commit(transaction.as_ref()).await,
            ProgramAction::Watch(key) => match transaction.watch(&self.frame.key(key)).await {
                Ok(watch) => {
                    self.watches.push(watch);
                    // A watch may read while the program continues; this fixes its version.
                    let _ = transaction.read_version().await;
                    ProgramOutcome::Done
                }
                Err(error) => code_of(&error),
            },
            ProgramAction::Stamp => {
                self.promises.push(transaction.versionstamp());
                ProgramOutcome::Done
            }
            ProgramAction::OnError(code) => {
                let answer = transaction.on_error(&KvError::new(*code)).await;
                prepare(transaction.as_ref());
                done(answer)
            }
            ProgramAction::Reset => {
                transaction.reset();
                prepare(transaction.as_ref());
                ProgramOutcome::Done
            }
            ProgramAction::Cancel => {
                transaction.cancel();
                ProgramOutcome::Done
            }
            ProgramAction::Get(..)
            | ProgramAction::GetKey(..)
            | ProgramAction::GetRange(_)
            | ProgramAction::ReadVersion => self.read(transaction.as_ref(), &step.action).await,
            action => done(self.write(transaction.as_ref(), action)),
        }
    }

    fn write(&self, transaction: &dyn EngineTransaction, action: &ProgramAction) -> KvResult<()> {
        let key = |name: &SlotName| self.frame.key(name);
        match action {
            ProgramAction::Set(at, value) => transaction.set(&key(at), &value.0),
            ProgramAction::Clear(at) => transaction.clear(&key(at)),
            ProgramAction::ClearRange(begin, end) => transaction.clear_range(&key(begin), &key(end)),
            ProgramAction::Atomic(operation, at, operand) => {
                transaction.atomic(*operation, &key(at), &operand.0)
            }
            ProgramAction::StampedKey(begin, suffix, value) => {
                let template = template(&key(begin), &suffix.0);
                transaction.atomic(AtomicOp::SetVersionstampedKey, &template, &value.0)
            }
            ProgramAction::StampedValue(at, before, after) => {
                let template = template(&before.0, &after.0);
                transaction.atomic(AtomicOp::SetVersionstampedValue, &key(at), &template)
            }
            ProgramAction::Touch => {
                let (operation, operand) = (AtomicOp::SetVersionstampedValue, METADATA_VERSION_OPERAND);
                transaction.atomic(operation, &self.frame.metadata(), &operand)
            }
            ProgramAction::Conflict(kind, begin, end) => {
                transaction.add_conflict_range(*kind, &key(begin)..&key(end))
            }
            ProgramAction::SetReadVersion(at) => transaction.set_read_version(match at {
                At::CommitsBack(back) => {
                    let newest = self.stamps.len().saturating_sub(1);
                    let stamp = self.stamps.get(newest.saturating_sub(*back)).or_else(|| self.stamps.first());
                    stamp.map_or(0, |stamp| stamp.version())
                }
                At::Ancient => 1,
                At::Illegal => 0,
            }),
            ProgramAction::Switch(switch) => transaction.set_option(match switch {
                Switch::OwnWritesDisable => TransactionOption::ReadYourWritesDisable,
                Switch::SnapshotOwnWritesEnable => TransactionOption::SnapshotRywEnable,
                Switch::SnapshotOwnWritesDisable => TransactionOption::SnapshotRywDisable,
                Switch::NextWriteNoConflict => TransactionOption::NextWriteNoWriteConflictRange,
                Switch::BypassUnreadable => TransactionOption::BypassUnreadable,
                Switch::CausalWriteRisky => TransactionOption::CausalWriteRisky,
                Switch::FlushLater => TransactionOption::FlushLater,
            }),
            _ => Ok(()),
        }
    }

    async fn read(&mut self, transaction: &dyn EngineTransaction, action: &ProgramAction) -> ProgramOutcome {
        let outcome = match action {
            ProgramAction::Get(key, isolation) => transaction
                .get(&self.frame.key(key), *isolation)
                .await
                .map(|value| ProgramOutcome::Value(value.map(|value| self.name(&value)))),
            ProgramAction::GetKey(selector, isolation) => transaction
                .get_key(&self.frame.selector(selector), *isolation)
                .await
                .map(|key| ProgramOutcome::Key(self.name(&key))),
            ProgramAction::GetRange(range) => {
                transaction.get_range(&self.request(range)).await.map(|batch| {
                    let rows = batch.rows.iter().map(|(key, value)| (self.name(key), self.name(value)));
                    ProgramOutcome::Rows(rows.collect(), batch.more)
                })
            }
            // The versions of two runs differ. Another check covers that a version is not before the last commit.
            _ => transaction.read_version().await.map(|_| ProgramOutcome::Done),
        };
        outcome.unwrap_or_else(|error| code_of(&error))
    }

    fn request(&self, range: &Range) -> RangeRequest {
        let Range { begin, end, limit, mode, reverse, isolation } = range;
        RangeRequest {
            begin: self.frame.selector(begin),
            end: self.frame.selector(end),
            limit: *limit,
            target_bytes: 0,
            mode: *mode,
            iteration: 1,
            reverse: *reverse,
            isolation: *isolation,
        }
    }

    async fn commit(&mut self, transaction: &dyn EngineTransaction) -> ProgramOutcome {
        match transaction.commit().await {
            Ok(committed) => {
                self.stamps.extend(committed.stamp);
                ProgramOutcome::Committed(committed.stamp.is_some())
            }
            Err(error) if error.code == ErrorCode::NotCommitted => {
                let ranges = transaction.conflicting_ranges().await.unwrap_or_default();
                let named = ranges.iter().map(|range| (self.name(&range.start).0, self.name(&range.end).0));
                ProgramOutcome::Refused(
                    cut(named, &self.frame.named())
                        .map(|(begin, end)| (SlotName(begin), SlotName(end)))
                        .collect(),
                )
            }
            Err(error) => code_of(&error),
        }
    }

    /// The results of the watches, in the order in which they were set. `expected` says for each whether it must fire:
    /// only those are awaited.
    pub(super) async fn watches_end(&mut self, expected: impl Fn(usize) -> bool) -> Vec<Late> {
        let mut ends = Vec::new();
        for (index, mut watch) in std::mem::take(&mut self.watches).into_iter().enumerate() {
            let ended = if expected(index) {
                tokio::time::timeout(PATIENCE, watch).await.ok()
            } else {
                (&mut watch).now_or_never()
            };
            ends.push(match ended {
                None => Late::Waiting,
                Some(Ok(())) => Late::Fired,
                Some(Err(error)) => Late::Error(error.code),
            });
        }
        ends
    }

    /// Ends every transaction, and returns the results of the promised stamps.
    pub(super) async fn promises_end(&mut self) -> Vec<Late> {
        self.slots.iter().for_each(|slot| slot.reset());
        let mut ends = Vec::new();
        for promise in std::mem::take(&mut self.promises) {
            ends.push(match tokio::time::timeout(PATIENCE, promise).await {
                Err(_) => Late::Waiting,
                Ok(Err(error)) => Late::Error(error.code),
                Ok(Ok(stamp)) => {
                    let commit = self.stamps.iter().position(|one| *one == stamp);
                    Late::Stamp(commit.unwrap_or(usize::MAX))
                }
            });
        }
        ends
    }

    /// The rows that the store has now.
    pub(super) async fn rows(&mut self) -> KvResult<Vec<(SlotName, SlotName)>> {
        let (begin, end) = self.frame.bounds();
        #[expect(
            clippy::disallowed_methods,
            reason = "the suite looks at single transactions, without the runner"
        )]
        let reader = self.engine.begin();
        let mut request = RangeRequest::between(begin, end).snapshot();
        let mut rows = Vec::new();
        loop {
            let batch = reader.get_range(&request).await?;
            let last = batch.rows.last().map(|(key, _)| key.clone());
            rows.extend(batch.rows.iter().map(|(key, value)| (self.name(key), self.name(value))));
            let Some(last) = last.filter(|_| batch.more) else { return Ok(rows) };
            request.begin = borough_kv::contract::KeySelector::first_greater_than(last);
        }
    }
}

/// The effective bound: no key is longer than the limit, so a longer bound equals its beginning.
pub(super) fn bound_cut(mut key: Vec<u8>) -> Vec<u8> {
    key.truncate(KEY_BYTES_MAX.saturating_add(1));
    key
}

/// The parts of `ranges` within `bounds`.
fn cut(
    ranges: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
    bounds: &(Vec<u8>, Vec<u8>),
) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let ranges = ranges.map(|(begin, end)| (bound_cut(begin), bound_cut(end)));
    let cut = |(begin, end): (Vec<u8>, Vec<u8>)| (begin.max(bounds.0.clone()), end.min(bounds.1.clone()));
    ranges.map(cut).filter(|(begin, end)| begin < end)
}

/// The parts of `ranges` within `bounds`, in order, joined where they touch.
pub(super) fn union(
    ranges: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
    bounds: &(Vec<u8>, Vec<u8>),
) -> Vec<(SlotName, SlotName)> {
    let mut ranges: Vec<_> = cut(ranges, bounds).collect();
    ranges.sort();
    let mut joined: Vec<(SlotName, SlotName)> = Vec::new();
    for (begin, end) in ranges {
        match joined.last_mut() {
            Some((_, last)) if last.0 >= begin => last.0 = end.max(std::mem::take(&mut last.0)),
            _ => joined.push((SlotName(begin), SlotName(end))),
        }
    }
    joined
}
