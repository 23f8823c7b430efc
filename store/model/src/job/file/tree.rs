//! A job file as a tree that remembers where everything stood: the one shape all three languages are read into.

use std::collections::BTreeMap;

use super::problem::{Position, Problem};

/// Most levels of lists and maps in one another.
pub const DEPTH_MAX: usize = 64;
/// Most nodes of a tree; aliases count as often as they are used.
pub const NODES_MAX: usize = 200_000;

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeNode {
    /// Where it stands; absent where the language does not say.
    pub at: Option<Position>,
    /// What stands there.
    pub value: TreeValue,
}

/// What stands there.
#[derive(Clone, Debug, PartialEq)]
pub enum TreeValue {
    /// A field without a value counts as absent.
    Null,
    /// True or false.
    Bool(bool),
    /// As it was written: amounts are read exactly, not through floating point.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<TreeNode>),
    /// In the order of the file; no key twice.
    Map(Vec<(TreeKey, TreeNode)>),
}

/// A value of JSON, without places.
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
    /// Where it stands; absent where the language does not say.
    pub at: Option<Position>,
    /// The key itself.
    pub text: String,
}

impl TreeValue {
    /// What people call it, with the value where it is short.
    pub fn described(&self) -> String {
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
pub fn duplicates(entries: &[(TreeKey, TreeNode)]) -> Vec<Problem> {
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
