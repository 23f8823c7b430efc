//! Reads a tree field by field. It records every problem with its place and continues, so that one run shows all of
//! them.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::Name;
use crate::resource::AmountError;

use super::duration::duration_ms;
use super::problem::{Position, Problem};
use super::suggest::nearest;
use super::tree::{TreeKey, TreeNode, TreeValue};

/// The problems so far, and the places of what was read.
#[derive(Default)]
pub(crate) struct FieldReader {
    pub(crate) problems: Vec<Problem>,
    /// The place of each path, for problems that a later check finds.
    places: BTreeMap<String, WrittenValue>,
    /// The paths of the problems.
    refused: BTreeSet<String>,
}

/// What the file has at a path.
struct WrittenValue {
    at: Option<Position>,
    /// The value as it is written, if it is a single one.
    text: Option<String>,
}

/// A value with its path in the file.
#[derive(Clone, Debug)]
pub(crate) struct FileItem<'n> {
    pub(crate) node: &'n TreeNode,
    pub(crate) path: String,
}

/// The fields of a map whose keys are known.
pub(crate) struct MapFields<'n> {
    entries: &'n [(TreeKey, TreeNode)],
    path: String,
}

impl<'n> MapFields<'n> {
    /// A field; one without a value counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<FileItem<'n>> {
        let (_, node) = self.entries.iter().find(|(key, _)| key.text == name)?;
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        (node.value != TreeValue::Null).then_some(FileItem { node, path })
    }
}

impl FileItem<'_> {
    fn given(&self) -> String {
        self.node.value.described()
    }
}

impl FieldReader {
    /// Records a problem of an item: its path, its value, and what would be accepted.
    pub(crate) fn refuse(&mut self, item: &FileItem<'_>, accepted: &str) {
        let what = if item.path.is_empty() { "the file" } else { &item.path };
        let message = format!("{what}: {}; accepted: {accepted}", item.given());
        self.refused.insert(item.path.clone());
        self.problems.push(Problem::of(item.node, message));
    }

    /// Records a problem with a message that says what is accepted.
    pub(crate) fn refuse_as(&mut self, item: &FileItem<'_>, problem: &str) {
        self.refused.insert(item.path.clone());
        self.problems.push(Problem::of(item.node, format!("{}: {problem}", item.path)));
    }

    /// Records a missing field.
    pub(crate) fn missing(&mut self, outer: &FileItem<'_>, field: &str, accepted: &str) {
        let within = if outer.path.is_empty() { String::new() } else { format!(" in {}", outer.path) };
        let message = format!("field {field:?} is missing{within}; accepted: {accepted}");
        self.problems.push(Problem::of(outer.node, message));
    }

    /// The place of `path`, or of the nearest known thing around it.
    pub(crate) fn place(&self, path: &str) -> Option<Position> {
        let mut path = path;
        loop {
            if let Some(written) = self.places.get(path) {
                return written.at;
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }

    /// Records the place of a path.
    pub(crate) fn placed(&mut self, path: impl Into<String>, node: &TreeNode) {
        let text = match &node.value {
            TreeValue::Text(text) | TreeValue::Number(text) => Some(text.clone()),
            _ => None,
        };
        self.places.insert(path.into(), WrittenValue { at: node.at, text });
    }

    /// Returns true if the file has a value at `path`.
    pub(crate) fn is_written(&self, path: &str) -> bool {
        self.places.contains_key(path)
    }

    /// A single value at `path`, as it is written.
    pub(crate) fn written(&self, path: &str) -> Option<&str> {
        self.places.get(path)?.text.as_deref()
    }

    /// Returns true if a problem was recorded for `path`, or for anything around it.
    pub(crate) fn is_refused(&self, path: &str) -> bool {
        let around = path.match_indices(['.', '[']).filter_map(|(at, _)| path.get(..at));
        around.chain([path]).any(|path| self.refused.contains(path))
    }

    /// The fields of a map. An unknown field is a problem.
    pub(crate) fn fields<'n>(&mut self, item: &FileItem<'n>, accepted: &[&str]) -> Option<MapFields<'n>> {
        let TreeValue::Map(entries) = &item.node.value else {
            self.refuse(item, &format!("a map with {}", accepted.join(", ")));
            return None;
        };
        for (key, node) in entries {
            if accepted.contains(&key.text.as_str()) {
                let path = match item.path.as_str() {
                    "" => key.text.clone(),
                    outer => format!("{outer}.{}", key.text),
                };
                self.placed(path, node);
            } else {
                self.unknown(&item.path, key, accepted);
            }
        }
        Some(MapFields { entries, path: item.path.clone() })
    }

    fn unknown(&mut self, outer: &str, key: &TreeKey, accepted: &[&str]) {
        let within = if outer.is_empty() { String::new() } else { format!(" in {outer}") };
        let guess = match nearest(&key.text, accepted) {
            Some(near) => format!(", did you mean {near:?}?"),
            None => format!("; accepted: {}", accepted.join(", ")),
        };
        self.problems.push(Problem::at(key.at, format!("unknown field {:?}{within}{guess}", key.text)));
    }

    /// The entries of a map with free keys.
    pub(crate) fn entries<'n>(
        &mut self,
        item: &FileItem<'n>,
        what: &str,
    ) -> Vec<(&'n TreeKey, FileItem<'n>)> {
        let TreeValue::Map(entries) = &item.node.value else {
            self.refuse(item, what);
            return Vec::new();
        };
        let entries = entries.iter().map(|(key, node)| {
            let path = format!("{}[{:?}]", item.path, key.text);
            self.placed(path.clone(), node);
            (key, FileItem { node, path })
        });
        entries.collect()
    }

    /// The items of a list.
    pub(crate) fn items<'n>(&mut self, item: &FileItem<'n>, what: &str) -> Vec<FileItem<'n>> {
        let TreeValue::List(nodes) = &item.node.value else {
            self.refuse(item, what);
            return Vec::new();
        };
        let items = nodes.iter().enumerate().map(|(at, node)| {
            let path = format!("{}[{at}]", item.path);
            self.placed(path.clone(), node);
            FileItem { node, path }
        });
        items.collect()
    }

    /// A text. A number counts as a text, in its written form. Words that YAML reads as something else need quotes.
    pub(crate) fn text(&mut self, item: &FileItem<'_>) -> Option<String> {
        match &item.node.value {
            TreeValue::Text(text) | TreeValue::Number(text) => Some(text.clone()),
            TreeValue::Bool(value) => {
                self.refuse(item, &format!("a text; in quotes where {value} is meant as one"));
                None
            }
            _ => {
                self.refuse(item, "a text");
                None
            }
        }
    }

    /// A list of texts, such as a command.
    pub(crate) fn texts(&mut self, item: &FileItem<'_>, what: &str) -> Vec<String> {
        let items = self.items(item, what);
        items.iter().filter_map(|item| self.text(item)).collect()
    }

    /// A map of texts.
    pub(crate) fn text_map(&mut self, item: &FileItem<'_>) -> BTreeMap<String, String> {
        let entries = self.entries(item, "a map of texts");
        let texts = entries.into_iter().filter_map(|(key, item)| Some((key.text.clone(), self.text(&item)?)));
        texts.collect()
    }

    /// A name.
    pub(crate) fn name(&mut self, item: &FileItem<'_>) -> Option<Name> {
        let text = self.text(item)?;
        match Name::new(text.as_str()) {
            Ok(name) => Some(name),
            Err(error) => {
                self.refuse_as(item, &format!("the name {text:?} {error}"));
                None
            }
        }
    }

    /// A key that is a name.
    pub(crate) fn key_name(&mut self, key: &TreeKey) -> Option<Name> {
        let name = Name::new(key.text.as_str());
        let refused = |error| Problem::at(key.at, format!("the name {:?} {error}", key.text));
        name.map_err(|error| self.problems.push(refused(error))).ok()
    }

    /// A whole number from 0.
    pub(crate) fn whole<T: std::str::FromStr>(&mut self, item: &FileItem<'_>, accepted: &str) -> Option<T> {
        let parsed = match &item.node.value {
            TreeValue::Number(text) => text.parse().ok(),
            _ => None,
        };
        if parsed.is_none() {
            self.refuse(item, accepted);
        }
        parsed
    }

    /// True or false.
    pub(crate) fn truth(&mut self, item: &FileItem<'_>) -> Option<bool> {
        let truth = if let TreeValue::Bool(value) = item.node.value { Some(value) } else { None };
        if truth.is_none() {
            self.refuse(item, "true or false");
        }
        truth
    }

    /// A duration in milliseconds.
    pub(crate) fn duration(&mut self, item: &FileItem<'_>) -> Option<u64> {
        let text = match &item.node.value {
            TreeValue::Text(text) | TreeValue::Number(text) => text,
            _ => {
                self.refuse(item, "a duration such as 250ms, 5s, 2m or 1h30m");
                return None;
            }
        };
        duration_ms(text).map_err(|problem| self.refuse_as(item, &problem)).ok()
    }

    /// An amount with its unit.
    pub(crate) fn amount(
        &mut self,
        item: &FileItem<'_>,
        parse: fn(&str) -> Result<u64, AmountError>,
    ) -> Option<u64> {
        let text = match &item.node.value {
            TreeValue::Text(text) | TreeValue::Number(text) => text,
            _ => {
                self.refuse(item, "an amount with its unit, such as 500m cores or 64MiB");
                return None;
            }
        };
        parse(text).map_err(|error| self.refuse_as(item, &error.to_string())).ok()
    }

    /// One of a few words.
    pub(crate) fn word<T: Copy>(&mut self, item: &FileItem<'_>, words: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let TreeValue::Text(text) = &item.node.value else {
            self.refuse(item, &names.join(", "));
            return None;
        };
        if let Some((_, value)) = words.iter().find(|(name, _)| name == text) {
            return Some(*value);
        }
        let guess = nearest(text, &names).map(|near| format!(", did you mean {near:?}?")).unwrap_or_default();
        self.refuse_as(item, &format!("{}{guess}; accepted: {}", item.given(), names.join(", ")));
        None
    }
}
