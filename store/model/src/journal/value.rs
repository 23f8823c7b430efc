//! Values that a transaction has changed within a row, for people: labels and settings.

use std::collections::BTreeMap;
use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Characters of a value that its text shows.
const SHOWN_MAX: usize = 60;

/// One value with what it was before. The row of a delta has the new value only.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ValueChange {
    /// The key of a label, or the name of a setting.
    #[n(0)]
    pub key: String,
    /// Absent: it was not set.
    #[n(1)]
    pub old: Option<String>,
    /// Absent: it is not set any more.
    #[n(2)]
    pub new: Option<String>,
}

impl ValueChange {
    /// The labels that differ, by key.
    pub fn of_labels(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<Self> {
        let added = after.keys().filter(|key| !before.contains_key(*key));
        let mut keys: Vec<&String> = before.keys().chain(added).collect();
        keys.sort_unstable();
        let change = |key: &String| Self {
            key: key.clone(),
            old: before.get(key).cloned(),
            new: after.get(key).cloned(),
        };
        keys.into_iter().map(change).filter(|change| change.old != change.new).collect()
    }
}

/// `key: old -> new`.
impl fmt::Display for ValueChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, old, new } = self;
        write!(f, "{key}: {} -> {}", shown(old.as_deref()), shown(new.as_deref()))
    }
}

fn shown(value: Option<&str>) -> String {
    match value {
        None => "(none)".to_owned(),
        Some("") => "\"\"".to_owned(),
        Some(value) => match value.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => format!("{}...", value.get(..end).unwrap_or_default()),
            None => value.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_differ_are_named_with_both_values() {
        let of = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let long = "x".repeat(100);
        let before = of(&[("app", "shop"), ("old", "x"), ("same", "1")]);
        let after = of(&[("app", &long), ("empty", ""), ("same", "1")]);
        let changes = ValueChange::of_labels(&before, &after);
        let texts: Vec<String> = changes.iter().map(ToString::to_string).collect();
        let cut = format!("app: shop -> {}...", "x".repeat(SHOWN_MAX));
        assert_eq!(texts, [cut.as_str(), "empty: (none) -> \"\"", "old: x -> (none)"]);
    }
}
