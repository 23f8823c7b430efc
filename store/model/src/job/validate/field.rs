//! Collecting what is wrong with single fields.

use std::fmt::Display;

use super::{DELAY_MS_MAX, FieldError};

const VALUE_CHARACTERS_MAX: usize = 80;
const KEY_BYTES_MAX: usize = 128;
const LINE_BYTES_MAX: usize = 256;

/// What is wrong so far.
#[derive(Default)]
pub(super) struct Fields {
    errors: Vec<FieldError>,
}

impl Fields {
    pub(super) fn done(self) -> Result<(), Vec<FieldError>> {
        if self.errors.is_empty() { Ok(()) } else { Err(self.errors) }
    }

    /// Refuses a field.
    pub(super) fn refuse(&mut self, path: &str, value: impl Display, accepted: impl Into<String>) {
        let value: String = value.to_string().chars().take(VALUE_CHARACTERS_MAX).collect();
        self.errors.push(FieldError { path: path.to_owned(), value, accepted: accepted.into() });
    }

    /// Refuses a field unless it is `fine`.
    pub(super) fn require(
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

    /// A delay between `least` and an hour.
    pub(super) fn delay(&mut self, path: &str, delay_ms: u64, least: u64) {
        let accepted = format!("{least} to {DELAY_MS_MAX} milliseconds");
        self.require((least..=DELAY_MS_MAX).contains(&delay_ms), path, delay_ms, accepted);
    }

    /// A text that is passed to a program: no NUL.
    pub(super) fn argument(&mut self, path: &str, text: &str) {
        self.require(!text.contains('\0'), path, format!("{text:?}"), "a text without NUL characters");
    }

    /// The key of a label or attribute.
    pub(super) fn key(&mut self, path: &str, key: &str) {
        let accepted = "1 to 128 of a-z, A-Z, 0-9, '.', '_', '/' and '-', starting with a letter or digit";
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
        let begins = key.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        let fine = begins && key.len() <= KEY_BYTES_MAX && key.bytes().all(inner);
        self.require(fine, path, format!("{key:?}"), accepted);
    }

    /// The value of a label or attribute: a short text on one line.
    pub(super) fn line(&mut self, path: &str, text: &str) {
        let fine = text.len() <= LINE_BYTES_MAX && !text.chars().any(char::is_control);
        self.require(fine, path, format!("{text:?}"), "at most 256 bytes without control characters");
    }

    /// The name of an environment variable.
    pub(super) fn variable(&mut self, path: &str, name: &str) {
        let accepted = "letters, digits and '_', not starting with a digit, nor with BOROUGH_ or PORT_";
        let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        let inner = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let reserved = name.starts_with("BOROUGH_") || name.starts_with("PORT_");
        self.require(begins && inner && !reserved, path, format!("{name:?}"), accepted);
    }
}
