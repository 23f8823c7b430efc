//! The subspace of one cell: all of its keys begin with its name.

use std::ops::Range;

use borough_model::Name;
use foundationdb_tuple::pack;

/// The first byte of a text in a tuple.
const TEXT: u8 = 0x02;

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

    /// The keys of the federation's directory. They are under the empty name, which no cell can have.
    pub fn federation() -> Self {
        Self { name: None, prefix: pack(&("",)).into() }
    }

    /// A key after those of every cell.
    pub(crate) fn spaces_end() -> Vec<u8> {
        vec![TEXT + 1]
    }

    /// The cell of a key, if its first element is a name. Also returns a key after all those with the same first
    /// element.
    pub(crate) fn of_key(key: &[u8]) -> (Option<Name>, Vec<u8>) {
        let rest = key.get(1..).unwrap_or_default();
        let text = rest.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = std::str::from_utf8(text).ok().and_then(|text| Name::new(text).ok());
        let after = rest.get(text.len()..).unwrap_or_default();
        // A zero followed by 255 is part of the text.
        let ends = after.first() == Some(&0) && after.get(1) != Some(&0xff);
        let name = name.filter(|_| key.first() == Some(&TEXT) && ends);
        // No name contains a zero, so no cell owns a key that begins with this text and a zero.
        let end = if after.is_empty() { [key, &[0]].concat() } else { [&[TEXT], text, &[1]].concat() };
        (name, end)
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
