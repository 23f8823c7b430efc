//! The past values of the metadata version.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::contract::Version;

/// Metadata versions kept beyond the window, as many as FoundationDB's client keeps.
const METADATA_VERSIONS_MAX: usize = 1000;

/// Past metadata versions, oldest first: a transaction reads the one of its read version, however old that is.
#[derive(Debug, Default)]
pub(super) struct MetadataVersions {
    since: VecDeque<(Version, Bytes)>,
    /// Whether older ones were dropped.
    dropped: bool,
}

impl MetadataVersions {
    pub(super) fn note(&mut self, version: Version, value: &Bytes) {
        self.since.push_back((version, value.clone()));
        if self.since.len() > METADATA_VERSIONS_MAX {
            self.since.pop_front();
            self.dropped = true;
        }
    }

    /// The one at `version`; the outer `None` if that is no longer known.
    pub(super) fn at(&self, version: Version) -> Option<Option<Bytes>> {
        let after = self.since.partition_point(|(since, _)| *since <= version);
        match after.checked_sub(1).and_then(|at| self.since.get(at)) {
            Some((_, value)) => Some(Some(value.clone())),
            None => (!self.dropped).then_some(None),
        }
    }
}
