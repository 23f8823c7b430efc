//! Packages that a task uses. They are a soft constraint and no filter, because a missing package can be installed.

use borough_model::node::package_attribute;
use smallvec::SmallVec;

use crate::tables::{NodeTable, Texts};

/// The weight of a node with all packages, on the scale of soft constraints.
const PRESENT: i64 = 50;

/// The packages of a task, interned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packages {
    asked: i64,
    /// The attributes of the packages that any node has.
    known: SmallVec<[u32; 4]>,
}

impl Packages {
    pub(crate) fn of(packages: &[String], texts: &Texts) -> Self {
        let known = packages.iter().filter_map(|package| texts.known(&package_attribute(package)));
        Self { asked: i64::try_from(packages.len()).unwrap_or(i64::MAX), known: known.collect() }
    }

    /// The weight of a node that has all packages.
    pub(crate) fn wish(&self) -> i64 {
        if self.asked > 0 { PRESENT } else { 0 }
    }

    /// Returns true if an attribute tells whether a node has one of them.
    pub(crate) fn looks_at(&self, key: u32) -> bool {
        self.known.contains(&key)
    }

    /// The weight of a node: the part of the packages that it has.
    pub(crate) fn present(&self, nodes: &NodeTable, node: u32) -> i64 {
        if self.known.is_empty() {
            return 0;
        }
        let present = self.known.iter().filter(|&&key| nodes.attribute(node, key).is_some()).count();
        i64::try_from(present).unwrap_or(i64::MAX).saturating_mul(PRESENT) / self.asked.max(1)
    }
}
