//! Which parts of the journal may concern a user, a job or a node: an index in memory over blocks of entries.
//!
//! A list of the events of one job would otherwise read and decode everything that the cell keeps. Each block has a
//! Bloom filter of the names in its entries (Bloom, "Space/time trade-offs in hash coding with allowable errors",
//! 1970). A filter may say that a name is there when it is not: the block is then read in vain. It never says the
//! opposite. What the gateway has not followed is in no block, and is read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use borough_model::{Delta, JournalEntry, Name, TaskRow};
use borough_store::journal::Cursor;
use borough_store::mirror::MirrorState;
use parking_lot::Mutex;

/// Words of a filter: 4 KiB.
const WORDS: usize = 512;
/// New names after which a block is full: one look in a hundred is then in vain.
const NAMES_MAX: usize = 3_000;
/// Entries after which a block is full: few names may recur for long, and a match reads a block.
const ENTRIES_MAX: usize = 2_000;
/// Blocks of a cell: 32 MiB. That covers 512 MiB of journal, and several times as much with few names.
const BLOCKS_MAX: usize = 8_192;

/// A name by its meaning and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventSubject {
    meaning: Meaning,
    hash: u64,
}

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Meaning {
    User,
    Job,
    Node,
}

impl EventSubject {
    /// The user of jobs.
    pub fn user(name: &str) -> Self {
        Self::of(Meaning::User, name)
    }

    /// Jobs of this name, whoever has them.
    pub fn job(name: &str) -> Self {
        Self::of(Meaning::Job, name)
    }

    /// A node.
    pub fn node(name: &str) -> Self {
        Self::of(Meaning::Node, name)
    }

    fn of(meaning: Meaning, name: &str) -> Self {
        let hash = xxhash_rust::xxh3::xxh3_64_with_seed(name.as_bytes(), meaning as u64);
        Self { meaning, hash }
    }

    /// The four bits of the name in a filter, as words and masks.
    fn bits(self) -> impl Iterator<Item = (usize, u64)> {
        (0..4).map(move |part| {
            let bit = usize::try_from(self.hash >> (16 * part) & 0xffff).unwrap_or(0) % (WORDS * 64);
            (bit / 64, 1 << (bit % 64))
        })
    }
}

/// Consecutive entries: those after one position up to another.
#[derive(Clone, Debug)]
struct Block {
    last: Cursor,
    filter: Box<[u64]>,
    names: usize,
    entries: usize,
    /// Whether an entry is of something whose name is not known: it may concern anybody.
    nameless: bool,
    /// Whether an entry has the name of a job that is gone. A reader needs it for older entries, whatever their node.
    forgets: bool,
}

impl Block {
    fn new(after: Cursor) -> Self {
        Self {
            last: after,
            filter: vec![0; WORDS].into(),
            names: 0,
            entries: 0,
            nameless: false,
            forgets: false,
        }
    }

    fn is_full(&self) -> bool {
        self.names >= NAMES_MAX || self.entries >= ENTRIES_MAX
    }

    fn add(&mut self, subject: EventSubject) {
        let mut new = false;
        for (word, mask) in subject.bits() {
            if let Some(bits) = self.filter.get_mut(word) {
                new |= *bits & mask == 0;
                *bits |= mask;
            }
        }
        self.names = self.names.saturating_add(usize::from(new));
    }

    /// Whether entries of the block may concern all of `wanted`.
    fn may_concern(&self, wanted: &[EventSubject]) -> bool {
        let has = |subject: &EventSubject| {
            subject.bits().all(|(word, mask)| self.filter.get(word).is_some_and(|bits| bits & mask != 0))
        };
        let mut asked = wanted.iter().filter(|subject| !self.forgets || subject.meaning != Meaning::Node);
        self.nameless || asked.all(has)
    }
}

/// The index of one cell. Blocks are known by the position after which they begin.
#[derive(Debug, Default)]
pub(crate) struct EventIndex {
    blocks: Mutex<BTreeMap<Cursor, Block>>,
}

impl EventIndex {
    /// Begins a block after `after`, of which every following entry is added.
    pub(crate) fn begin(&self, after: Cursor) {
        let mut blocks = self.blocks.lock();
        blocks.insert(after, Block::new(after));
        while blocks.len() > BLOCKS_MAX {
            blocks.pop_first();
        }
    }

    /// Adds the next entry by its names.
    pub(crate) fn add(&self, cursor: Cursor, names: &EntryNames) {
        let last = {
            let mut blocks = self.blocks.lock();
            let Some(mut block) = blocks.last_entry() else { return };
            let block = block.get_mut();
            names.subjects.iter().for_each(|subject| block.add(*subject));
            block.nameless |= names.nameless;
            block.forgets |= names.forgets;
            block.last = cursor;
            block.entries = block.entries.saturating_add(1);
            block.is_full().then_some(cursor)
        };
        if let Some(last) = last {
            self.begin(last);
        }
    }

    /// The end of what must be read, among the entries before `end`: blocks that do not concern `wanted` are skipped.
    pub(crate) fn skip(&self, end: Bound<Cursor>, wanted: &[EventSubject]) -> Bound<Cursor> {
        let blocks = self.blocks.lock();
        let mut end = end;
        while let Bound::Included(at) | Bound::Excluded(at) = end {
            let Some((after, block)) = blocks.range(..at).next_back() else { break };
            if at > block.last || block.may_concern(wanted) {
                break;
            }
            end = Bound::Included(*after);
        }
        end
    }
}

/// The names in an entry, as far as a filter asks for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryNames {
    pub subjects: BTreeSet<EventSubject>,
    /// Whether the entry is of something whose name is not known: it may concern anybody.
    pub nameless: bool,
    /// Whether it removes a job.
    pub forgets: bool,
}

impl EntryNames {
    pub(super) fn job(&mut self, user: &Name, job: &Name) {
        self.subjects.extend([EventSubject::user(user.as_str()), EventSubject::job(job.as_str())]);
    }

    /// Adds what else an entry concerns.
    pub(super) fn extend(&mut self, other: Self) {
        self.subjects.extend(other.subjects);
        self.nameless |= other.nameless;
        self.forgets |= other.forgets;
    }

    fn user(&mut self, user: &Name) {
        self.subjects.insert(EventSubject::user(user.as_str()));
    }

    fn node(&mut self, node: &Name) {
        self.subjects.insert(EventSubject::node(node.as_str()));
    }

    fn task(&mut self, state: &MirrorState, row: &TaskRow) {
        match state.jobs().get(&row.id.job) {
            Some(job) => self.job(&job.user, &job.name),
            None => self.nameless = true,
        }
        match row.node.map(|node| state.nodes().get(&node)) {
            Some(Some(node)) => self.node(&node.name),
            Some(None) => self.nameless = true,
            None => {}
        }
    }
}

/// The names in an entry. Those of jobs and nodes that a delta does not name come from the mirror.
pub(crate) fn names_of(state: &MirrorState, entry: &JournalEntry) -> EntryNames {
    let mut names = EntryNames::default();
    for delta in &entry.deltas {
        match delta {
            Delta::Job { row, .. } => names.job(&row.user, &row.name),
            Delta::JobRemoved { name: Some(name), .. } => {
                names.forgets = true;
                names.job(&name.user, &name.job);
            }
            Delta::Task { row } => names.task(state, row),
            Delta::Node { row } => names.node(&row.name),
            Delta::Endpoint { endpoint, .. } => {
                names.job(&endpoint.user, &endpoint.job);
                names.node(&endpoint.node);
            }
            Delta::EndpointWithdrawn { user, job, .. } => names.job(user, job),
            Delta::NodeRemoved { name: Some(name), .. } => names.node(name),
            Delta::JobRemoved { name: None, .. } | Delta::NodeRemoved { name: None, .. } => {
                names.nameless = true;
            }
            Delta::MergedService { row } => names.user(&row.user),
            Delta::MergedServiceRemoved { user, .. } | Delta::FederatedJobRemoved { user, .. } => {
                names.user(user)
            }
            Delta::FederatedJob { row } => names.user(row.user()),
            Delta::NodeAlloc { .. }
            | Delta::NodeLoad { .. }
            | Delta::TaskRemoved { .. }
            | Delta::Gang { .. }
            | Delta::Member { .. }
            | Delta::MemberRemoved { .. }
            | Delta::CellSettings { .. } => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use borough_kv::Versionstamp;
    use borough_model::journal::JobName;
    use borough_model::{JobId, RequestId};
    use borough_testkit::name;
    use proptest::prelude::*;

    use super::*;

    fn at(position: u64) -> Cursor {
        Cursor { store_epoch: 1, stamp: Versionstamp::new(i64::try_from(position).unwrap(), 0) }
    }

    fn entry(user: u8) -> JournalEntry {
        let name = JobName { user: name(&format!("u{user}")), job: name("web") };
        JournalEntry {
            request: RequestId(1),
            actor: "user/ada".to_owned(),
            action: "test".to_owned(),
            at_ms: 1,
            deltas: vec![Delta::JobRemoved { job: JobId(user.into()), name: Some(name) }],
            values: None,
            calls: None,
        }
    }

    /// Positions that a reader of `wanted` reads, from the newest one, `page` at a time.
    fn read(index: &EventIndex, newest: u64, wanted: &[EventSubject], page: u64) -> Vec<u64> {
        let (mut end, mut seen) = (Bound::Included(at(newest)), Vec::new());
        loop {
            let last = match index.skip(end, wanted) {
                Bound::Included(at) => at.stamp.version(),
                Bound::Excluded(at) => at.stamp.version() - 1,
                Bound::Unbounded => unreachable!("never given"),
            };
            let last = u64::try_from(last).unwrap();
            if last == 0 {
                return seen;
            }
            let first = last.saturating_sub(page - 1).max(1);
            seen.extend((first..=last).rev());
            end = Bound::Excluded(at(first));
        }
    }

    /// The user of an entry, mostly another one than 7, and whether the gateway missed the entry.
    fn followed_or_missed() -> impl Strategy<Value = (u8, bool)> {
        prop_oneof![
            2_000 => (0..7u8, Just(false)),
            1 => (Just(7), Just(false)),
            1 => (Just(7), Just(true)),
            1 => (0..7u8, Just(true)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever was followed and missed, a reader misses no entry of its user, and reads none twice.
        #[test]
        fn a_reader_reads_every_entry_that_concerns_it(
            users in prop::collection::vec(followed_or_missed(), 1..9_000),
            page in 1..600u64,
        ) {
            let (index, state) = (EventIndex::default(), MirrorState::default());
            index.begin(at(0));
            for (position, (user, gap)) in (1_u64..).zip(&users) {
                if *gap {
                    index.begin(at(position));
                } else {
                    index.add(at(position), &names_of(&state, &entry(*user)));
                }
            }
            let newest = u64::try_from(users.len()).unwrap();
            let seen = read(&index, newest, &[EventSubject::user("u7"), EventSubject::job("web")], page);
            prop_assert!(seen.is_sorted_by(|one, other| one > other));
            for (position, (user, _)) in (1_u64..).zip(&users) {
                prop_assert!(*user != 7 || seen.contains(&position), "{position} is missed");
            }
        }
    }

    /// The cost of a list depends on what matches.
    #[test]
    fn what_concerns_nobody_is_skipped_to_the_beginning() {
        let (index, state) = (EventIndex::default(), MirrorState::default());
        index.begin(at(0));
        for position in 1..=100_000 {
            index.add(at(position), &names_of(&state, &entry(u8::from(position % 10_000 == 5))));
        }
        assert!(read(&index, 100_000, &[EventSubject::user("u9")], 500).is_empty());
        let on_node = [EventSubject::user("u9"), EventSubject::node("n1")];
        assert!(read(&index, 100_000, &on_node, 500).is_empty());
        // The name of a job that is gone is read, although its removal concerns no node.
        let on_node = [EventSubject::user("u1"), EventSubject::node("n1")];
        assert!(read(&index, 100_000, &on_node, 500).contains(&5));
        let rare = read(&index, 100_000, &[EventSubject::user("u1")], 500).len();
        assert!((10..=10 * (ENTRIES_MAX + 500)).contains(&rare), "{rare} read for ten entries");
        assert_eq!(read(&index, 100_000, &[], 500).len(), 100_000);
    }
}
