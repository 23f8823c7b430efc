//! Text of others: tenants, nodes, servers. A terminal acts on some characters, so none of them may reach it.
//!
//! Views keep such text as [`Foreign`]. Its `Display` escapes control characters, line ends, and characters that
//! reorder or hide text; JSON and YAML contain it unchanged. Views have no other way to show it, so no verb can forget
//! the escapes.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use serde::Serialize;

/// Text of somebody else. Displayed, it is one line without active characters; serialised, it is unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub(crate) struct Foreign(String);

impl Foreign {
    /// The unchanged text, for comparisons. Never show it.
    pub(crate) fn raw(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<String> for Foreign {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Foreign {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl PartialEq<str> for Foreign {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Foreign {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl PartialOrd<str> for Foreign {
    fn partial_cmp(&self, other: &str) -> Option<Ordering> {
        Some(self.0.as_str().cmp(other))
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&line_shown(&self.0))
    }
}

/// Characters that a terminal acts on or hides: control characters (C0, DEL, C1), line and paragraph separators, marks
/// that reorder text, characters without width, and tags.
fn is_active(each: char) -> bool {
    matches!(each,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

/// One line with active characters as escapes, such as `\n` or `\u{1b}`.
pub(crate) fn line_shown(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Lines of our own: as [`line_shown`], with line ends kept.
pub(crate) fn lines_shown(text: &str) -> Cow<'_, str> {
    escaped(text, |each| each == '\n')
}

/// The same with colours kept. Only [`super::Style::paint`] and the heads of tables add those, after foreign text was
/// escaped.
pub(crate) fn painted_shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        let (before, from) = rest.split_at(at);
        out.push_str(&lines_shown(before));
        match colour_length(from) {
            Some(length) => {
                out.push_str(from.get(..length).unwrap_or_default());
                rest = from.get(length..).unwrap_or_default();
            }
            None => {
                out.push_str("\\u{1b}");
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    out.push_str(&lines_shown(rest));
    out
}

/// The length of the colour sequence at the beginning of `text`, such as `\x1b[31m`; `None` for any other sequence.
fn colour_length(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("\x1b[")?;
    let digits = inner.find(|each: char| !each.is_ascii_digit() && each != ';')?;
    (inner.as_bytes().get(digits) == Some(&b'm')).then(|| digits.saturating_add(3))
}

/// JSON with active characters in its strings as `\uXXXX`: the same value, and nothing for a terminal to act on.
pub(crate) fn json_shown(json: &str) -> Cow<'_, str> {
    let active = |each: char| is_active(each) && each != '\n';
    if !json.chars().any(active) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    for each in json.chars() {
        if active(each) {
            for unit in each.encode_utf16(&mut [0; 2]) {
                // Writing to a text cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(each);
        }
    }
    Cow::Owned(out)
}

fn escaped(text: &str, kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|each| is_active(each) && !kept(each)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for each in text.chars() {
        if is_active(each) && !kept(each) {
            out.extend(each.escape_default());
        } else {
            out.push(each);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_shown() {
        for (text, shown) in [
            ("plain, é, 漢字, 🙂", "plain, é, 漢字, 🙂"),
            ("\x1b[2J\x1b]0;title\x07", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            ("a\r\nall is well", "a\\r\\nall is well"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("user\u{202e}nimda", "user\\u{202e}nimda"),
            ("a\u{2066}b\u{200b}c\u{2028}d\u{e0041}", "a\\u{2066}b\\u{200b}c\\u{2028}d\\u{e0041}"),
        ] {
            assert_eq!(Foreign::from(text).to_string(), shown);
            assert_eq!(serde_json::to_value(Foreign::from(text)).unwrap(), text, "JSON has the text itself");
        }
        assert_eq!(format!("[{:4}]", Foreign::from("a")), "[a   ]", "it can be aligned");
    }

    #[test]
    fn colours_are_kept_and_nothing_else() {
        let text = "\x1b[1;31mred\x1b[0m \x1b[2J \x1b[31 \x1b]8;;x\x07\nnext\x1b";
        let shown = "\x1b[1;31mred\x1b[0m \\u{1b}[2J \\u{1b}[31 \\u{1b}]8;;x\\u{7}\nnext\\u{1b}";
        assert_eq!(painted_shown(text), shown);
        assert_eq!(lines_shown("\x1b[1mx\ny"), "\\u{1b}[1mx\ny");
    }

    proptest! {
        #[test]
        fn nothing_active_is_left(text in any::<String>()) {
            prop_assert!(!line_shown(&text).chars().any(is_active));
            prop_assert!(!lines_shown(&text).chars().any(|each| is_active(each) && each != '\n'));
            let json = serde_json::to_string(&text).unwrap();
            let shown = json_shown(&json);
            prop_assert!(!shown.chars().any(is_active));
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }
    }
}
