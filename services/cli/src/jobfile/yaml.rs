//! YAML with the place of each value, within budgets: a small file with aliases cannot become a huge tree.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Location, Options, Spanned};

use borough_model::job::file::{DEPTH_MAX, NODES_MAX, Position, Problem, TreeKey, TreeNode, TreeValue};

/// The tree of a YAML text, or the first thing that is wrong with it.
pub(super) fn yaml_read(text: &str) -> Result<TreeNode, Vec<Problem>> {
    let read: Result<Raw, _> = serde_saphyr::from_str_with_options(text, options());
    match read {
        Ok(raw) => raw.node(&mut Conversion { text, nodes: 0 }, 0).map_err(|problem| vec![problem]),
        Err(error) => Err(vec![refusal(&error, text)]),
    }
}

fn options() -> Options {
    let mut budget = serde_saphyr::Budget::default();
    budget.max_depth = DEPTH_MAX + 8;
    budget.max_nodes = NODES_MAX;
    let mut options = Options::default();
    options.budget = Some(budget);
    // The reader of fields refuses them, beside all else that is wrong.
    options.duplicate_keys = DuplicateKeyPolicy::PassThrough;
    options.strict_booleans = true;
    options.with_snippet = false;
    // Infinity and NaN are refused with their field, as any text that is no amount.
    options.non_finite_float_policy = NonFiniteFloatPolicy::AsString;
    options
}

fn refusal(error: &serde_saphyr::Error, file: &str) -> Problem {
    let error = error.without_snippet();
    let at = error.location().and_then(position);
    let text = error.to_string();
    // The message begins with the place, so the library's own is cut off.
    let message = text.split(" at line ").next().unwrap_or(&text);
    let message = message.lines().next().unwrap_or_default().trim_end_matches([',', '.', ':']);
    let place = at.filter(|_| message.contains("unexpected character"));
    if let Some((place, character)) = place.and_then(|place| character_find(place, file)) {
        return Problem::at(Some(place), character_words(character));
    }
    let words = own_words(message);
    // The library says where it gave up, which may be far from the cause.
    let cause = match words.as_str() {
        TAB => tab_find(file),
        QUOTE => quote_open_find(file).map(|offset| (offset, QUOTE_OPEN)),
        _ => at.and_then(|at| space_missing_find(file, at.line)),
    };
    match cause {
        Some((offset, words)) => Problem::at(Some(Position::of(file, offset)), words.to_owned()),
        None => Problem::at(at, words),
    }
}

/// Said of a tab before the text of a line.
const TAB: &str = "a tab cannot indent YAML; use spaces";
/// Said of quotes if the library does not say more.
const QUOTE: &str = "a quote that is not closed, or a text that goes on behind one";
const QUOTE_OPEN: &str = "a quote that is not closed";

/// The first tab that indents a line.
fn tab_find(file: &str) -> Option<(usize, &'static str)> {
    let mut line_begin = 0;
    for line in file.split_inclusive('\n') {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        if line.get(spaces..)?.starts_with('\t') && !line.trim().is_empty() {
            return Some((line_begin + spaces, TAB));
        }
        line_begin += line.len();
    }
    None
}

/// Said of `count:3`, which is one word to YAML.
const SPACE: &str = "a space is missing after the colon; accepted: `name: value`";

/// The place behind the colon of the last field without a space, up to this line. What follows such a field is what the
/// library cannot read.
fn space_missing_find(file: &str, line_last: u32) -> Option<(usize, &'static str)> {
    let lines = file.split_inclusive('\n').take(usize::try_from(line_last).ok()?);
    let (mut line_begin, mut found) = (0_usize, None);
    for line in lines {
        let name = line.trim_start_matches([' ', '-']);
        let behind = name.trim_start_matches(|each: char| each.is_ascii_lowercase() || each == '_');
        let colon = line_begin.saturating_add(line.len().saturating_sub(behind.len()));
        let is_field = behind.len() < name.len();
        // `http://host` and `a::b` are texts.
        let value = behind.strip_prefix(':').filter(|value| is_field && !value.starts_with(['/', ':']));
        if value.is_some_and(|value| !value.starts_with(char::is_whitespace) && !value.is_empty()) {
            found = Some((colon.saturating_add(1), SPACE));
        }
        line_begin = line_begin.saturating_add(line.len());
    }
    found
}

/// The quote that is still open at the end of the file. A quote begins a text only where a value may begin.
fn quote_open_find(file: &str) -> Option<usize> {
    let (mut open, mut before, mut escaped) = (None, '\n', false);
    let mut is_comment = false;
    for (offset, character) in file.char_indices() {
        match open {
            _ if is_comment => is_comment = character != '\n',
            Some((_, '"')) if escaped => escaped = false,
            Some((_, '"')) if character == '\\' => escaped = true,
            Some((_, quote)) if character == quote => open = None,
            Some(_) => {}
            None if character == '#' && before.is_whitespace() => is_comment = true,
            None if matches!(character, '"' | '\'')
                && (before.is_whitespace() || "[{,(".contains(before)) =>
            {
                open = Some((offset, character));
            }
            None => {}
        }
        before = character;
    }
    open.map(|(offset, _)| offset)
}

/// The character that cannot stand in a text, and its place. The library says where the text begins.
fn character_find(at: Position, file: &str) -> Option<(Position, char)> {
    let first = at.character(file)?;
    let index = |number: u32| usize::try_from(number).ok()?.checked_sub(1);
    let lines_before = file.split_inclusive('\n').take(index(at.line)?).map(str::len).sum::<usize>();
    let from =
        file.get(lines_before..)?.char_indices().nth(index(at.column)?)?.0.checked_add(lines_before)?;
    let is_refused = |character: char| character.is_control() && !matches!(character, '\n' | '\r' | '\t');
    let found = file.get(from..)?.char_indices().find(|(_, character)| is_refused(*character));
    match found {
        Some((offset, character)) if !BEGINS_NO_TEXT.contains(&first) => {
            Some((Position::of(file, from.saturating_add(offset)), character))
        }
        _ => Some((at, first)),
    }
}

/// Characters that YAML keeps for itself at the beginning of a text.
const BEGINS_NO_TEXT: [char; 3] = ['@', '`', '%'];

/// Why a character cannot stand at its place.
fn character_words(character: char) -> String {
    if BEGINS_NO_TEXT.contains(&character) {
        return format!("{character:?} begins no text in YAML; put the text in quotes");
    }
    format!(
        "the character {} cannot stand in a text; accepted: its escape in double quotes, such as \\t or \\u0007",
        character.escape_default()
    )
}

/// What a part of the library's message means, in words for the author of a job file. The first that fits counts.
const OWN_WORDS: [(&[&str], &str); 14] = [
    (
        &["multiple YAML documents"],
        "a second YAML document begins here; accepted: one job, so put each into a file of its own",
    ),
    (&["unknown anchor"], "the alias names no anchor that stands before it"),
    (
        &["merge value"],
        "`<<` takes in the fields of maps; accepted: a map, an alias of one, or a list of these",
    ),
    (&["recursive references"], "the alias stands within the value of its own anchor"),
    (&["found a tab", "tabs disallowed", "tab cannot"], TAB),
    (
        &["unknown escape"],
        r#"an unknown escape in double quotes; accepted: \n, \t, \\, \" and other escapes of JSON"#,
    ),
    (&["surrogate", "hexadecimal", "Unicode"], "an escape in double quotes that names no character"),
    (&["quoted scalar", "unclosed quote", "quote"], QUOTE),
    (&["bracket", "flow ", "Flow"], "a bracket is not closed, or another one closes it"),
    (
        &["mapping values", "mapping keys", "illegal placement of ':'", "simple key"],
        "a colon is not expected here; indent fields alike, and put a text with a colon in quotes",
    ),
    (
        &["indent", "expected key", "'-' indicator", "expected node content", "block "],
        "the line is indented otherwise than those around it",
    ),
    (
        &["directive", "YAML major version", "version number"],
        "a line that begins with % is a directive; accepted: none, or %YAML 1.2",
    ),
    (&["!!binary", "tag", "TAG", "handle"], "a tag (!NAME) that cannot be read; accepted: no tags"),
    (&["expected string scalar"], "a key is a list or a map; accepted: the name of a field"),
];

/// The library's message in words for the author of a job file.
fn own_words(message: &str) -> String {
    let too_deep = ["depth", "recursion limit"].iter().any(|part| message.contains(part));
    if too_deep {
        return format!("more than {DEPTH_MAX} levels, lists and maps within one another");
    }
    if message.starts_with("budget breached") {
        return format!("more than {NODES_MAX} values once its aliases are expanded");
    }
    if message.contains("unexpected character") {
        return "a character that a text cannot have".to_owned();
    }
    let known = OWN_WORDS.iter().find(|(parts, _)| parts.iter().any(|part| message.contains(part)));
    let words =
        known.map_or("this is no YAML; accepted: fields as `name: value`, lists as `- item`", |(_, own)| own);
    words.to_owned()
}

fn position(location: Location) -> Option<Position> {
    let narrow = |number: u64| u32::try_from(number).ok().filter(|&number| number > 0);
    Some(Position { line: narrow(location.line())?, column: narrow(location.column())? })
}

/// A value as the library parses it.
struct Raw(Spanned<RawValue>);

enum RawValue {
    Null,
    Bool(bool),
    /// As the library read it. The source's own text is used if it is known.
    Number(String),
    Text(String),
    List(Vec<Raw>),
    Map(Vec<(Spanned<String>, Raw)>),
}

/// Converts the library's values to the tree.
struct Conversion<'t> {
    text: &'t str,
    nodes: usize,
}

impl Raw {
    fn node(self, conversion: &mut Conversion<'_>, depth: usize) -> Result<TreeNode, Problem> {
        let location = self.0.referenced;
        let at = position(location);
        conversion.nodes += 1;
        if let Some((offset, tag)) = tag_find(conversion.text, self.0.defined) {
            let text = format!("the tag {tag} means nothing in a job file; accepted: the value without it");
            return Err(Problem::at(Some(Position::of(conversion.text, offset)), text));
        }
        if depth > DEPTH_MAX {
            return Err(Problem::at(at, format!("more than {DEPTH_MAX} levels")));
        }
        if conversion.nodes > NODES_MAX {
            return Err(Problem::at(at, format!("more than {NODES_MAX} values")));
        }
        let value = match self.0.value {
            RawValue::Null => TreeValue::Null,
            RawValue::Bool(value) => TreeValue::Bool(value),
            RawValue::Number(read) => {
                TreeValue::Number(source(conversion.text, self.0.defined).unwrap_or(read))
            }
            RawValue::Text(text) => TreeValue::Text(text),
            RawValue::List(items) => {
                let items = items.into_iter().map(|item| item.node(conversion, depth + 1));
                TreeValue::List(items.collect::<Result<_, _>>()?)
            }
            RawValue::Map(entries) => {
                let entries = entries.into_iter().map(|(key, node)| {
                    let key = TreeKey { at: position(key.referenced), text: key.value };
                    Ok((key, node.node(conversion, depth + 1)?))
                });
                TreeValue::Map(entries.collect::<Result<_, Problem>>()?)
            }
        };
        Ok(TreeNode { at, value })
    }
}

/// Tags that say what a value is anyway.
const STANDARD_TAGS: [&str; 7] = ["!!str", "!!int", "!!float", "!!bool", "!!null", "!!seq", "!!map"];

/// The tag of a value, if it has one that is not of the standard, and its place. The library drops all of them.
fn tag_find(text: &str, value: Location) -> Option<(usize, &str)> {
    let begin = usize::try_from(value.span().byte_offset()?).ok()?;
    let (mut before, after) = text.split_at_checked(begin)?;
    let is_standard = |tag: &str| STANDARD_TAGS.contains(&tag);
    let word_end = |character: char| character.is_whitespace() || ",[]{}".contains(character);
    // The lines of a block begin with anything.
    let word_before = before.trim_end().rsplit(char::is_whitespace).next();
    let is_block = word_before.is_some_and(|word| word.starts_with(['|', '>']));
    if after.starts_with('!') && !is_block {
        let tag = after.split(word_end).next().filter(|tag| !is_standard(tag))?;
        return Some((begin, tag));
    }
    loop {
        before = before.trim_end();
        let word_begin = before.rfind(word_end).map_or(0, |at| at.saturating_add(1));
        let (rest, word) = before.split_at_checked(word_begin)?;
        // The words of a comment mean nothing. Few values have such a word before them, so few lines are searched.
        let is_comment = || rest.rsplit('\n').next().is_some_and(|line| line.contains('#'));
        match word.chars().next()? {
            '&' | '!' if is_comment() => return None,
            '&' => before = rest,
            '!' => return Some((word_begin, word)).filter(|(_, tag)| !is_standard(tag)),
            _ => return None,
        }
    }
}

/// The text of a number in the source, since amounts are read exactly.
fn source(text: &str, location: Location) -> Option<String> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok()?;
    let written = text.get(start..start.checked_add(length)?)?.trim();
    let plain = !written.is_empty() && !written.contains(['\n', '\'', '"', '*', '&', '!']);
    plain.then(|| written.to_owned())
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = RawValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<RawValue, E> {
        Ok(RawValue::Null)
    }

    fn visit_none<E>(self) -> Result<RawValue, E> {
        Ok(RawValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawValue, D::Error> {
        deserializer.deserialize_any(Self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<RawValue, E> {
        Ok(RawValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<RawValue, E> {
        Ok(RawValue::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<RawValue, E> {
        Ok(RawValue::Number(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<RawValue, E> {
        Ok(RawValue::Number(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<RawValue, E> {
        Ok(RawValue::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<RawValue, E> {
        Ok(RawValue::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<RawValue, E> {
        Ok(RawValue::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<RawValue, E> {
        Ok(RawValue::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RawValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(RawValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawValue, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(RawValue::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_without_a_space_is_named_at_its_colon() {
        let of = |text: &str| {
            let [problem] = <[Problem; 1]>::try_from(yaml_read(text).err().unwrap()).unwrap();
            (problem.at.map(|at| (at.line, at.column)), problem.message)
        };
        for text in ["name: web\ncount:3\n", "name: web\ncount:3\ntask: {command: [a]}\n"] {
            assert_eq!(of(text), (Some((2, 7)), SPACE.to_owned()), "{text}");
        }
        assert!(of("name: web: x\n").1.starts_with("a colon is not expected here"));
    }

    #[test]
    fn a_tag_is_refused_at_its_place_unless_it_says_what_the_value_is_anyway() {
        for (text, place, tag) in [
            ("name: !!python/object x\n", "1:7", "!!python/object"),
            ("name: x\ntask: &t !mine\n  command: [a]\n", "2:10", "!mine"),
            ("name: x\ntask: {command: [a, !env HOME]}\n", "2:21", "!env"),
        ] {
            let problems = yaml_read(text).unwrap_err();
            let [problem] = problems.as_slice() else { panic!("{problems:?}") };
            let words = format!("the tag {tag} means nothing in a job file; accepted: the value without it");
            assert_eq!((problem.at.unwrap().to_string(), &problem.message), (place.to_owned(), &words));
        }
        for fine in [
            "name: !!str x\ncount: !!int 3\n",
            "name: x # at last !now\ntask:\n  # so !\n  # what !ever\n  command: [a !b, c]\n",
            "name: a !b\nkind: '!x'\ntask: |\n  !no tag\n  x\n",
        ] {
            assert!(yaml_read(fine).is_ok(), "{fine}: {:?}", yaml_read(fine).err());
        }
    }

    #[test]
    fn what_is_no_yaml_is_refused_with_its_place_in_our_words() {
        let key = "a key is a list or a map; accepted: the name of a field";
        let cannot = "cannot stand in a text; accepted: its escape in double quotes, such as \\t or \\u0007";
        let quotes = "begins no text in YAML; put the text in quotes";
        for (text, place, words) in [
            ("name: a\n? [a]\n: b\n", "2:3", key.to_owned()),
            ("name: a\u{7}b\n", "1:8", format!("the character \\u{{7}} {cannot}")),
            ("name: \"a\u{1b}[31m\"\n", "1:9", format!("the character \\u{{1b}} {cannot}")),
            ("name: @web\n", "1:7", format!("'@' {quotes}")),
            ("name: `web`\n", "1:7", format!("'`' {quotes}")),
            ("name: x\n\ttask: {command: [a]}\n", "2:1", TAB.to_owned()),
            ("name: \"x\ntask: 3\n", "1:7", QUOTE_OPEN.to_owned()),
            ("name: it's # don't\ntask: {command: ['a\\', b]}\nkind: 'x\n", "3:7", QUOTE_OPEN.to_owned()),
            (
                "name: x\ntask: &t {command: [a], helpers: *t}\n",
                "2:34",
                "the alias stands within the value of its own anchor".to_owned(),
            ),
        ] {
            let problems = yaml_read(text).unwrap_err();
            let told: Vec<_> = problems
                .iter()
                .map(|problem| (problem.at.unwrap().to_string(), problem.message.clone()))
                .collect();
            assert_eq!(told, [(place.to_owned(), words)], "{text:?}");
        }
    }
}
