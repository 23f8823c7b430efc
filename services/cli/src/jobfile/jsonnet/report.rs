//! The evaluator's report in this program's terms: one place, one problem, and the calls that led there.

use std::path::Path;

use borough_model::job::file::nearest;

use super::child::FRAMES_MAX;
use super::parameters::parameters;
use crate::jobfile::path_shown;

/// What is wrong with a Jsonnet file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JsonnetProblem {
    /// The file, with line and column if they are known.
    pub(super) place: String,
    /// The problem in one line. Further lines show the source and the calls.
    pub(super) text: String,
}

/// Reads the evaluator's report on the file `path` with this text.
pub(super) fn problem_of(report: &str, path: &Path, source: &str) -> JsonnetProblem {
    let mut blocks = Vec::new();
    for line in report.lines() {
        let label = ["error: ", "note: "].iter().find_map(|label| line.strip_prefix(label));
        match (label, blocks.last_mut()) {
            (Some(message), _) => blocks.push(ReportBlock { message, place: None, lines: Vec::new() }),
            (None, None) => blocks.push(ReportBlock { message: line, place: None, lines: Vec::new() }),
            (None, Some(block)) => block.add(line),
        }
    }
    let mut blocks = blocks.into_iter().filter(|block| !block.message.starts_with("... "));
    let Some(mut first) = blocks.next() else {
        return JsonnetProblem { place: path_shown(path), text: "has no value".to_owned() };
    };
    let mut calls: Vec<ReportBlock<'_>> = Vec::new();
    for block in blocks {
        if block.message.starts_with(IMPORT_REPEATED) {
            // The report says twice that an import failed: why, and where.
            (first.place, first.lines) = (block.place, block.lines);
        } else if calls.last() != Some(&block) {
            calls.push(block);
        }
    }
    if first.place.is_none()
        && let Some(place) = calls.iter().find_map(|call| call.place)
    {
        first.place = Some(place);
    }
    let mut text = vec![own_words(first.message, source)];
    text.extend(first.lines);
    let outer = calls.into_iter().filter(|call| call.place != first.place && call.place.is_some());
    text.extend(outer.filter_map(|call| Some(format!("called from {}", place_shown(call.place?, path)))));
    let place = first.place.map_or_else(|| path_shown(path), |place| place_shown(place, path));
    JsonnetProblem { place, text: text.join("\n") }
}

/// How the report repeats that an import failed.
const IMPORT_REPEATED: &str = "failed to import ";

/// One message of the report, with its place and the lines of the source below it.
#[derive(Debug, PartialEq, Eq)]
struct ReportBlock<'r> {
    message: &'r str,
    place: Option<&'r str>,
    lines: Vec<String>,
}

impl<'r> ReportBlock<'r> {
    fn add(&mut self, line: &'r str) {
        let trimmed = line.trim();
        if let Some(place) = trimmed.strip_prefix("--> ") {
            // A second place is that of an earlier definition.
            self.place.get_or_insert(place);
        } else if !matches!(trimmed, "" | "|") {
            self.lines.push(without_label(line));
        }
    }
}

/// A line below the source without the evaluator's words: only its marks.
fn without_label(line: &str) -> String {
    let text = line.trim_start().strip_prefix('|').unwrap_or_default().trim_start();
    let label = text.trim_start_matches(['^', '-']);
    let is_marked = label.len() < text.len();
    line.strip_suffix(label).filter(|_| is_marked).unwrap_or(line).to_owned()
}

/// A place of the report as the person names the file. The evaluator names files from the directory of the job file.
fn place_shown(place: &str, path: &Path) -> String {
    path_shown(&path.parent().unwrap_or_else(|| Path::new("")).join(place))
}

/// The problem in words for the author of a job file. The first that fits counts.
fn own_words(message: &str, source: &str) -> String {
    if let Some([name]) = matched("unknown parameter `{}`", message).as_deref() {
        return parameter_unknown(name, &parameters(source));
    }
    let known = OWN_WORDS.iter().find_map(|(library, own)| Some((matched(library, message)?, own)));
    let Some((parts, own)) = known else { return message.to_owned() };
    let filled = |text: String, (number, part): (usize, &&str)| text.replace(&format!("{{{number}}}"), part);
    parts.iter().enumerate().fold((*own).replace("{levels}", &FRAMES_MAX.to_string()), filled)
}

/// That a file takes no argument of this name, with the one that may be meant.
fn parameter_unknown(name: &str, known: &[String]) -> String {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let right = match (nearest(name, &known), known.as_slice()) {
        (Some(near), _) => format!(", did you mean {near:?}?"),
        (None, []) => String::new(),
        (None, known) => format!("; accepted: {}", known.join(", ")),
    };
    format!("the function has no parameter {name:?}{right}")
}

/// The parts of `text` that stand at the `{}` of `pattern`; `None` if it is another text.
fn matched<'t>(pattern: &str, text: &'t str) -> Option<Vec<&'t str>> {
    let mut literals = pattern.split("{}").peekable();
    let mut rest = text.strip_prefix(literals.next()?)?;
    let mut parts = Vec::new();
    while let Some(literal) = literals.next() {
        let is_last = literals.peek().is_none();
        let at = if is_last { rest.len().checked_sub(literal.len())? } else { rest.find(literal)? };
        parts.push(rest.get(..at)?);
        rest = rest.get(at..)?.strip_prefix(literal)?;
    }
    rest.is_empty().then_some(parts)
}

/// Messages of the evaluator, and the same in words for the author of a job file.
const OWN_WORDS: [(&str, &str); 37] = [
    ("stack overflow", "recurses without end, or more than {levels} levels deep"),
    ("infinite recursion", "a value that needs itself"),
    ("parameter `{}` is not bound", "the parameter {0} has no value; give one with --tla-str {0}=VALUE"),
    (
        "unknown external variable \"{}\"",
        "the external variable {0} has no value; give one with --ext-str {0}=VALUE",
    ),
    ("import {} not found in search path", "import {0}: no such file beside the job file"),
    ("unknown identifier `{}`", "no variable \"{0}\" is defined here; a text needs quotes"),
    ("unknown field {}", "the object has no field {0}"),
    ("expected {} instead of end-of-file", "the file ends here, and what it began is not complete"),
    ("expected {} instead of identifier", "a name is not expected here; a text needs quotes"),
    ("expected {} instead of {}", "{1} is not expected here"),
    ("explicit error: {}", "{0}"),
    ("functions cannot be manifested", "a function is no value of a field; call it, with its arguments"),
    ("attempted to call a {} instead of a function", "a {0} is called, and only a function can be"),
    (
        "too many arguments, function has {} parameter(s)",
        "more arguments than the function has parameters: {0}",
    ),
    (
        "index {} is out of range for indexable of length {}",
        "the number of items is {1}, so none has the index {0}",
    ),
    ("{} is not a valid numeric index value", "the index {0} is no whole number from 0 on"),
    ("cannot index value of type {}", "a {0} has no fields and no items"),
    ("cannot index {} with value of type {}", "an item or field of the {0} is asked for by a {1}"),
    ("attempted to access field of non-object value", "only an object has fields"),
    ("field name must be a string, got {}", "the name of a field is a {0}; accepted: a string"),
    ("repeated field name {}", "the field {0} is given twice"),
    ("repeated local name `{}`", "the variable \"{0}\" is defined twice"),
    ("repeated parameter name `{}`", "the parameter \"{0}\" is defined twice"),
    ("binary operator `{}` cannot be applied to values of types {}", "`{0}` does not go with {1}"),
    ("unary operator `{}` cannot be applied to value of type {}", "`{0}` cannot stand before a {1}"),
    ("{} of `std.{}` is expected to be {}, got {}", "std.{1}: its {0} is a {3}; accepted: {2}"),
    ("array item must null or {}, got {}", "an item of the array is a {1}; accepted: {0} or null"),
    ("array item {} must be a {}, got {}", "item {0} of the array is a {2}; accepted: a {1}"),
    ("array item must be {}, got {}", "an item of the array is a {1}; accepted: {0}"),
    ("{} formatting requires {}, got {}", "the format {0} is given a {2}; accepted: {1}"),
    (
        "not enough array items for format, got {}",
        "the format needs more values than the {0} that it is given",
    ),
    ("invalid base 10: {}", "the text has {0}, which is no digit; accepted: a whole number"),
    ("integer without digits: {}", "the text {0} has no digits; accepted: a whole number"),
    ("expected boolean for condition, got {}", "the condition is a {0}; accepted: true or false"),
    ("expected array for comprenhension, got {}", "`for` goes over a {0}; accepted: an array"),
    ("unfinished {}", "a {0} that is not closed"),
    ("invalid {}", "no {0} can stand here"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn told(report: &str, source: &str) -> String {
        let JsonnetProblem { place, text } = problem_of(report, Path::new("a/job.jsonnet"), source);
        format!("{place}: {text}")
    }

    #[test]
    fn a_problem_has_its_place_first_and_no_words_of_the_evaluator() {
        let marks = "\n  |\n1 | {name: web}\n  |        ^^^ unknown-identifier of it";
        let report = format!("error: unknown identifier `web`\n --> job.jsonnet:1:8{marks}\n");
        assert_eq!(
            told(&report, ""),
            "a/job.jsonnet:1:8: no variable \"web\" is defined here; a text needs quotes\n1 | {name: web}\n  |        ^^^"
        );
    }

    #[test]
    fn a_recursion_is_shown_once() {
        let call = "note: while evaluating call to `f`\n --> a:1:3\n";
        let other = "note: while evaluating call to `f`\n --> a:2:1\n";
        let report =
            format!("error: stack overflow\n{call}{call}note: ... 395 items hidden ...\n{call}{other}");
        assert_eq!(
            told(&report, ""),
            "a/a:1:3: recurses without end, or more than 400 levels deep\ncalled from a/a:2:1"
        );
        let itself = told("error: infinite recursion\nnote: while evaluating variable `x`\n", "");
        assert_eq!(itself, "a/job.jsonnet: a value that needs itself");
    }

    #[test]
    fn an_import_that_fails_is_told_once() {
        let report = "error: import \"no.libsonnet\" not found in search path\nerror: failed to import \
                      \"no.libsonnet\"\n --> job.jsonnet:1:1\n  |\n1 | import 'no.libsonnet'\n  | ^^^^^\n";
        assert_eq!(
            told(report, ""),
            "a/job.jsonnet:1:1: import \"no.libsonnet\": no such file beside the job file\n1 | import \
             'no.libsonnet'\n  | ^^^^^"
        );
    }

    #[test]
    fn an_unknown_parameter_leads_to_those_of_the_file() {
        let source = "local f(x) = x; function(count='3', image) {}";
        let of = |name| told(&format!("error: unknown parameter `{name}`\n"), source);
        assert_eq!(
            of("cuont"),
            "a/job.jsonnet: the function has no parameter \"cuont\", did you mean \"count\"?"
        );
        assert_eq!(of("zzz"), "a/job.jsonnet: the function has no parameter \"zzz\"; accepted: count, image");
    }

    #[test]
    fn words_of_the_evaluator_become_those_of_a_job_file() {
        for (library, own) in [
            (
                "expected `(`, `,` or `}` instead of end-of-file",
                "the file ends here, and what it began is not complete",
            ),
            ("expected `,` or `}` instead of `;`", "`;` is not expected here"),
            (
                "functions cannot be manifested",
                "a function is no value of a field; call it, with its arguments",
            ),
            (
                "array item must null or string, got number",
                "an item of the array is a number; accepted: string or null",
            ),
            (
                "attempted to call a null instead of a function",
                "a null is called, and only a function can be",
            ),
            (
                "index 5 is out of range for indexable of length 2",
                "the number of items is 2, so none has the index 5",
            ),
            (
                "'i' / 'd' formatting requires a number, got string",
                "the format 'i' / 'd' is given a string; accepted: a number",
            ),
            (
                "first argument of `std.length` is expected to be array or string, got number",
                "std.length: its first argument is a number; accepted: array or string",
            ),
            (
                "binary operator `+` cannot be applied to values of types number and object",
                "`+` does not go with number and object",
            ),
            ("explicit error: no name", "no name"),
            ("something that no rule knows", "something that no rule knows"),
        ] {
            assert_eq!(own_words(library, ""), own);
        }
    }
}
