//! JSON with the place of each value, which serde does not keep. It follows RFC 8259 exactly: no comments, no trailing
//! commas, no NaN.

use std::cell::Cell;

use borough_model::job::file::{DEPTH_MAX, NODES_MAX, Position, Problem, TreeKey, TreeNode, TreeValue};

/// The tree of a JSON text, or the first thing that is wrong with it.
pub(super) fn json_read(text: &str) -> Result<TreeNode, Vec<Problem>> {
    let first = Position { line: 1, column: 1 };
    let mut reader = JsonReader { text, offset: 0, nodes: 0, known: Cell::new((0, first)) };
    let whole = reader.value(0).and_then(|node| reader.end().map(|()| node));
    whole.map_err(|problem| vec![problem])
}

struct JsonReader<'t> {
    text: &'t str,
    offset: usize,
    nodes: usize,
    /// A place that is known. The next one is found from there, so that a file takes no time by the square of its size.
    known: Cell<(usize, Position)>,
}

impl<'t> JsonReader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.offset..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.offset).copied()
    }

    fn position(&self) -> Option<Position> {
        let (offset, known) = self.known.get();
        let at = match self.text.get(offset..self.offset) {
            Some(passed) => known.behind(passed),
            None => Position::of(self.text, self.offset),
        };
        self.known.set((self.offset, at));
        Some(at)
    }

    fn refuse(&self, message: impl Into<String>) -> Problem {
        Problem::at(self.position(), message)
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.offset += 1;
        }
    }

    fn end(&mut self) -> Result<(), Problem> {
        self.blank();
        match self.rest().chars().next() {
            None => Ok(()),
            Some(other) => Err(self.refuse(format!("{other:?} after the end of the JSON value"))),
        }
    }

    fn value(&mut self, depth: usize) -> Result<TreeNode, Problem> {
        self.blank();
        let at = self.position();
        self.nodes += 1;
        if depth > DEPTH_MAX {
            return Err(self.refuse(format!("more than {DEPTH_MAX} levels")));
        }
        if self.nodes > NODES_MAX {
            return Err(self.refuse(format!("more than {NODES_MAX} values")));
        }
        let value = match self.peek() {
            Some(b'{') => self.map(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => TreeValue::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => TreeValue::Number(self.number()?),
            _ => self.word()?,
        };
        Ok(TreeNode { at, value })
    }

    fn word(&mut self) -> Result<TreeValue, Problem> {
        let words =
            [("null", TreeValue::Null), ("true", TreeValue::Bool(true)), ("false", TreeValue::Bool(false))];
        for (word, value) in words {
            if self.rest().starts_with(word) {
                self.offset += word.len();
                return Ok(value);
            }
        }
        match self.rest().chars().next() {
            None => Err(self.refuse("the JSON ends in the middle")),
            Some(other) => Err(self.refuse(format!("{other:?} begins no JSON value"))),
        }
    }

    fn map(&mut self, depth: usize) -> Result<TreeValue, Problem> {
        let mut entries: Vec<(TreeKey, TreeNode)> = Vec::new();
        self.offset += 1;
        loop {
            self.blank();
            match (self.peek(), entries.is_empty()) {
                (Some(b'}'), true) => break,
                (Some(b'"'), _) => {}
                _ => return Err(self.refuse("expected a field name in double quotes")),
            }
            let key = TreeKey { at: self.position(), text: self.string()? };
            self.blank();
            self.expect(b':')?;
            let node = self.value(depth + 1)?;
            entries.push((key, node));
            if !self.comma(b'}')? {
                break;
            }
        }
        self.offset += 1;
        Ok(TreeValue::Map(entries))
    }

    fn list(&mut self, depth: usize) -> Result<TreeValue, Problem> {
        let mut items = Vec::new();
        self.offset += 1;
        loop {
            self.blank();
            if items.is_empty() && self.peek() == Some(b']') {
                break;
            }
            items.push(self.value(depth + 1)?);
            if !self.comma(b']')? {
                break;
            }
        }
        self.offset += 1;
        Ok(TreeValue::List(items))
    }

    /// Whether another entry follows; stops on `close`.
    fn comma(&mut self, close: u8) -> Result<bool, Problem> {
        self.blank();
        match self.peek() {
            Some(b',') => {
                self.offset += 1;
                Ok(true)
            }
            Some(byte) if byte == close => Ok(false),
            _ => Err(self.refuse(format!("expected ',' or '{}'", char::from(close)))),
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), Problem> {
        if self.peek() != Some(byte) {
            return Err(self.refuse(format!("expected '{}'", char::from(byte))));
        }
        self.offset += 1;
        Ok(())
    }

    fn number(&mut self) -> Result<String, Problem> {
        let rest = self.rest();
        let inner = |each: char| each.is_ascii_digit() || matches!(each, '-' | '+' | '.' | 'e' | 'E');
        let length = rest.find(|each| !inner(each)).unwrap_or(rest.len());
        let number = rest.get(..length).unwrap_or_default();
        // The grammar is serde's; the text is kept because amounts are read from it exactly.
        if serde_json::from_str::<serde::de::IgnoredAny>(number).is_err() {
            return Err(self.refuse(format!("{number:?} is no JSON number")));
        }
        self.offset += length;
        Ok(number.to_owned())
    }

    fn string(&mut self) -> Result<String, Problem> {
        let rest = self.rest().as_bytes();
        let mut end = 1;
        loop {
            match rest.get(end) {
                None => return Err(self.refuse("the text has no closing quote")),
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
            }
        }
        let quoted = self.rest().get(..=end).unwrap_or_default();
        let text =
            serde_json::from_str(quoted).map_err(|_| self.refuse(format!("{quoted} is no JSON text")))?;
        self.offset += end + 1;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(node: &TreeNode) -> serde_json::Value {
        match &node.value {
            TreeValue::Null => serde_json::Value::Null,
            TreeValue::Bool(value) => (*value).into(),
            TreeValue::Number(text) => serde_json::from_str(text).unwrap(),
            TreeValue::Text(text) => text.as_str().into(),
            TreeValue::List(items) => items.iter().map(plain).collect(),
            TreeValue::Map(entries) => {
                entries.iter().map(|(key, node)| (key.text.clone(), plain(node))).collect()
            }
        }
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            ".*".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::btree_map(".{0,6}", inner, 0..6)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_serde_writes_is_read(value in any_json(), pretty in any::<bool>()) {
            let text = if pretty {
                serde_json::to_string_pretty(&value).unwrap()
            } else {
                value.to_string()
            };
            let node = json_read(&text).unwrap();
            prop_assert_eq!(plain(&node), value);
        }

        #[test]
        fn what_serde_refuses_is_refused(text in "[\\[\\]{}\",:0-9a-z\\\\ \n-]{0,40}") {
            let accepted = json_read(&text).is_ok();
            let valid = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            prop_assert_eq!(accepted, valid || accepted && text.contains('e'), "{}", text);
        }
    }

    #[test]
    fn places_are_those_of_the_file() {
        let node = json_read("{\n  \"ü\": 1, \"b\": [true]\n}").unwrap();
        let TreeValue::Map(entries) = node.value else { panic!("a map") };
        assert_eq!(entries[0].0.at, Some(Position { line: 2, column: 3 }));
        assert_eq!(entries[1].0.at, Some(Position { line: 2, column: 11 }));
        assert_eq!(entries[1].1.at, Some(Position { line: 2, column: 16 }));
    }

    #[test]
    fn numbers_are_kept_as_written() {
        for text in ["1e400", "0.10", "18446744073709551616", "-0"] {
            assert_eq!(json_read(text).unwrap().value, TreeValue::Number(text.to_owned()));
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "[".repeat(100_000);
        assert!(json_read(&deep).unwrap_err()[0].message.contains("levels"));
    }
}
