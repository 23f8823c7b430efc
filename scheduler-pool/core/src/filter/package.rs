//! Packages that a task uses and a node may have: no filter, since what is missing can be installed; a wish.

use borough_model::node::package_attribute;
use smallvec::SmallVec;

use crate::tables::{NodeTable, Texts};

/// What a node that has all packages counts for: as a soft constraint of this weight.
const PRESENT: i64 = 50;

/// The packages of a task in the numbers of one tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packages {
    asked: i64,
    /// The attributes of those that any node has.
    known: SmallVec<[u32; 4]>,
}

impl Packages {
    pub fn of(packages: &[String], texts: &Texts) -> Self {
        let known = packages.iter().filter_map(|package| texts.known(&package_attribute(package)));
        Self { asked: i64::try_from(packages.len()).unwrap_or(i64::MAX), known: known.collect() }
    }

    /// What a node that has all of them counts for.
    pub fn wish(&self) -> i64 {
        if self.asked > 0 { PRESENT } else { 0 }
    }

    /// What a node counts for that has some of them: its part of what one counts for that has all.
    pub fn present(&self, nodes: &NodeTable, node: u32) -> i64 {
        if self.known.is_empty() {
            return 0;
        }
        let present = self.known.iter().filter(|&&key| nodes.attribute(node, key).is_some()).count();
        i64::try_from(present).unwrap_or(i64::MAX).saturating_mul(PRESENT) / self.asked.max(1)
    }
}
