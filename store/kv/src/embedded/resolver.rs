//! The conflict check: which keys were written in the last five seconds, and which commits must fail for that.
//!
//! Writes are kept in generations of a fraction of the window. A check skips every generation that ended at or before
//! the read version, which is nearly all of them for a young transaction. A generation is dropped as a whole.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use bytes::Bytes;

use super::points::Points;
use super::ranges::Span;
use crate::contract::Version;
use crate::contract::limits::TRANSACTION_LIFE_VERSIONS;

/// Versions of one generation: a sixteenth of the window.
const GENERATION_VERSIONS: Version = TRANSACTION_LIFE_VERSIONS / 16;

/// The writes of one stretch of versions.
#[derive(Debug)]
struct Generation {
    first: Version,
    last: Version,
    points: Points,
    /// A step function: a range written at a version begins at its key and lasts to the next entry.
    steps: BTreeMap<Bytes, Version>,
}

impl Generation {
    fn new(first: Version) -> Self {
        Self { first, last: first, points: Points::default(), steps: BTreeMap::new() }
    }

    fn write(&mut self, version: Version, span: &Span) {
        self.last = self.last.max(version);
        match span {
            Span::Point(key) => {
                self.points.insert(key, version);
            }
            Span::Range(begin, end) => {
                let after = self.step_at(end);
                while let Some((key, _)) = self.steps.range(begin.clone()..end.clone()).next() {
                    let key = key.clone();
                    self.steps.remove(&key);
                }
                self.steps.insert(begin.clone(), version);
                self.steps.entry(end.clone()).or_insert(after);
            }
        }
    }

    /// The version at which `key` was last written by a range; 0 for never.
    fn step_at(&self, key: &[u8]) -> Version {
        let bounds = (Bound::Unbounded, Bound::Included(key));
        self.steps.range::<[u8], _>(bounds).next_back().map_or(0, |(_, version)| *version)
    }

    fn written_after(&mut self, version: Version, span: &Span) -> bool {
        if self.last <= version {
            return false;
        }
        match span {
            Span::Point(key) => {
                self.points.at(key).is_some_and(|at| at > version)
                    || (!self.steps.is_empty() && self.step_at(key) > version)
            }
            Span::Range(begin, end) => {
                let inside = (Bound::Included(begin.as_ref()), Bound::Excluded(end.as_ref()));
                self.points.any_after(version, begin, end)
                    || self.step_at(begin) > version
                    || self.steps.range::<[u8], _>(inside).any(|(_, at)| *at > version)
            }
        }
    }
}

/// What a commit has read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResolverRequest<'a> {
    pub(crate) read_version: Version,
    pub(crate) reads: &'a [Span],
    /// If nothing was read: whether no check is made at all.
    pub(crate) risky: bool,
    /// Whether every conflict is reported, or only the first.
    pub(crate) report_all: bool,
}

/// The result of the check for one commit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResolverVerdict {
    /// Nothing it read was written since.
    Accepted,
    /// Its read version is out of the window.
    TooOld,
    /// The indices of the read spans that were written since: all of them on request, else the first.
    Conflict(Vec<usize>),
}

/// Writes of the last five seconds.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    generations: VecDeque<Generation>,
    /// Transactions that read below this are too old.
    oldest: Version,
}

impl Resolver {
    /// A resolver without writes. It refuses every read version below `version`.
    pub(crate) fn new(version: Version) -> Self {
        Self { generations: VecDeque::new(), oldest: version }
    }

    /// Moves the window so that it ends at `version`.
    pub(crate) fn advance(&mut self, version: Version) {
        self.oldest = self.oldest.max(version.saturating_sub(TRANSACTION_LIFE_VERSIONS));
        while self.generations.front().is_some_and(|generation| generation.last <= self.oldest) {
            self.generations.pop_front();
        }
    }

    /// Checks a commit. One that read nothing can still be too old, unless it is `risky`: FoundationDB gives every
    /// other commit something to read, so that it knows when the commit is over.
    pub(crate) fn check(&mut self, request: &ResolverRequest<'_>) -> ResolverVerdict {
        let &ResolverRequest { read_version, reads, risky, report_all } = request;
        if risky && reads.is_empty() {
            return ResolverVerdict::Accepted;
        }
        if read_version < self.oldest {
            return ResolverVerdict::TooOld;
        }
        let mut conflicts = Vec::new();
        for (index, span) in reads.iter().enumerate() {
            if self.generations.iter_mut().rev().any(|one| one.written_after(read_version, span)) {
                conflicts.push(index);
                if !report_all {
                    break;
                }
            }
        }
        if conflicts.is_empty() { ResolverVerdict::Accepted } else { ResolverVerdict::Conflict(conflicts) }
    }

    /// Records what an accepted commit wrote. Later commits of the same batch see it at once.
    pub(crate) fn write(&mut self, version: Version, writes: &[Span]) {
        if self.generations.back().is_none_or(|last| version.saturating_sub(last.first) > GENERATION_VERSIONS)
        {
            self.generations.push_back(Generation::new(version));
        }
        if let Some(generation) = self.generations.back_mut() {
            writes.iter().for_each(|span| generation.write(version, span));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span() -> impl Strategy<Value = Span> {
        let key = || prop::collection::vec(0..4u8, 0..3).prop_map(Bytes::from);
        (key(), key()).prop_map(|(one, other)| match one.cmp(&other) {
            std::cmp::Ordering::Less => Span::new(one, other),
            std::cmp::Ordering::Equal => Span::Point(one),
            std::cmp::Ordering::Greater => Span::new(other, one),
        })
    }

    fn overlaps(one: &Span, other: &Span) -> bool {
        let (one, other) = (one.to_range(), other.to_range());
        one.start < other.end && other.start < one.end
    }

    proptest! {
        /// Compares the window with a plain list of all writes.
        #[test]
        fn it_refuses_exactly_what_was_written_since(
            steps in prop::collection::vec(
                (1..2_000_000i64, prop::collection::vec(span(), 0..4), 0..8_000_000i64, any::<bool>(), prop::collection::vec(span(), 0..3)),
                1..40,
            )
        ) {
            let mut version = 10_000_000;
            let mut resolver = Resolver::new(version);
            let mut written: Vec<(Version, Span)> = Vec::new();
            for (step, writes, age, risky, reads) in steps {
                version += step;
                resolver.advance(version);
                let read_version = version - age;
                let found = resolver.check(&ResolverRequest { read_version, reads: &reads, risky, report_all: true });
                let since = |read: &Span| written.iter().any(|(at, span)| *at > read_version && overlaps(read, span));
                let conflicts: Vec<usize> =
                    reads.iter().enumerate().filter(|(_, read)| since(read)).map(|(index, _)| index).collect();
                let oldest = 10_000_000.max(version - TRANSACTION_LIFE_VERSIONS);
                let expected = match conflicts {
                    _ if risky && reads.is_empty() => ResolverVerdict::Accepted,
                    _ if read_version < oldest => ResolverVerdict::TooOld,
                    conflicts if conflicts.is_empty() => ResolverVerdict::Accepted,
                    conflicts => ResolverVerdict::Conflict(conflicts),
                };
                prop_assert_eq!(found, expected);
                resolver.write(version, &writes);
                written.extend(writes.into_iter().map(|span| (version, span)));
            }
        }
    }
}
