//! Single keys written at versions, for the conflict check. It nearly always asks about one key, and rarely about a
//! range.
//!
//! Keys are hashed. They are sorted only as far as queries for ranges needed it. Each sorted run is more than twice as
//! long as the next (the logarithmic method of Bentley and Saxe, 1980, section 2).

use bytes::Bytes;
use indexmap::IndexMap;

use crate::contract::Version;

/// Keys, each with the version that wrote it last. Keys are never removed.
#[derive(Debug, Default)]
pub(super) struct Points {
    /// In the order of their first write.
    versions: IndexMap<Bytes, Version>,
    /// Sorted runs of positions in `versions`, the longest first; together the first `sorted` positions.
    runs: Vec<Vec<usize>>,
    sorted: usize,
}

impl Points {
    /// Records that `key` was written at `version`, which is not below earlier ones.
    pub(super) fn insert(&mut self, key: &Bytes, version: Version) {
        self.versions.insert(key.clone(), version);
    }

    /// The version that wrote `key` last.
    pub(super) fn at(&self, key: &[u8]) -> Option<Version> {
        self.versions.get(key).copied()
    }

    /// Whether any key of `begin..end` was written after `version`.
    pub(super) fn any_after(&mut self, version: Version, begin: &[u8], end: &[u8]) -> bool {
        self.sort();
        self.runs.iter().any(|run| {
            let first = run.partition_point(|position| self.key(*position) < begin);
            run.iter()
                .skip(first)
                .filter_map(|position| self.versions.get_index(*position))
                .take_while(|(key, _)| key.as_ref() < end)
                .any(|(_, at)| *at > version)
        })
    }

    fn key(&self, position: usize) -> &[u8] {
        self.versions.get_index(position).map_or(&[], |(key, _)| key.as_ref())
    }

    /// Sorts the keys written since the last call into a run.
    fn sort(&mut self) {
        if self.sorted == self.versions.len() {
            return;
        }
        let mut run: Vec<usize> = (self.sorted..self.versions.len()).collect();
        run.sort_unstable_by(|one, other| self.key(*one).cmp(self.key(*other)));
        self.sorted = self.versions.len();
        while let Some(longer) = self.runs.pop_if(|last| last.len() <= run.len().saturating_mul(2)) {
            run = self.merged(&longer, &run);
        }
        self.runs.push(run);
    }

    fn merged(&self, one: &[usize], other: &[usize]) -> Vec<usize> {
        let mut merged = Vec::with_capacity(one.len().saturating_add(other.len()));
        let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
        while let (Some(first), Some(second)) = (one.peek(), other.peek()) {
            let next = if self.key(**first) < self.key(**second) { one.next() } else { other.next() };
            merged.extend(next);
        }
        merged.extend(one.chain(other));
        merged
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with an ordered map. Ranges are queried at any time, so that runs of every length are merged.
        #[test]
        fn keys_and_ranges_answer_as_an_ordered_map_does(
            steps in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..3), any::<u8>(), any::<u8>(), 0..9u8), 1..300)
        ) {
            let (mut points, mut model) = (Points::default(), BTreeMap::new());
            for (version, (key, begin, end, ask)) in (1..).zip(steps) {
                let key = Bytes::from(key);
                points.insert(&key, version);
                model.insert(key.clone(), version);
                prop_assert_eq!(points.at(&key), Some(version));
                prop_assert_eq!(points.at(&[begin, end, 0]), None);
                if ask == 0 {
                    let (begin, end) = (begin.min(end), begin.max(end));
                    let since = version / 2;
                    let expected = model
                        .range(Bytes::from(vec![begin])..Bytes::from(vec![end]))
                        .any(|(_, at)| *at > since);
                    prop_assert_eq!(points.any_after(since, &[begin], &[end]), expected);
                    let lengths: Vec<usize> = points.runs.iter().map(Vec::len).collect();
                    prop_assert!(lengths.windows(2).all(|pair| pair[0] > 2 * pair[1]), "{:?}", lengths);
                    prop_assert_eq!(lengths.iter().sum::<usize>(), model.len());
                }
            }
        }
    }
}
