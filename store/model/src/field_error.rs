//! Which fields of a spec or of a report cannot be accepted, each with its value and what would be accepted.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::unread::UnreadFields;

/// Most milliseconds of any delay, pause or grace: an hour.
pub(crate) const DELAY_MS_MAX: u64 = 3_600_000;
/// Characters of a refused value that an error repeats.
const VALUE_CHARACTERS_MAX: usize = 80;
const KEY_BYTES_MAX: usize = 128;
const LINE_BYTES_MAX: usize = 256;
/// Errors that an answer lists; it counts the others, because an answer has a limited size.
const ERRORS_MAX: usize = 50;

/// A field that cannot be admitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {value}; accepted: {accepted}")]
pub struct FieldError {
    /// Where: `task.ports[1].name`.
    pub path: String,
    /// What it has, cut where it is long.
    pub value: String,
    /// What would be accepted.
    pub accepted: String,
}

/// The refused fields so far.
#[derive(Default)]
pub(crate) struct FieldErrors {
    errors: Vec<FieldError>,
    untold: usize,
    /// Fields with stand-ins, because their file could not be read there.
    unread: UnreadFields,
    /// Takes the errors that follow from a stand-in.
    ignored: Option<Box<FieldErrors>>,
}

impl FieldErrors {
    /// For a spec with stand-ins in place of unread fields.
    pub(crate) fn beside(unread: &UnreadFields) -> Self {
        Self { unread: unread.clone(), ..Self::default() }
    }

    /// The fields with stand-ins. None if the whole spec was read.
    pub(crate) fn unread(&self) -> &UnreadFields {
        &self.unread
    }

    pub(crate) fn done(mut self) -> Result<(), Vec<FieldError>> {
        if self.untold > 0 {
            let value = format!("{} more errors", self.untold);
            let accepted = "mend those above first".to_owned();
            self.errors.push(FieldError { path: "(and so on)".to_owned(), value, accepted });
        }
        if self.errors.is_empty() { Ok(()) } else { Err(self.errors) }
    }

    /// Refuses a field.
    pub(crate) fn refuse(&mut self, path: &str, value: impl Display, accepted: impl Into<String>) {
        if self.errors.len() >= ERRORS_MAX {
            self.untold += 1;
            return;
        }
        let whole = value.to_string();
        let mut value: String = whole.chars().take(VALUE_CHARACTERS_MAX).collect();
        if value.len() < whole.len() {
            value.push_str("...");
        }
        self.errors.push(FieldError { path: path.to_owned(), value, accepted: accepted.into() });
    }

    /// Refuses a field unless it is `fine`.
    pub(crate) fn require(
        &mut self,
        fine: bool,
        path: &str,
        value: impl Display,
        accepted: impl Into<String>,
    ) {
        if !fine {
            self.refuse(path, value, accepted);
        }
    }

    /// For checks of a field beside `others`, which are named as in a job file. An error that follows from an unread
    /// field is not told.
    pub(crate) fn related<S: AsRef<str>>(&mut self, others: &[S]) -> &mut Self {
        let is_made_up = others.iter().any(|other| self.unread.covers(other.as_ref()));
        if is_made_up { self.ignored.get_or_insert_default() } else { self }
    }

    /// A delay between `least` and an hour.
    pub(crate) fn delay(&mut self, path: &str, delay_ms: u64, least: u64) {
        let accepted = format!("{} to {}", delay_text(least), delay_text(DELAY_MS_MAX));
        self.require((least..=DELAY_MS_MAX).contains(&delay_ms), path, delay_ms, accepted);
    }

    /// A text that is passed to a program: no NUL.
    pub(crate) fn argument(&mut self, path: &str, text: &str) {
        self.require(!text.contains('\0'), path, format!("{text:?}"), "a text without NUL characters");
    }

    /// The key of a label or attribute.
    pub(crate) fn key(&mut self, path: &str, key: &str) {
        let accepted = "1 to 128 of a-z, A-Z, 0-9, '.', '_', '/' and '-', starting with a letter or digit";
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
        let begins = key.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        let fine = begins && key.len() <= KEY_BYTES_MAX && key.bytes().all(inner);
        self.require(fine, path, format!("{key:?}"), accepted);
    }

    /// The value of a label: a short text on one line.
    pub(crate) fn line(&mut self, path: &str, text: &str) {
        self.line_within(path, text, LINE_BYTES_MAX);
    }

    /// A text on one line of at most `most` bytes.
    pub(crate) fn line_within(&mut self, path: &str, text: &str, most: usize) {
        let fine = text.len() <= most && !text.chars().any(moves_text);
        let accepted = format!("at most {most} bytes on one line, without control or direction characters");
        self.require(fine, path, format!("{text:?}"), accepted);
    }

    /// At most `most` labels.
    pub(crate) fn labels(&mut self, path: &str, labels: &BTreeMap<String, String>, most: usize) {
        self.require(
            labels.len() <= most,
            path,
            format!("{} entries", labels.len()),
            format!("at most {most}"),
        );
        for (key, value) in labels {
            let path = format!("{path}[{key:?}]");
            self.key(&path, key);
            self.line(&path, value);
        }
    }

    /// The name of an environment variable.
    pub(crate) fn variable(&mut self, path: &str, name: &str) {
        let accepted = "letters, digits and '_', not starting with a digit, nor with BOROUGH_ or PORT_";
        let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        let inner = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let reserved = name.starts_with("BOROUGH_") || name.starts_with("PORT_");
        self.require(begins && inner && !reserved, path, format!("{name:?}"), accepted);
    }
}

/// A delay in the largest unit of which it is a whole number, as a job file may have it.
pub(crate) fn delay_text(ms: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let whole = UNITS.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit) && ms > 0);
    match whole {
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None if ms == 0 => "0s".to_owned(),
        None => format!("{ms}ms"),
    }
}

/// Whether a character moves other text where it is shown: a control character, a separator of lines, or one that turns
/// the direction of writing.
fn moves_text(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
