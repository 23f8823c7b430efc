//! Reads a tree field by field. It records every problem with its place and continues, so that one run shows all of
//! them.

use std::collections::BTreeMap;

use crate::id::Name;
use crate::resource::AmountError;
use crate::unread::UnreadFields;

use super::duration::duration_ms;
use super::foreign_field::{OwnField, own_field, own_path, own_path_near};
use super::problem::{Position, Problem};
use super::suggest::nearest;
use super::tree::{TreeKey, TreeNode, TreeValue, duplicates};
use super::{FieldInfo, path_within};

/// Most characters of a refused name that are shown.
const NAME_SHOWN_MAX: usize = 80;

/// The problems so far, and the places of what was read.
#[derive(Default)]
pub(crate) struct FieldReader {
    pub(crate) problems: Vec<Problem>,
    /// The place of each path, for problems that a later check finds.
    places: BTreeMap<String, WrittenValue>,
    /// The fields that could not be read.
    pub(crate) unread: UnreadFields,
    /// What the file calls a field that its path in the spec does not name.
    aliases: BTreeMap<String, String>,
    stand_ins: usize,
    /// Fields that this file need not have.
    optional: Vec<&'static str>,
    /// A part of the file beside the job: its name, and its fields.
    part: Option<(&'static str, &'static [FieldInfo])>,
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
        let path = path_within(&self.path, name);
        (node.value != TreeValue::Null).then_some(FileItem { node, path })
    }
}

impl FileItem<'_> {
    pub(crate) fn given(&self) -> String {
        self.node.value.described()
    }
}

impl FieldReader {
    /// Records a problem of an item: its path, its value, and what would be accepted.
    pub(crate) fn refuse(&mut self, item: &FileItem<'_>, accepted: &str) {
        let what = if item.path.is_empty() { "the file" } else { &item.path };
        let message = format!("{what}: {}; accepted: {accepted}", item.given());
        self.unread.insert(item.path.clone());
        self.problems.push(Problem::of(item.node, message));
    }

    /// Records a problem with a message that says what is accepted.
    pub(crate) fn refuse_as(&mut self, item: &FileItem<'_>, problem: &str) {
        self.unread.insert(item.path.clone());
        self.refuse_whole(item, problem);
    }

    /// Records a problem of a map whose fields were read.
    pub(crate) fn refuse_whole(&mut self, item: &FileItem<'_>, problem: &str) {
        self.problems.push(Problem::of(item.node, format!("{}: {problem}", item.path)));
    }

    /// Has fields be optional that are required in other files.
    pub(crate) fn optional(&mut self, paths: &[&'static str]) {
        self.optional.extend_from_slice(paths);
    }

    /// Has a part beside the job, so that its fields keep their names in problems.
    pub(crate) fn part(&mut self, name: &'static str, fields: &'static [FieldInfo]) {
        self.part = Some((name, fields));
    }

    /// The fields of the part with this name.
    pub(crate) fn part_fields(&self, name: &str) -> Option<&'static [FieldInfo]> {
        self.part.filter(|(part, _)| *part == name).map(|(_, fields)| fields)
    }

    /// Records a missing field.
    pub(crate) fn missing(&mut self, outer: &FileItem<'_>, field: &str, accepted: &str) {
        if self.optional.contains(&path_within(&outer.path, field).as_str()) {
            return;
        }
        let within = if outer.path.is_empty() { String::new() } else { format!(" in {}", outer.path) };
        let message = format!("field {field:?} is missing{within}; accepted: {accepted}");
        self.unread.insert(path_within(&outer.path, field));
        self.problems.push(Problem::of(outer.node, message));
    }

    /// The place of `path`, or of the nearest known thing around it.
    pub(crate) fn place(&self, path: &str) -> Option<Position> {
        around(path).find_map(|path| self.places.get(path))?.at
    }

    /// Records the place of a path.
    pub(crate) fn placed(&mut self, path: impl Into<String>, node: &TreeNode) {
        let text = match &node.value {
            TreeValue::Text(text) | TreeValue::Number(text) => Some(text.clone()),
            _ => None,
        };
        self.places.insert(path.into(), WrittenValue { at: node.at, text });
    }

    /// Records that the file says `shown` for what is at `path` by the spec.
    pub(crate) fn alias(&mut self, path: impl Into<String>, shown: impl Into<String>) {
        self.aliases.insert(path.into(), shown.into());
    }

    /// The path by which the author of the file knows what is at `path` by the spec.
    pub(crate) fn shown(&self, path: &str) -> String {
        let alias = around(path).find_map(|outer| Some((self.aliases.get(outer)?, path.get(outer.len()..)?)));
        let path = alias.map_or_else(|| path.to_owned(), |(shown, rest)| format!("{shown}{rest}"));
        // A short form, such as `http` in a list of ports, is the one field that it gives.
        let Some((outer, field)) = path.rsplit_once('.') else { return path };
        let is_single = self.places.get(outer).is_some_and(|written| written.text.is_some());
        if is_single && SHORT_FORMS.contains(&field) { outer.to_owned() } else { path }
    }

    /// A single value at `path`, as it is written.
    pub(crate) fn written(&self, path: &str) -> Option<&str> {
        self.places.get(path)?.text.as_deref()
    }

    /// The fields of a map. An unknown field is a problem.
    pub(crate) fn fields<'n>(&mut self, item: &FileItem<'n>, accepted: &[&str]) -> Option<MapFields<'n>> {
        let TreeValue::Map(entries) = &item.node.value else {
            // The whole file has too many fields for one line.
            let fields = if item.path.is_empty() {
                "at least name and task; the fields: borough explain".to_owned()
            } else {
                accepted.join(", ")
            };
            self.refuse(item, &format!("a map with {fields}"));
            return None;
        };
        self.twice(&item.path, entries);
        for (key, node) in entries {
            if accepted.contains(&key.text.as_str()) {
                self.placed(path_within(&item.path, &key.text), node);
            } else {
                self.unknown(&item.path, key, entries, accepted);
            }
        }
        Some(MapFields { entries, path: item.path.clone() })
    }

    fn unknown(&mut self, outer: &str, key: &TreeKey, entries: &[(TreeKey, TreeNode)], accepted: &[&str]) {
        let within = if outer.is_empty() { String::new() } else { format!(" in {outer}") };
        // The words of other systems are near to some of ours by chance.
        let own = own_field(&key.text);
        let elsewhere = own_path(outer, &key.text);
        let own = elsewhere.as_deref().map(OwnField::Is).or(own);
        let near = match own {
            Some(OwnField::Is(path)) => path.rsplit('.').next().filter(|name| accepted.contains(name)),
            Some(OwnField::Absent(_)) => None,
            None => nearest(&key.text, accepted),
        };
        let near_elsewhere =
            if own.is_none() && near.is_none() { own_path_near(outer, &key.text) } else { None };
        let own = near_elsewhere.as_deref().map(OwnField::Is).or(own);
        let guess = match (near, own) {
            (Some(near), _) => {
                if !entries.iter().any(|(key, _)| key.text == near) {
                    self.unread.insert(path_within(outer, near));
                }
                format!(", did you mean {near:?}?")
            }
            // An item of a list has amounts and commands of its own: those of the task are no help to it.
            (None, Some(OwnField::Is(_))) if outer.ends_with(']') => {
                format!("; accepted: {}", accepted.join(", "))
            }
            (None, Some(OwnField::Is(path))) if !outer.is_empty() && !path.contains('.') => {
                format!(", did you mean {path:?} at the top of the file?")
            }
            // One cannot mean the field that one is in.
            (None, Some(OwnField::Is(path))) if path == outer => {
                format!("; accepted: {}", accepted.join(", "))
            }
            (None, Some(OwnField::Is(path))) => format!(", did you mean {path:?}?"),
            (None, Some(OwnField::Absent(instead))) => format!(": {instead}"),
            (None, None) => format!("; accepted: {}", accepted.join(", ")),
        };
        self.problems.push(Problem::at(key.at, format!("unknown field {:?}{within}{guess}", key.text)));
    }

    /// Refuses keys that a map has twice. The first value counts.
    fn twice(&mut self, outer: &str, entries: &[(TreeKey, TreeNode)]) {
        for (key, problem) in duplicates(entries) {
            self.unread.insert(path_within(outer, &key.text));
            self.problems.push(problem);
        }
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
        self.twice(&item.path, entries);
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
        items.iter().map(|item| self.text(item).unwrap_or_else(text_stand_in)).collect()
    }

    /// A map of texts.
    pub(crate) fn text_map(&mut self, item: &FileItem<'_>) -> BTreeMap<String, String> {
        let entries = self.entries(item, "a map of texts");
        let mut texts = BTreeMap::new();
        for (key, item) in entries {
            let text = self.text(&item).unwrap_or_else(text_stand_in);
            texts.entry(key.text.clone()).or_insert(text);
        }
        texts
    }

    /// A name.
    pub(crate) fn name(&mut self, item: &FileItem<'_>) -> Option<Name> {
        let text = self.text(item)?;
        match Name::new(text.as_str()) {
            Ok(name) => Some(name),
            Err(error) => {
                // A longer one shows in its first characters which it is.
                let shown: String = text.chars().take(NAME_SHOWN_MAX).collect();
                let cut = if shown.len() < text.len() { "..." } else { "" };
                self.refuse_as(item, &format!("the name {shown:?}{cut} {error}"));
                None
            }
        }
    }

    /// A name, or another that no name of the file is like.
    pub(crate) fn name_or_stand_in(&mut self, item: &FileItem<'_>) -> Name {
        self.name(item).unwrap_or_else(|| self.name_stand_in())
    }

    /// The name in a field of a map that must have it.
    pub(crate) fn name_of(
        &mut self,
        outer: &FileItem<'_>,
        fields: &MapFields<'_>,
        field: &str,
        accepted: &str,
    ) -> Name {
        match fields.get(field) {
            Some(item) => self.name_or_stand_in(&item),
            None => {
                self.missing(outer, field, accepted);
                self.name_stand_in()
            }
        }
    }

    /// A name in place of one that could not be read.
    pub(crate) fn name_stand_in(&mut self) -> Name {
        self.stand_ins += 1;
        Name::stand_in(self.stand_ins)
    }

    /// A key that is a name, of the map `outer`. `path` is that of the name in the spec.
    pub(crate) fn key_name(&mut self, outer: &FileItem<'_>, key: &TreeKey, path: &str) -> Name {
        Name::new(key.text.as_str()).unwrap_or_else(|error| {
            let message = format!("{}: the name {:?} {error}", outer.path, key.text);
            self.problems.push(Problem::at(key.at, message));
            self.unread.insert(path);
            self.name_stand_in()
        })
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
        self.word_of(item, words, &names.join(", "))
    }

    /// One of a few words of a field that accepts other values too.
    pub(crate) fn word_of<T: Copy>(
        &mut self,
        item: &FileItem<'_>,
        words: &[(&str, T)],
        accepted: &str,
    ) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let TreeValue::Text(text) = &item.node.value else {
            self.refuse(item, accepted);
            return None;
        };
        if let Some((_, value)) = words.iter().find(|(name, _)| name == text) {
            return Some(*value);
        }
        let guess = nearest(text, &names).map(|near| format!(", did you mean {near:?}?")).unwrap_or_default();
        self.refuse_as(item, &format!("{}{guess}; accepted: {accepted}", item.given()));
        None
    }
}

/// Fields that a short form gives in place of a map.
const SHORT_FORMS: [&str; 7] = ["name", "number", "port", "job", "attribute", "taint", "weight"];

/// A path, and then each path around it.
fn around(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |inner| inner.get(..inner.rfind(['.', '['])?))
}

/// A text in place of one that could not be read. It is also a number, so that a comparison can have it.
fn text_stand_in() -> String {
    "0".to_owned()
}
