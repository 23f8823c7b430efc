//! Reads of the model.

use super::*;
use borough_kv::contract::Isolation;

impl ProgramModel {
    pub(super) fn read(
        &mut self,
        slot: usize,
        action: &ProgramAction,
        outcome: &ProgramOutcome,
    ) -> ModelVerdict {
        let (frame, newest) = (self.frame.clone(), self.newest());
        let legal = match action {
            ProgramAction::Get(key, _) | ProgramAction::Watch(key) => {
                let key = frame.key(key);
                key.as_slice() < USER_KEYS_END || key == METADATA_VERSION_KEY
            }
            ProgramAction::GetKey(selector, _) => frame.key(&selector.key).as_slice() <= USER_KEYS_END,
            ProgramAction::GetRange(range) => {
                [&range.begin, &range.end].iter().all(|one| frame.key(&one.key).as_slice() <= USER_KEYS_END)
            }
            _ => true,
        };
        let watch = matches!(action, ProgramAction::Watch(_));
        if watch && !self.slots[slot].own_writes {
            return expect(outcome, &ProgramOutcome::Error(ErrorCode::WatchesDisabled));
        }
        let transaction = &mut self.slots[slot];
        if let ProgramAction::Watch(key) = action
            && let key = frame.key(key)
            && key != METADATA_VERSION_KEY
            && let Err(code) = key_check(&key)
        {
            return expect(outcome, &ProgramOutcome::Error(code));
        }
        (transaction.read, transaction.touched) = (true, true);
        if !legal {
            return expect(outcome, &ProgramOutcome::Error(ErrorCode::KeyOutsideLegalRange));
        }
        let version = transaction.version.unwrap_or(ModelVersion::State(newest));
        let isolation = match action {
            ProgramAction::Get(_, isolation) | ProgramAction::GetKey(_, isolation) => *isolation,
            ProgramAction::GetRange(range) => range.isolation,
            _ => Isolation::Serializable,
        };
        let sees = transaction.own_writes
            && (isolation == Isolation::Serializable || transaction.snapshot_own_writes > 0);
        let own = if sees { transaction.own.clone() } else { Own::default() };
        let ModelVersion::State(at) = version else {
            transaction.version = Some(version);
            if let (ProgramAction::Watch(key), ProgramOutcome::Done) = (action, outcome) {
                return self.watch_failed(&frame.key(key));
            }
            self.fail(slot, action, outcome);
            return self.ancient(&own, action, outcome);
        };
        let base = self.states.get(at).cloned().unwrap_or_default();
        let reads = ModelReading { view: ModelView::new(&base, &own), own, at, isolation };
        let verdict = match action {
            ProgramAction::Get(key, _) => self.get(slot, &frame.key(key), &reads, outcome),
            ProgramAction::Watch(key) => self.watch(slot, &frame.key(key), &reads, outcome),
            ProgramAction::GetKey(selector, _) => self.get_key(slot, selector, &reads, outcome),
            ProgramAction::GetRange(range) => self.get_range(slot, range, &reads, outcome),
            _ => Ok(()),
        };
        self.fail(slot, action, outcome);
        verdict
    }

    /// A read of a transaction that can no longer commit.
    pub(super) fn idle(&mut self, action: &ProgramAction, outcome: &ProgramOutcome) -> ModelVerdict {
        match (action, outcome) {
            (ProgramAction::Watch(key), ProgramOutcome::Done) => self.watch_failed(&self.frame.key(key)),
            _ => Ok(()),
        }
    }

    /// A watch that could not read: the engine decides when it reports that.
    fn watch_failed(&mut self, key: &[u8]) -> ModelVerdict {
        let failed = Some(Err(ErrorCode::AccessedUnreadable));
        self.watches.push(ModelWatch { key: key.to_vec(), baseline: None, armed: failed, overwritten: true });
        Ok(())
    }

    /// A failed read makes its transaction's commit fail too, unless it belongs to a watch.
    fn fail(&mut self, slot: usize, action: &ProgramAction, outcome: &ProgramOutcome) {
        if matches!(action, ProgramAction::Watch(_)) {
            return;
        }
        if let ProgramOutcome::Error(code @ (ErrorCode::AccessedUnreadable | ErrorCode::TransactionTooOld)) =
            outcome
        {
            self.slots[slot].failed.get_or_insert(*code);
        }
    }

    /// A read at a version that is too old fails, unless own writes answer it alone.
    fn ancient(&mut self, own: &Own, action: &ProgramAction, outcome: &ProgramOutcome) -> ModelVerdict {
        let expected = ProgramOutcome::Error(ErrorCode::TransactionTooOld);
        // The engine decides which of two errors comes first.
        self.open_ended |= own.has_unreadable();
        let plain = matches!(action, ProgramAction::Get(..)) && own.is_empty();
        if plain || *outcome == expected || !own.is_empty() {
            return if plain { expect(outcome, &expected) } else { Ok(()) };
        }
        // A range that cannot contain anything is not read at all.
        match outcome {
            ProgramOutcome::Rows(rows, false) if rows.is_empty() => Ok(()),
            ProgramOutcome::Key(key) if key.0.is_empty() || key.0 == USER_KEYS_END => Ok(()),
            _ => expect(outcome, &expected),
        }
    }

    /// Records the read version of a read that own writes did not answer alone.
    fn versioned(&mut self, slot: usize, reads: &ModelReading, (begin, end): (&[u8], &[u8])) {
        if begin < end && !reads.own.undecided(begin, end).is_empty() {
            self.slots[slot].version.get_or_insert(ModelVersion::State(reads.at));
        }
    }

    fn get(
        &mut self,
        slot: usize,
        key: &[u8],
        reads: &ModelReading,
        outcome: &ProgramOutcome,
    ) -> ModelVerdict {
        if key.len() > KEY_BYTES_MAX {
            return expect(outcome, &ProgramOutcome::Value(None));
        }
        self.versioned(slot, reads, (key, &key_after(key)));
        match reads.view.get(key, self.slots[slot].bypass) {
            Err(code) => expect(outcome, &ProgramOutcome::Error(code)),
            Ok(value) => {
                if reads.isolation == Isolation::Serializable {
                    self.slots[slot].depend((key.to_vec(), key_after(key)));
                }
                expect(outcome, &ProgramOutcome::Value(value.map(SlotName)))
            }
        }
    }

    fn watch(
        &mut self,
        slot: usize,
        key: &[u8],
        reads: &ModelReading,
        outcome: &ProgramOutcome,
    ) -> ModelVerdict {
        let Ok(value) = reads.view.get(key, self.slots[slot].bypass) else {
            // An engine may report it with the watch itself.
            if *outcome != ProgramOutcome::Done {
                return expect(outcome, &ProgramOutcome::Error(ErrorCode::AccessedUnreadable));
            }
            // It then has a read version, which it would not have otherwise.
            self.open_ended = true;
            return self.watch_failed(key);
        };
        self.slots[slot].version.get_or_insert(ModelVersion::State(reads.at));
        // An own write may fire the watch before it has read.
        self.slots[slot].may_read.push((key.to_vec(), key_after(key)));
        let watch = ModelWatch { key: key.to_vec(), baseline: value, armed: None, overwritten: false };
        self.slots[slot].watches.push(self.watches.len());
        self.watches.push(watch);
        expect(outcome, &ProgramOutcome::Done)
    }

    fn get_key(
        &mut self,
        slot: usize,
        selector: &Selector,
        reads: &ModelReading,
        outcome: &ProgramOutcome,
    ) -> ModelVerdict {
        let (key, offset) = plain(self.frame.key(&selector.key), selector);
        let found = match reads.view.get_key(&key, offset) {
            Err(code) => return expect(outcome, &ProgramOutcome::Error(code)),
            Ok(found) => found,
        };
        let span = if offset <= 0 { (found.clone(), key) } else { (key, key_after(&found)) };
        self.versioned(slot, reads, (&span.0, span.1.as_slice().min(&reads.view.max_key)));
        if reads.isolation == Isolation::Serializable {
            self.slots[slot].depend(span);
        }
        expect(outcome, &ProgramOutcome::Key(SlotName(found)))
    }

    fn get_range(
        &mut self,
        slot: usize,
        range: &Range,
        reads: &ModelReading,
        outcome: &ProgramOutcome,
    ) -> ModelVerdict {
        let begin = plain(self.frame.key(&range.begin.key), &range.begin);
        let end = plain(self.frame.key(&range.end.key), &range.end);
        if begin.1 >= end.1 && begin.0 >= end.0 {
            return expect(outcome, &ProgramOutcome::Rows(Vec::new(), false));
        }
        let ends =
            reads.view.bound(&begin.0, begin.1).and_then(|from| Ok((from, reads.view.bound(&end.0, end.1)?)));
        let several = begin.1 != 1 || end.1 != 1;
        let limit = if range.limit == 0 { usize::MAX } else { range.limit };
        let rows =
            ends.clone().and_then(|(from, to)| reads.view.rows(&from.key, &to.key, limit, range.reverse));
        let expected = match rows {
            // A batch may end before an unreadable key, and a selector of several steps may leave the range before it.
            Err(_)
                if matches!(outcome, ProgramOutcome::Rows(..))
                    && (several || range.mode != StreamingMode::Exact) =>
            {
                self.open_ended = true;
                return Ok(());
            }
            Err(code) => return expect(outcome, &ProgramOutcome::Error(code)),
            // Nor must it notice that the range ends before an unreadable key.
            Ok(_)
                if reads.own.has_unreadable()
                    && several
                    && *outcome == ProgramOutcome::Error(ErrorCode::AccessedUnreadable) =>
            {
                self.open_ended = true;
                return Ok(());
            }
            Ok(rows) => rows.iter().map(|(key, value)| (name(key), name(value))).collect::<Vec<_>>(),
        };
        // For selectors of several steps that crossed, or that step over emptied keys, the lookups and the dependence
        // vary with the client's cache.
        let crossed = begin.0 > end.0;
        self.open_ended |= several && (crossed || reads.view.has_emptied());
        if self.open_ended && crossed && reads.view.has_emptied() {
            return Ok(());
        }
        let ProgramOutcome::Rows(found, more) = outcome else {
            return expect(outcome, &ProgramOutcome::Rows(expected, false));
        };
        if let Ok((from, to)) = ends {
            self.range_depend(slot, range, reads, (&begin, &end), (&from, &to), found, *more);
        }
        batch_check(range, limit, &expected, found, *more)
    }

    #[expect(clippy::too_many_arguments, reason = "a read has that many sides")]
    fn range_depend(
        &mut self,
        slot: usize,
        range: &Range,
        reads: &ModelReading,
        (begin, end): (&Plain, &Plain),
        (from, to): (&Bound, &Bound),
        found: &[(SlotName, SlotName)],
        more: bool,
    ) {
        let crossed = from.left >= to.left && from.key >= to.key;
        let read = RangeRead {
            begin: begin.clone(),
            end: end.clone(),
            to_begin: !crossed && (from.left < 1 || to.left < 1),
            through_end: !crossed && (from.left > 1 || to.left > 1),
            reverse: range.reverse,
            more,
            keys: found.iter().map(|(key, _)| key.0.as_slice()).collect(),
            max_key: reads.view.max_key.clone(),
        };
        let (first, last) = read.dependence();
        // A range that ends at the beginning of the keys, or begins at their end, is empty without a read.
        let empty = (end.1 <= 1 && end.0.is_empty()) || (begin.1 >= 1 && begin.0 >= read.max_key);
        if !empty {
            self.versioned(slot, reads, (&first, &last));
        }
        if range.isolation == Isolation::Snapshot {
            return;
        }
        if self.slots[slot].own_writes {
            self.slots[slot].depend((first, last));
            return;
        }
        // Counting beyond the user's keys varies with how the cluster has split the system's keys.
        self.open_ended |= from.left < 1 || to.left > 1;
        // A backward read without own writes first looks up an end of several steps.
        let sought = (range.reverse && end.1 > 1).then(|| reads.view.get_key(&end.0, end.1));
        let spans = read.dependence_apart(sought.and_then(Result::ok), to.left > 1 && !range.reverse);
        spans.into_iter().filter(|(begin, end)| begin < end).for_each(|span| self.slots[slot].depend(span));
    }
}

/// The source of a read.
struct ModelReading {
    view: ModelView,
    own: Own,
    /// The state that it reads, if it must.
    at: usize,
    isolation: Isolation,
}

/// Compares a batch with all rows up to the limit. Only a mode that counts bytes may return fewer.
fn batch_check(
    range: &Range,
    limit: usize,
    expected: &[(SlotName, SlotName)],
    found: &[(SlotName, SlotName)],
    more: bool,
) -> ModelVerdict {
    let short = range.mode != StreamingMode::Exact;
    let whole = ProgramOutcome::Rows(expected.to_vec(), expected.len() >= limit);
    if short && more && !found.is_empty() && expected.starts_with(found) {
        return Ok(());
    }
    expect(&ProgramOutcome::Rows(found.to_vec(), more), &whole)
}
