//! Attribute keys and values as small numbers. A node's attributes take a few bytes, and a constraint compares numbers.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The keys and values of nodes, each with a number. They are never dropped, because operators and agents use few.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    numbers: BTreeMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
    /// Each text parsed as a number, for constraints that compare numbers.
    parsed: Vec<Option<Number>>,
}

/// A text parsed as a number. Integers compare exactly, others as floating point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    integer: Option<i64>,
    float: f64,
}

impl Number {
    /// Parses a text. `None` unless it is a finite number.
    pub(crate) fn parsed(text: &str) -> Option<Self> {
        let text = text.trim();
        let float: f64 = text.parse().ok().filter(|float: &f64| float.is_finite())?;
        Some(Self { integer: text.parse().ok(), float })
    }

    pub(crate) fn compared(self, other: Self) -> Ordering {
        match (self.integer, other.integer) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => self.float.partial_cmp(&other.float).unwrap_or(Ordering::Equal),
        }
    }
}

impl Texts {
    /// The number of a text. A new text gets the next number.
    pub(crate) fn interned(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = u32::try_from(self.parsed.len()).unwrap_or(u32::MAX);
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.numbers.insert(Arc::clone(&text), number);
        self.parsed.push(Number::parsed(&text));
        number
    }

    /// The number of a text, if any node has it.
    pub(crate) fn known(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    /// The text of a number.
    pub(crate) fn text(&self, number: u32) -> Option<&str> {
        self.texts.get(number as usize).map(|text| &**text)
    }

    /// The text of a number, parsed as a number.
    pub(crate) fn number(&self, number: u32) -> Option<Number> {
        self.parsed.get(number as usize).copied().flatten()
    }
}
