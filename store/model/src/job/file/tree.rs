//! A job file as a tree with the place of each value. All three languages are read into this form.

use std::collections::BTreeMap;

use super::problem::{Position, Problem};

/// Most levels of nested lists and maps.
pub const DEPTH_MAX: usize = 64;
/// Most nodes of a tree. An alias counts each time it is used.
pub const NODES_MAX: usize = 200_000;

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeNode {
    /// Absent if the language does not tell.
    pub at: Option<Position>,
    pub value: TreeValue,
}

/// The value of an item.
#[derive(Clone, Debug, PartialEq)]
pub enum TreeValue {
    /// A field without a value counts as absent.
    Null,
    Bool(bool),
    /// In its written form, because floating point would change amounts.
    Number(String),
    Text(String),
    List(Vec<TreeNode>),
    /// In the order of the file. The reader refuses a key that stands twice.
    Map(Vec<(TreeKey, TreeNode)>),
}

/// The tree of a JSON value, without places.
impl From<&serde_json::Value> for TreeNode {
    fn from(value: &serde_json::Value) -> Self {
        use serde_json::Value;
        let value = match value {
            Value::Null => TreeValue::Null,
            Value::Bool(value) => TreeValue::Bool(*value),
            Value::Number(number) => TreeValue::Number(number.to_string()),
            Value::String(text) => TreeValue::Text(text.clone()),
            Value::Array(values) => TreeValue::List(values.iter().map(Self::from).collect()),
            Value::Object(entries) => {
                let entry = |(key, value): (&String, &Value)| {
                    (TreeKey { at: None, text: key.clone() }, Self::from(value))
                };
                TreeValue::Map(entries.iter().map(entry).collect())
            }
        };
        Self { at: None, value }
    }
}

/// The key of a map's entry with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeKey {
    /// Absent if the language does not tell.
    pub at: Option<Position>,
    pub text: String,
}

impl TreeValue {
    /// The value for an error message: its type, with the value if it is short.
    pub fn described(&self) -> String {
        let short = |text: &str| text.chars().take(40).collect::<String>();
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(text) => short(text),
            Self::Text(text) => format!("{:?}", short(text)),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a map".to_owned(),
        }
    }
}

/// The keys that a map has twice, each with its problem.
pub(super) fn duplicates(entries: &[(TreeKey, TreeNode)]) -> Vec<(&TreeKey, Problem)> {
    let mut seen: BTreeMap<&str, &TreeKey> = BTreeMap::new();
    let mut problems = Vec::new();
    for (key, _) in entries {
        let Some(first) = seen.get(key.text.as_str()) else {
            seen.insert(&key.text, key);
            continue;
        };
        let before = first.at.map(|at| format!(", first on line {}", at.line)).unwrap_or_default();
        let message = format!("field {:?} stands twice{before}; accepted: each once", key.text);
        problems.push((key, Problem::at(key.at, message)));
    }
    problems
}
