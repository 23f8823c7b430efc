//! Help on the fields of a job file, from their definition and from their schemas.

use serde::Serialize;
use serde_json::Value;

use super::foreign_field::{OwnField, own_field};
use super::schema::plain;
use super::suggest::nearest;
use super::{FieldInfo, fields_flat};
use crate::job::JobSpec;

/// Fields that an error lists at most.
const LISTED_MAX: usize = 40;

/// What a user may know about one field. Texts are plain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldHelp {
    /// Where: `task.resources.cpu`. Lists and maps by a free key are passed: `ports.number`.
    pub path: String,
    /// The type of its values, with the unit and the bounds.
    pub kind: String,
    pub meaning: String,
    /// The accepted values, if type and meaning do not say it all; else empty.
    pub accepted: String,
    /// What its absence means; empty if a file must have it.
    pub default: String,
    /// Whether a file must have it.
    pub required: bool,
    pub example: Option<Value>,
    #[serde(rename = "fields")]
    pub inner: Vec<FieldHelp>,
}

/// No field has this path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no field {path:?} in a job file{}", self.right())]
pub struct HelpError {
    pub path: String,
    /// The field that may be meant.
    pub near: Option<String>,
    /// The fields at the place where the path ends.
    pub accepted: Vec<String>,
    /// What is done instead, for a field of other systems that this one has not.
    pub instead: Option<&'static str>,
}

impl HelpError {
    /// What would be right: the near field, or all at the place.
    fn right(&self) -> String {
        match (&self.near, self.instead) {
            (Some(near), _) => format!(", did you mean {near:?}?"),
            (None, Some(instead)) => format!(": {instead}"),
            (None, None) => format!("; accepted: {}", self.accepted.join(", ")),
        }
    }
}

/// The help on a field, or on the whole file for an empty path. A path may have indexes, as errors have:
/// `task.ports[1].name`.
///
/// # Errors
/// No field has this path.
pub fn field_help(path: &str) -> Result<FieldHelp, HelpError> {
    field_help_beside(path, None)
}

/// The same for a file that may have one more field.
pub(crate) fn field_help_beside(path: &str, beside: Option<FieldHelp>) -> Result<FieldHelp, HelpError> {
    let mut found = FieldHelp {
        path: String::new(),
        kind: "a map".to_owned(),
        meaning: "A job file describes one job.".to_owned(),
        accepted: String::new(),
        default: String::new(),
        required: false,
        example: None,
        inner: infos_help("", JobSpec::file_fields()),
    };
    found.inner.extend(beside);
    let all = found.clone();
    let is_index = |name: &&str| name.is_empty() || name.bytes().all(|byte| byte.is_ascii_digit());
    let names = path.split(['.', '[', ']', '"']).filter(|name| !is_index(name));
    for name in names {
        let known = found.inner.iter().position(|field| field.name() == name);
        match known {
            Some(at) => found = found.inner.swap_remove(at),
            None => return Err(unknown(path, name, &found, &all)),
        }
    }
    Ok(found)
}

impl FieldHelp {
    /// The value that a file without the field stands for; `None` if its default is no single value. A map that takes
    /// its default whole has those of its fields.
    pub fn default_value(&self) -> Option<Value> {
        if self.required || self.default.is_empty() {
            return None;
        }
        if self.is_message() {
            let is_named = |field: &&FieldHelp| !matches!(field.default.as_str(), "" | "0" | "none");
            let own: Vec<&FieldHelp> = self.inner.iter().filter(is_named).collect();
            let defaults: Vec<&str> = own.iter().map(|field| field.default.as_str()).collect();
            let values: Option<serde_json::Map<String, Value>> =
                own.iter().map(|field| Some((field.name().to_owned(), field.default_value()?))).collect();
            return values.filter(|_| defaults.join(", ") == self.default).map(Value::Object);
        }
        let is_number = self.kind.starts_with("a whole number") || self.default.parse::<u32>().is_ok();
        match self.default.as_str() {
            "true" => Some(true.into()),
            "false" => Some(false.into()),
            default if is_number => default.parse::<u32>().ok().map(Value::from),
            default if default.contains([' ', ',', ';']) || default == "none" => None,
            default if default.starts_with(|first: char| first.is_ascii_digit()) => Some(default.into()),
            default => self.words().any(|word| word == default).then(|| default.into()),
        }
    }

    /// The words that its type lists.
    fn words(&self) -> impl Iterator<Item = &str> {
        self.kind.split([',', ' ']).filter(|word| !word.is_empty())
    }

    /// Whether it is one map with fields, and no list or map of such.
    pub(crate) fn is_message(&self) -> bool {
        !self.inner.is_empty() && self.kind == "a map"
    }

    /// The last part of its path.
    pub fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// The fields below it, in their order, each before those within it.
    pub fn below(&self) -> Vec<&FieldHelp> {
        self.inner.iter().flat_map(|field| std::iter::once(field).chain(field.below())).collect()
    }
}

fn unknown(path: &str, name: &str, place: &FieldHelp, all: &FieldHelp) -> HelpError {
    let names: Vec<&str> = place.inner.iter().map(FieldHelp::name).collect();
    let below = all.below();
    let elsewhere = || below.iter().find(|field| field.name() == name).map(|field| field.path.clone());
    let (foreign, instead) = match own_field(name) {
        Some(OwnField::Is(path)) => (Some(path.to_owned()), None),
        Some(OwnField::Absent(instead)) => (None, Some(instead)),
        None => (None, None),
    };
    let near = || nearest(name, &names).map(|near| within(&place.path, near)).or_else(elsewhere);
    let near = if instead.is_some() { None } else { foreign.or_else(near) };
    let mut accepted: Vec<String> = names.into_iter().map(|name| within(&place.path, name)).collect();
    if accepted.is_empty() {
        accepted.push(format!("{} alone, which has no fields", place.path));
    }
    accepted.truncate(LISTED_MAX);
    HelpError { path: path.to_owned(), near, accepted, instead }
}

/// The help on fields below `outer`.
pub(crate) fn infos_help(outer: &str, fields: &'static [FieldInfo]) -> Vec<FieldHelp> {
    fields_flat(fields).into_iter().map(|field| info_help(outer, field)).collect()
}

fn info_help(outer: &str, field: &'static FieldInfo) -> FieldHelp {
    let path = within(outer, field.file);
    let schema = (field.schema)();
    let inner = match field.inner {
        Some(inner) => infos_help(&path, inner),
        None => properties_help(&path, &schema),
    };
    let (meaning, accepted) = (plain(field.meaning), plain(field.value));
    // What a refusal names as accepted may be the meaning once more.
    let says_more = field.says_more() && !meaning.contains(&accepted);
    FieldHelp {
        kind: kind_text(&schema),
        accepted: if says_more { accepted } else { String::new() },
        meaning,
        default: if field.required { String::new() } else { plain(field.default) },
        required: field.required,
        example: field.example.map(|example| example()),
        inner,
        path,
    }
}

/// The fields of a map that is read by hand. Its schema says what they mean.
fn properties_help(outer: &str, schema: &Value) -> Vec<FieldHelp> {
    let Some(map) = map_within(schema) else { return Vec::new() };
    let required = |name: &str| {
        let names = map["required"].as_array();
        names.is_some_and(|names| names.iter().any(|required| required == name))
    };
    let field = |(name, schema): (&String, &Value)| {
        let path = within(outer, name);
        let text = schema["description"].as_str().unwrap_or_default();
        let required = required(name);
        let absent = if required { "" } else { "none" };
        let (meaning, default) = text.split_once(" Default: ").unwrap_or((text, absent));
        FieldHelp {
            kind: kind_text(schema),
            meaning: meaning.to_owned(),
            accepted: String::new(),
            default: default.to_owned(),
            required,
            example: None,
            inner: properties_help(&path, schema),
            path,
        }
    };
    map["properties"].as_object().into_iter().flatten().map(field).collect()
}

/// The map with named fields among the forms of a value, or of the items of a list or map.
fn map_within(schema: &Value) -> Option<&Value> {
    if schema["properties"].is_object() {
        return Some(schema);
    }
    let forms = schema["anyOf"].as_array().into_iter().flatten();
    let items = [&schema["items"], &schema["additionalProperties"]];
    forms.chain(items).filter(|inner| inner.is_object()).find_map(map_within)
}

/// The type of the values of a schema, in words.
fn kind_text(schema: &Value) -> String {
    let all = kinds(schema);
    let is_one = all.len() == 1;
    one_of(all.into_iter().map(|kind| if is_one { kind } else { apart(kind) }))
}

/// A type among several. The types of its own items are in brackets, so that nobody takes them for more forms.
fn apart(kind: String) -> String {
    let begin = ["a list of ", "a map to "].into_iter().find(|begin| kind.starts_with(begin));
    match begin.and_then(|begin| Some((begin, kind.strip_prefix(begin)?))) {
        Some((begin, items)) if items.contains(' ') => format!("{begin}({items})"),
        _ => kind,
    }
}

/// The types of the values of a schema: several if it accepts several.
fn kinds(schema: &Value) -> Vec<String> {
    if let Some(title) = schema["title"].as_str() {
        return vec![title.to_owned()];
    }
    if let Some(word) = schema["const"].as_str() {
        return vec![word.to_owned()];
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    if let Some(forms) = schema["anyOf"].as_array() {
        return forms.iter().flat_map(kinds).collect();
    }
    vec![match schema["type"].as_str().or_else(|| schema["type"][0].as_str()) {
        Some("integer") => whole_text(schema),
        Some("boolean") => "true or false".to_owned(),
        Some("array") => {
            format!("a list of {}", one_of(kinds(&schema["items"]).iter().map(|kind| plural(kind))))
        }
        Some("object") if schema["additionalProperties"].is_object() => {
            format!(
                "a map to {}",
                one_of(kinds(&schema["additionalProperties"]).iter().map(|kind| plural(kind)))
            )
        }
        Some("object") => "a map".to_owned(),
        Some("null") => "nothing".to_owned(),
        Some("number") => "a number".to_owned(),
        _ => "a text".to_owned(),
    }]
}

/// The type of the items of a list or map.
fn plural(kind: &str) -> String {
    match kind {
        "a text" => "texts".to_owned(),
        "a map" => "maps".to_owned(),
        "a number" => "numbers".to_owned(),
        other => other.to_owned(),
    }
}

fn whole_text(schema: &Value) -> String {
    let least = schema["minimum"].as_u64().unwrap_or(0);
    match schema["maximum"].as_u64().filter(|most| *most < u64::from(u32::MAX)) {
        Some(most) => format!("a whole number, {least} to {most}"),
        None => format!("a whole number from {least}"),
    }
}

/// `a, b or c`, each once.
fn one_of(words: impl IntoIterator<Item = String>) -> String {
    let mut all: Vec<String> = Vec::new();
    for word in words {
        if !all.contains(&word) {
            all.push(word);
        }
    }
    match all.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => all.concat(),
    }
}

fn within(outer: &str, name: &str) -> String {
    super::path_within(outer, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_says_what_it_means_and_what_it_takes() {
        let all = field_help("").unwrap();
        let below = all.below();
        assert!(below.len() > 120, "{}", below.len());
        for field in below {
            assert!(!field.meaning.is_empty() && !field.kind.is_empty(), "{field:?}");
            assert!(field.meaning.ends_with(['.', ')']) && !field.meaning.contains('`'), "{field:?}");
            assert!(!field.meaning.contains("illisecond"), "a job file has durations with units: {field:?}");
            assert_eq!(field_help(&field.path).as_ref(), Ok(field));
        }
    }

    #[test]
    fn a_field_has_its_type_unit_bounds_and_default() {
        let of = |path: &str| field_help(path).unwrap();
        let kind = |path: &str| of(path).kind;
        assert_eq!(kind("task.weight"), "a whole number, 1 to 255");
        assert_eq!(kind("drain_delay"), "a duration, 0s to 1h");
        assert_eq!(kind("lost_after"), "a duration, 1s to 24h");
        assert_eq!(kind("task.log.file_bytes"), "bytes, 4KiB to 1GiB");
        assert_eq!(kind("task.resources.cpu"), "cores, such as 2, 0.5 or 500m");
        assert_eq!(kind("restart.attempts"), "a whole number from 0 or unlimited");
        assert_eq!(kind("task.environment"), "a map to texts");
        let ports = "a list of (texts or maps) or a map to (a whole number, 1024 to 65535, auto or nothing)";
        assert_eq!(kind("task.ports"), ports);
        assert_eq!(kind("restart"), "always, on_failure, never or a map");
        assert_eq!(kind("kind"), "service, batch, daemon or alloc_set");
        assert_eq!(of("task.resources.memory").default, "64MiB");
        assert_eq!(of("task.health").default, "none: healthy while it runs; 5s, 2s, 3, 10s");
        assert!(of("name").required && of("roles.name").required && !of("count").required);
        assert_eq!(of("task.ports[1].name").path, "task.ports.name");
        assert_eq!(of("overrides[0].weight").path, "overrides.weight");
        assert_eq!(of("overrides.0.weight").path, "overrides.weight");
    }

    #[test]
    fn a_field_of_another_system_leads_to_its_own_or_says_what_is_done() {
        let refused = |path: &str| field_help(path).unwrap_err().to_string();
        assert_eq!(refused("replicas"), "no field \"replicas\" in a job file, did you mean \"count\"?");
        assert!(
            refused("image")
                .starts_with("no field \"image\" in a job file: a task runs a program of its node")
        );
        assert!(
            refused("spec.count").contains("a job file has its fields at the top"),
            "{}",
            refused("spec.count")
        );
    }

    #[test]
    fn a_wrong_field_names_the_near_one() {
        let near = |path: &str| field_help(path).unwrap_err().near;
        assert_eq!(near("task.helth").as_deref(), Some("task.health"));
        assert_eq!(near("cpu").as_deref(), Some("task.resources.cpu"));
        assert_eq!(near("task.resources.memroy").as_deref(), Some("task.resources.memory"));
        assert_eq!(near("nonsense"), None);
        let error = field_help("count.much").unwrap_err().to_string();
        assert_eq!(
            error,
            "no field \"count.much\" in a job file; accepted: count alone, which has no fields"
        );
        let error = field_help("preemption.nver").unwrap_err().to_string();
        let near = "did you mean \"preemption.never\"?";
        assert_eq!(error, format!("no field \"preemption.nver\" in a job file, {near}"));
    }
}
