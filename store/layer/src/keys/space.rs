//! The subspace of one cell: everything the cell owns begins with its name.

use std::ops::Range;

use borough_model::Name;
use foundationdb_tuple::pack;

/// The keys of one cell, or of the federation's directory. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellSpace {
    name: Option<Name>,
    prefix: std::sync::Arc<[u8]>,
}

impl CellSpace {
    /// The keys of the cell called `name`.
    pub fn new(name: Name) -> Self {
        let prefix = pack(&(name.as_str(),)).into();
        Self { name: Some(name), prefix }
    }

    /// The keys of the federation's directory. They stand under the empty name, which no cell can have.
    pub fn federation() -> Self {
        Self { name: None, prefix: pack(&("",)).into() }
    }

    /// The cell's name; `None` for the federation's directory.
    pub fn name(&self) -> Option<&Name> {
        self.name.as_ref()
    }

    /// The bytes every key of the space begins with.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// All keys of the space: first inclusive, last exclusive.
    pub fn range(&self) -> Range<Vec<u8>> {
        let mut end = self.prefix.to_vec();
        end.push(0xff);
        self.prefix.to_vec()..end
    }
}

impl std::fmt::Display for CellSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name.as_ref().map_or("(federation)", Name::as_str))
    }
}
