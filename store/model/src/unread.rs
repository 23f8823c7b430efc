//! Which fields of a job file could not be read. The spec has stand-ins for them, so that all other fields are checked.

use std::collections::BTreeSet;

/// The paths of unread fields, as a job file names them, with the indexes of the spec.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnreadFields(BTreeSet<String>);

impl UnreadFields {
    pub(crate) fn insert(&mut self, path: impl Into<String>) {
        self.0.insert(path.into());
    }

    /// Returns true if the field at `path`, or one around it, is unread.
    pub(crate) fn covers(&self, path: &str) -> bool {
        let around = path.match_indices(['.', '[']).filter_map(|(at, _)| path.get(..at));
        around.chain([path]).any(|path| self.0.contains(path))
    }

    /// Returns true if the field at `path`, one around it, or one within it is unread.
    pub(crate) fn touches(&self, path: &str) -> bool {
        let within =
            |unread: &String| unread.strip_prefix(path).is_some_and(|rest| rest.starts_with(['.', '[']));
        self.covers(path) || self.0.iter().any(within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_covers_what_is_within_it_and_touches_what_is_around_it() {
        let mut unread = UnreadFields::default();
        unread.insert("task.ports[1].name");
        for (path, covers, touches) in [
            ("task.ports[1].name", true, true),
            ("task.ports[1].name.x", true, true),
            ("task.ports[1]", false, true),
            ("task.ports", false, true),
            ("task.ports[11]", false, false),
            ("task.port", false, false),
            ("task.ports[1].number", false, false),
        ] {
            assert_eq!((unread.covers(path), unread.touches(path)), (covers, touches), "{path}");
        }
    }
}
