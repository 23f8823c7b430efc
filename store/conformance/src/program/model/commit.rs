//! Commits of the model.

use super::*;

/// Keys up to this length are all named.
const NAMED_BYTES: usize = 500;

/// The reads of a refused commit that were overwritten, in the program's keys.
struct Overwritten {
    /// The ranges that were certainly read.
    least: Vec<(SlotName, SlotName)>,
    /// These and what a watch may have read.
    most: Vec<(SlotName, SlotName)>,
    /// Whether names may be missing. This holds for ranges that reach into the system's keys with own writes off. It
    /// also holds for long keys, of which FoundationDB's client returns the first few thousand bytes.
    may_miss: bool,
    end: SlotName,
}

impl Overwritten {
    /// A refusal names all of them, and nothing else. If a watch may have read, it names at least one.
    fn check(&self, outcome: &ProgramOutcome) -> ModelVerdict {
        let inside = |(begin, end): &(SlotName, SlotName)| {
            self.most.iter().any(|(from, to)| from <= begin && end <= to)
        };
        let counted = match outcome {
            ProgramOutcome::Refused(named) => {
                let cut = named.iter().map(|(begin, end)| (begin.clone(), end.clone().min(self.end.clone())));
                &ProgramOutcome::Refused(cut.filter(|(begin, end)| begin < end).collect())
            }
            other => other,
        };
        match counted {
            ProgramOutcome::Refused(named) if self.may_miss && named.iter().all(inside) => Ok(()),
            _ if self.least == self.most => expect(counted, &ProgramOutcome::Refused(self.most.clone())),
            ProgramOutcome::Refused(named) if !named.is_empty() && named.iter().all(inside) => Ok(()),
            _ => expect(outcome, &ProgramOutcome::Refused(self.most.clone())),
        }
    }
}

impl ProgramModel {
    pub(super) fn commit(&mut self, slot: usize, outcome: &ProgramOutcome) -> ModelVerdict {
        let newest = self.newest();
        let transaction = &mut self.slots[slot];
        transaction.phase = ModelPhase::Ended;
        let transaction = transaction.clone();
        // If a failed read prevented a commit from being sent, its stamps and watches wait for the end of the
        // transaction.
        if let Some(code) = transaction.failed {
            return expect(outcome, &ProgramOutcome::Error(code));
        }
        if transaction.writes.is_empty() && transaction.conflicts.is_empty() {
            self.hang_end(&transaction, Ok(None));
            return expect(outcome, &ProgramOutcome::Committed(false));
        }
        match transaction.version.unwrap_or(ModelVersion::State(newest)) {
            ModelVersion::Ancient if transaction.risky && transaction.reads.is_empty() => {}
            ModelVersion::Ancient => {
                self.hang_end(&transaction, Err(ErrorCode::TransactionTooOld));
                return expect(outcome, &ProgramOutcome::Error(ErrorCode::TransactionTooOld));
            }
            ModelVersion::State(at) => {
                let overwritten = self.overwritten(&transaction, at);
                let refused = matches!(outcome, ProgramOutcome::Refused(_));
                if !overwritten.least.is_empty() || (refused && !overwritten.most.is_empty()) {
                    self.open_ended |= overwritten.least.is_empty();
                    self.hang_end(&transaction, Err(ErrorCode::NotCommitted));
                    let stamped =
                        transaction.writes.iter().any(|write| matches!(write, Write::StampedKey(..)));
                    self.names_open =
                        stamped || overwritten.may_miss || overwritten.least != overwritten.most;
                    // The place of a stamped key until its commit splits the ranges, and only the engine knows it.
                    return if stamped && refused { Ok(()) } else { overwritten.check(outcome) };
                }
                self.open_ended |= !overwritten.most.is_empty();
            }
        }
        self.apply(&transaction);
        let commit = self.newest();
        self.hang_end(&transaction, Ok(Some(commit)));
        expect(outcome, &ProgramOutcome::Committed(true))
    }

    /// The reads of a transaction that a commit since state `at` has overwritten.
    fn overwritten(&self, transaction: &ModelTransaction, at: usize) -> Overwritten {
        let since: Vec<&KeyRange> = self.written.iter().skip(at.saturating_add(1)).flatten().collect();
        let hit = |read: &KeyRange| since.iter().any(|written| meets(read, written));
        let everywhere = (Vec::new(), key_after(METADATA_VERSION_KEY));
        let overwritten = |reads: &[KeyRange]| -> Vec<KeyRange> {
            if !transaction.own_writes {
                return reads.iter().filter(|read| hit(read)).cloned().collect();
            }
            // Reads that touch are one range by the time of the commit, and are named as one.
            let joined = union(reads.iter().cloned(), &everywhere).into_iter();
            joined.map(|(begin, end)| (begin.0, end.0)).filter(hit).collect()
        };
        let with_watches = [transaction.reads.as_slice(), &transaction.may_read].concat();
        let bounds = if transaction.own_writes { self.frame.named() } else { self.frame.bounds() };
        // Reads that continue into the system's keys are cut, but the metadata version is read by its name.
        let metadata = (METADATA_VERSION_KEY.to_vec(), key_after(METADATA_VERSION_KEY));
        let named = |reads: &[KeyRange]| {
            let hits = overwritten(reads);
            let by_name = bounds.1 <= metadata.0 && hits.contains(&metadata);
            let last = by_name.then(|| (SlotName(metadata.0.clone()), SlotName(metadata.1.clone())));
            union(hits.into_iter(), &bounds).into_iter().chain(last).collect::<Vec<_>>()
        };
        let (least, most) = (named(&transaction.reads), named(&with_watches));
        let long = most.iter().any(|(begin, end)| begin.0.len().max(end.0.len()) > NAMED_BYTES);
        Overwritten { least, most, may_miss: long || !transaction.own_writes, end: SlotName(bounds.1) }
    }

    /// The ranges that the transaction of a slot depends on, in the program's keys, joined if they touch.
    pub(in super::super) fn dependence(&self, slot: usize) -> Vec<(SlotName, SlotName)> {
        let spans = union(self.slots[slot].reads.iter().cloned(), &self.frame.named());
        let name = |key: &SlotName| self.frame.name(&key.0);
        spans.iter().filter_map(|(begin, end)| Some((name(begin)?, name(end)?))).collect()
    }

    fn apply(&mut self, transaction: &ModelTransaction) {
        let stamp = symbolic(self.states.len());
        let mut rows = self.states.last().cloned().unwrap_or_default();
        let mut written = transaction.conflicts.clone();
        for write in &transaction.writes {
            match write {
                Write::Clear((begin, end)) => rows.retain(|key, _| !(begin <= key && key < end)),
                Write::Change(key, change) => {
                    let value = match change {
                        ModelChange::Set(value) => value.clone(),
                        ModelChange::Atomic(operation, operand) => {
                            atomic(*operation, rows.get(key).map(Vec::as_slice), operand)
                        }
                    };
                    match value {
                        Some(value) => rows.insert(key.clone(), value),
                        None => rows.remove(key),
                    };
                }
                Write::StampedValue(key, template) => {
                    rows.insert(key.clone(), stamp_fill(template, stamp));
                }
                Write::StampedKey(template, _, value) => {
                    let key = stamp_fill(template, stamp);
                    written.push((key.clone(), key_after(&key)));
                    rows.insert(key, value.clone());
                }
            }
        }
        self.states.push(rows);
        self.written.push(written);
    }

    /// The required result of each watch; `None` if the engine decides.
    pub(in super::super) fn watches(&self) -> Vec<Option<Late>> {
        let current = |watch: &ModelWatch, state: usize| {
            self.states.get(state).and_then(|rows| rows.get(&watch.key)).cloned()
        };
        let one = |watch: &ModelWatch| match watch.armed {
            // Never committed: the machine checks before it ends the transactions.
            None => (!watch.overwritten).then_some(Late::Waiting),
            Some(Err(code)) => (!watch.overwritten).then_some(Late::Error(code)),
            Some(Ok(_)) if watch.overwritten => None,
            Some(Ok(armed)) => {
                let differs = |state: usize| current(watch, state) != watch.baseline;
                if differs(self.newest()) {
                    Some(Late::Fired)
                } else {
                    // A change that was undone may be missed.
                    (!(armed..=self.newest()).any(differs)).then_some(Late::Waiting)
                }
            }
        };
        self.watches.iter().map(one).collect()
    }

    /// The required result of each promised stamp, after the end of all transactions.
    pub(in super::super) fn promises(&self) -> Vec<Late> {
        let ended = Late::Error(ErrorCode::TransactionCancelled);
        self.promises.iter().map(|promise| promise.clone().unwrap_or_else(|| ended.clone())).collect()
    }
}
