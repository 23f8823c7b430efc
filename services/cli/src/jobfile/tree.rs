//! A job file as a tree that remembers where everything stood: the one shape all three languages are read into.

use std::collections::BTreeMap;

use super::problem::{Position, Problem};

/// Most levels of lists and maps in one another.
pub(super) const DEPTH_MAX: usize = 64;
/// Most nodes of a tree; aliases count as often as they are used.
pub(super) const NODES_MAX: usize = 200_000;

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TreeNode {
    /// Where it stands; absent where the language does not say.
    pub(super) at: Option<Position>,
    pub(super) value: TreeValue,
}

/// What stands there.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TreeValue {
    Null,
    Bool(bool),
    /// As it was written: amounts are read exactly, not through floating point.
    Number(String),
    Text(String),
    List(Vec<TreeNode>),
    /// In the order of the file; no key twice.
    Map(Vec<(TreeKey, TreeNode)>),
}

/// The key of a map's entry with its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TreeKey {
    pub(super) at: Option<Position>,
    pub(super) text: String,
}

impl TreeValue {
    /// What people call it, with the value where it is short.
    pub(super) fn described(&self) -> String {
        let short = |text: &str| text.chars().take(40).collect::<String>();
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(text) => short(text),
            Self::Text(text) => format!("{:?}", short(text)),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a map".to_owned(),
        }
    }
}

/// Refuses every key that stands in a map before.
pub(super) fn duplicates(entries: &[(TreeKey, TreeNode)]) -> Vec<Problem> {
    let mut seen: BTreeMap<&str, &TreeKey> = BTreeMap::new();
    let mut problems = Vec::new();
    for (key, _) in entries {
        let Some(first) = seen.get(key.text.as_str()) else {
            seen.insert(&key.text, key);
            continue;
        };
        let before = first.at.map(|at| format!(", first on line {}", at.line)).unwrap_or_default();
        let message = format!("field {:?} stands twice{before}; accepted: each once", key.text);
        problems.push(Problem::at(key.at, message));
    }
    problems
}
