//! Commits of the model.

use super::*;

/// Which reads of a refused commit were overwritten, in the program's keys.
struct Overwritten {
    /// Read by read.
    least: Vec<(Name, Name)>,
    /// With the reads that touch them.
    most: Vec<(Name, Name)>,
}

impl Overwritten {
    /// A refusal names at least one of them, and nothing else.
    fn check(&self, outcome: &Outcome) -> Verdict {
        let inside =
            |(begin, end): &(Name, Name)| self.most.iter().any(|(from, to)| from <= begin && end <= to);
        match outcome {
            Outcome::Refused(named) if !named.is_empty() && named.iter().all(inside) => Ok(()),
            _ => expect(outcome, &Outcome::Refused(self.most.clone())),
        }
    }
}

impl Model {
    pub(super) fn commit(&mut self, slot: usize, outcome: &Outcome) -> Verdict {
        let newest = self.newest();
        let transaction = &mut self.slots[slot];
        transaction.phase = Phase::Ended;
        let transaction = transaction.clone();
        // What hangs on a commit that a failed read kept from being sent waits for the end of the attempt.
        if let Some(code) = transaction.failed {
            return expect(outcome, &Outcome::Error(code));
        }
        if transaction.writes.is_empty() && transaction.conflicts.is_empty() {
            self.hang_end(&transaction, Ok(None));
            return expect(outcome, &Outcome::Committed(false));
        }
        match transaction.version.unwrap_or(Version::State(newest)) {
            Version::Ancient if transaction.risky && transaction.reads.is_empty() => {}
            Version::Ancient => {
                self.hang_end(&transaction, Err(ErrorCode::TransactionTooOld));
                return expect(outcome, &Outcome::Error(ErrorCode::TransactionTooOld));
            }
            Version::State(at) => {
                let overwritten = self.overwritten(&transaction, at);
                let refused = matches!(outcome, Outcome::Refused(_));
                if !overwritten.least.is_empty() || (refused && !overwritten.most.is_empty()) {
                    self.open_ended |= overwritten.least.is_empty();
                    self.hang_end(&transaction, Err(ErrorCode::NotCommitted));
                    let stamped =
                        transaction.writes.iter().any(|write| matches!(write, Write::StampedKey(..)));
                    // Where a stamped key stands until its commit cuts the ranges, and is the engine's secret.
                    return if stamped && refused { Ok(()) } else { overwritten.check(outcome) };
                }
                self.open_ended |= !overwritten.most.is_empty();
            }
        }
        self.apply(&transaction);
        let commit = self.newest();
        self.hang_end(&transaction, Ok(Some(commit)));
        expect(outcome, &Outcome::Committed(true))
    }

    /// The reads of a transaction that a commit since state `at` has overwritten.
    fn overwritten(&self, transaction: &Transaction, at: usize) -> Overwritten {
        let since: Vec<&Span> = self.written.iter().skip(at.saturating_add(1)).flatten().collect();
        let hit = |read: &&Span| since.iter().any(|written| meets(read, written));
        let bounds = self.frame.named();
        let least = transaction.reads.iter().filter(hit).cloned();
        let least = union(least, &bounds);
        // Reads that touch may be one range by the time of the commit, and named as one.
        let everywhere = (Vec::new(), key_after(METADATA_VERSION_KEY));
        let all = transaction.reads.iter().chain(&transaction.may_read).cloned();
        let joined = union(all, &everywhere);
        let joined: Vec<Span> = joined.into_iter().map(|(begin, end)| (begin.0, end.0)).collect();
        let most = union(joined.iter().filter(hit).cloned(), &bounds);
        Overwritten { least, most }
    }

    fn apply(&mut self, transaction: &Transaction) {
        let stamp = symbolic(self.states.len());
        let mut rows = self.states.last().cloned().unwrap_or_default();
        let mut written = transaction.conflicts.clone();
        for write in &transaction.writes {
            match write {
                Write::Clear((begin, end)) => rows.retain(|key, _| !(begin <= key && key < end)),
                Write::Change(key, change) => {
                    let value = match change {
                        Change::Set(value) => value.clone(),
                        Change::Atomic(operation, operand) => {
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

    /// What each watch has to have come to: `None` where it is the engine's affair.
    pub(in super::super) fn watches(&self) -> Vec<Option<Late>> {
        let current = |watch: &Watch, state: usize| {
            self.states.get(state).and_then(|rows| rows.get(&watch.key)).cloned()
        };
        let one = |watch: &Watch| match watch.armed {
            // Never committed: the machine looks before it ends the transactions.
            None => (!watch.overwritten).then_some(Late::Waiting),
            Some(Err(code)) => (!watch.overwritten).then_some(Late::Error(code)),
            Some(Ok(_)) if watch.overwritten => None,
            Some(Ok(armed)) => {
                let differs = |state: usize| current(watch, state) != watch.baseline;
                if differs(self.newest()) {
                    Some(Late::Fired)
                } else {
                    // There and back again may be missed.
                    (!(armed..=self.newest()).any(differs)).then_some(Late::Waiting)
                }
            }
        };
        self.watches.iter().map(one).collect()
    }

    /// What each promised stamp has to have come to, once every transaction is over.
    pub(in super::super) fn promises(&self) -> Vec<Late> {
        let ended = Late::Error(ErrorCode::TransactionCancelled);
        self.promises.iter().map(|promise| promise.clone().unwrap_or_else(|| ended.clone())).collect()
    }
}
