//! Kinds of fields. Each kind reads a value of a job file, checks it, and describes it as JSON Schema.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::defaults::PRIORITY_MAX;
use super::reader::{FieldReader, FileItem};
use super::tree::TreeValue;
use crate::field_error::{DELAY_MS_MAX, FieldErrors, delay_text};
use crate::id::Name;
use crate::job::{OnFailure, ResizeMode, ResizeSignal};
use crate::node::Within;
use crate::resource::bytes_parse;

/// How the values of a field are read, checked and described.
pub(crate) trait FieldKind<T> {
    /// The value of an item. Without one, the reader has recorded the problem.
    fn read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<T>;

    /// Refuses a value that cannot be admitted.
    fn check(&self, errors: &mut FieldErrors, path: &str, value: &T) {
        let _ = (errors, path, value);
    }

    /// The schema of the values that a job file may have.
    fn schema(&self) -> Value;
}

/// A field that may be absent.
impl<T, K: FieldKind<T>> FieldKind<Option<T>> for K {
    fn read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<Option<T>> {
        FieldKind::<T>::read(self, reader, item).map(Some)
    }

    fn check(&self, errors: &mut FieldErrors, path: &str, value: &Option<T>) {
        if let Some(value) = value {
            FieldKind::<T>::check(self, errors, path, value);
        }
    }

    fn schema(&self) -> Value {
        FieldKind::<T>::schema(self)
    }
}

/// A name of a user, a job, a port or a role.
pub(crate) struct NameText;

impl FieldKind<Name> for NameText {
    fn read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<Name> {
        reader.name(item)
    }

    fn schema(&self) -> Value {
        json!({"title": "a name", "type": "string", "pattern": "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"})
    }
}

/// A text. A YAML number is also a text, in its written form.
pub(crate) struct AnyText;

impl FieldKind<String> for AnyText {
    fn read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<String> {
        reader.text(item)
    }

    fn schema(&self) -> Value {
        text_schema()
    }
}

/// A text of one line, of at most so many bytes. An empty one is no text, as on the wire.
pub(crate) struct TextLine {
    pub(crate) most: usize,
}

impl FieldKind<String> for TextLine {
    fn read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<String> {
        reader.text(item).filter(|text| !text.is_empty())
    }

    fn check(&self, errors: &mut FieldErrors, path: &str, value: &String) {
        errors.line_within(path, value, self.most);
    }

    fn schema(&self) -> Value {
        let mut schema = text_schema();
        schema["maxLength"] = json!(self.most);
        schema
    }
}

/// The schema of a text.
pub(crate) fn text_schema() -> Value {
    json!({"type": ["string", "number"]})
}

/// A list of texts, such as a command. The field of the struct says what is accepted.
pub(crate) struct TextList(pub(crate) &'static str);

impl FieldKind<Vec<String>> for TextList {
    fn read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<Vec<String>> {
        Some(reader.texts(item, self.0))
    }

    fn schema(&self) -> Value {
        json!({"type": "array", "items": text_schema()})
    }
}

/// A map from texts to texts, such as the environment.
pub(crate) struct TextMap;

impl FieldKind<BTreeMap<String, String>> for TextMap {
    fn read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<BTreeMap<String, String>> {
        Some(reader.text_map(item))
    }

    fn schema(&self) -> Value {
        json!({"type": "object", "additionalProperties": text_schema()})
    }
}

/// Labels: keys, and values of one line.
pub(crate) struct Labels {
    pub(crate) most: usize,
}

impl FieldKind<BTreeMap<String, String>> for Labels {
    fn read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<BTreeMap<String, String>> {
        TextMap.read(reader, item)
    }

    fn check(&self, errors: &mut FieldErrors, path: &str, value: &BTreeMap<String, String>) {
        errors.labels(path, value, self.most);
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "maxProperties": self.most,
            "propertyNames": {"pattern": "^[a-zA-Z0-9][a-zA-Z0-9._/-]{0,127}$"},
            "additionalProperties": text_schema(),
        })
    }
}

/// A duration with its unit, in milliseconds.
pub(crate) struct Delay {
    least_ms: u64,
    most_ms: u64,
}

impl Delay {
    pub(crate) const fn of(least_ms: u64, most_ms: u64) -> Self {
        Self { least_ms, most_ms }
    }
}

impl FieldKind<u64> for Delay {
    fn read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<u64> {
        reader.duration(item)
    }

    fn check(&self, errors: &mut FieldErrors, path: &str, value: &u64) {
        let Self { least_ms, most_ms } = self;
        let accepted = format!("{} to {}", delay_text(*least_ms), delay_text(*most_ms));
        errors.require((least_ms..=most_ms).contains(&value), path, value, accepted);
    }

    fn schema(&self) -> Value {
        delay_schema_within(self.least_ms, self.most_ms)
    }
}

/// The schema of a duration from so many milliseconds, up to those of every delay.
pub(crate) fn delay_schema(least_ms: u64) -> Value {
    delay_schema_within(least_ms, DELAY_MS_MAX)
}

/// The schema of a duration between so many milliseconds.
pub(crate) fn delay_schema_within(least_ms: u64, most_ms: u64) -> Value {
    delay_schema_of(&format!("a duration, {} to {}", delay_text(least_ms), delay_text(most_ms)))
}

/// The schema of a duration without bounds.
pub(crate) fn delay_schema_any() -> Value {
    delay_schema_of("a duration")
}

fn delay_schema_of(title: &str) -> Value {
    let pattern = "^\\s*([0-9]+(\\.[0-9]+)?\\s*(ms|s|m|min|h|d)\\s*)+$";
    json!({"title": title, "type": "string", "pattern": pattern})
}

/// A whole number.
pub(crate) struct Whole {
    least: u32,
    most: u32,
    accepted: &'static str,
}

impl Whole {
    /// Within bounds.
    pub(crate) const fn of(least: u32, most: u32, accepted: &'static str) -> Self {
        Self { least, most, accepted }
    }

    /// Without bounds, or with a check of the field's own.
    pub(crate) const fn any(accepted: &'static str) -> Self {
        Self::of(0, u32::MAX, accepted)
    }
}

impl FieldKind<u32> for Whole {
    fn read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<u32> {
        reader.whole(item, self.accepted)
    }

    fn check(&self, errors: &mut FieldErrors, path: &str, value: &u32) {
        errors.require((self.least..=self.most).contains(value), path, value, self.accepted);
    }

    fn schema(&self) -> Value {
        json!({"type": "integer", "minimum": self.least, "maximum": self.most})
    }
}

/// An amount of bytes with its unit.
pub(crate) struct AmountOfBytes {
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) accepted: &'static str,
}

impl FieldKind<u64> for AmountOfBytes {
    fn read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<u64> {
        reader.amount(item, bytes_parse)
    }

    fn check(&self, errors: &mut FieldErrors, path: &str, value: &u64) {
        errors.require((self.least..=self.most).contains(value), path, value, self.accepted);
    }

    fn schema(&self) -> Value {
        let mut schema = bytes_schema();
        schema["title"] = json!(format!("bytes, {}", self.accepted));
        schema
    }
}

/// The schema of an amount of bytes.
pub(crate) fn bytes_schema() -> Value {
    amount_schema("bytes, such as 512k or 64MiB", "([kMGTP]|[KMGTP]i)?B?")
}

/// A number with a unit of the pattern `unit`, or without one.
pub(crate) fn amount_schema(title: &str, unit: &str) -> Value {
    let pattern = format!("^\\s*[0-9]+(\\.[0-9]+)?\\s*{unit}\\s*$");
    let forms = [json!({"type": "number", "minimum": 0}), json!({"type": "string", "pattern": pattern})];
    json!({"title": title, "anyOf": forms})
}

/// True or false.
pub(crate) struct Truth;

impl FieldKind<bool> for Truth {
    fn read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<bool> {
        reader.truth(item)
    }

    fn schema(&self) -> Value {
        json!({"type": "boolean"})
    }
}

/// One of a few words.
pub(crate) struct Words<T: 'static>(pub(crate) &'static [(&'static str, T)]);

/// A type with a word in job files for each value.
pub(crate) trait SpecWord: Copy {}

impl SpecWord for Within {}

impl SpecWord for OnFailure {}

impl SpecWord for ResizeMode {}

impl SpecWord for ResizeSignal {}

impl<T: SpecWord> FieldKind<T> for Words<T> {
    fn read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<T> {
        reader.word(item, self.0)
    }

    fn schema(&self) -> Value {
        words_schema(self.0)
    }
}

/// The schema that accepts exactly these words.
pub(crate) fn words_schema<T>(words: &[(&str, T)]) -> Value {
    json!({"enum": words.iter().map(|(word, _)| *word).collect::<Vec<_>>()})
}

/// A priority, or the name of a band, which means the lowest priority of the band.
pub(crate) struct Priority;

const PRIORITY_ACCEPTED: &str = "0 to 399, or best_effort, batch, production or monitoring";

const BANDS: [(&str, u32); 4] =
    [("best_effort", 0), ("batch", 100), ("production", 200), ("monitoring", 300)];

impl FieldKind<u32> for Priority {
    fn read(&self, reader: &mut FieldReader, item: &FileItem<'_>) -> Option<u32> {
        match item.node.value {
            TreeValue::Text(_) => reader.word_of(item, &BANDS, PRIORITY_ACCEPTED),
            _ => reader.whole(item, PRIORITY_ACCEPTED),
        }
    }

    fn check(&self, errors: &mut FieldErrors, path: &str, value: &u32) {
        let accepted = "0 to 399 (best effort 0–99, batch 100–199, production 200–299, monitoring 300–399)";
        errors.require(*value <= PRIORITY_MAX, path, value, accepted);
    }

    fn schema(&self) -> Value {
        json!({"anyOf": [{"type": "integer", "minimum": 0, "maximum": PRIORITY_MAX}, words_schema(&BANDS)]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T>(kind: &impl FieldKind<T>, value: T) -> Vec<String> {
        let mut errors = FieldErrors::default();
        kind.check(&mut errors, "field", &value);
        errors.done().err().into_iter().flatten().map(|error| error.to_string()).collect()
    }

    #[test]
    fn a_kind_takes_its_bounds_and_refuses_what_is_beyond() {
        let delay = Delay::of(10, 1_000);
        assert!(refused(&delay, 10).is_empty() && refused(&delay, 1_000).is_empty());
        assert_eq!(refused(&delay, 9), ["field: 9; accepted: 10ms to 1s"]);
        assert_eq!(refused(&delay, Some(1_001)), ["field: 1001; accepted: 10ms to 1s"]);
        assert!(refused(&delay, None::<u64>).is_empty(), "an absent field is not checked");
        let whole = Whole::of(1, 255, "1 to 255");
        assert!(refused(&whole, 1).is_empty() && refused(&whole, 255).is_empty());
        assert_eq!(refused(&whole, 256), ["field: 256; accepted: 1 to 255"]);
        let line = TextLine { most: 3 };
        assert!(refused(&line, "abc".to_owned()).is_empty());
        let accepted = "accepted: at most 3 bytes on one line, without control or direction characters";
        assert_eq!(refused(&line, "abcd".to_owned()), [format!("field: \"abcd\"; {accepted}")]);
        assert_eq!(refused(&line, "a\nb".to_owned()), [format!("field: \"a\\nb\"; {accepted}")]);
        let bytes = AmountOfBytes { least: 1, most: 2, accepted: "1B to 2B" };
        assert!(refused(&bytes, 2).is_empty());
        assert_eq!(refused(&bytes, 3), ["field: 3; accepted: 1B to 2B"]);
    }
}
