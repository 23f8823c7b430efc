//! Help on the fields of a job file, as text.

use borough_model::job::file::FieldHelp;
use serde_json::Value;

/// Columns of a line of text.
const COLUMNS_MAX: usize = 100;

/// A field with what it takes, and the fields directly within it.
pub(crate) fn field_text(field: &FieldHelp) -> String {
    let mut lines = Vec::new();
    if field.path.is_empty() {
        lines.extend(wrapped("", &field.meaning));
    } else {
        lines.extend(wrapped("", &head(&field.path, field)));
        lines.extend(wrapped("    ", &field.meaning));
    }
    if !field.accepted.is_empty() {
        lines.extend(wrapped("    ", &format!("Accepted: {}", field.accepted)));
    }
    if let Some(example) = &field.example {
        lines.extend(example_lines(field.name(), example));
    }
    for inner in &field.inner {
        lines.push(String::new());
        lines.extend(wrapped("  ", &head(inner.name(), inner)));
        lines.extend(wrapped("      ", &inner.meaning));
    }
    if field.inner.iter().any(|inner| !inner.inner.is_empty()) {
        lines.push(String::new());
        lines.push("A field with `...` has fields of its own: borough explain FIELD.FIELD".to_owned());
    }
    lines.join("\n")
}

/// A field with all within it, one line each.
pub(crate) fn field_tree(field: &FieldHelp) -> String {
    let mut lines = Vec::new();
    if !field.path.is_empty() {
        lines.push(head(&field.path, field));
    }
    let outer = field.path.matches('.').count() + usize::from(!field.path.is_empty());
    for below in field.below() {
        let depth = below.path.matches('.').count().saturating_sub(outer) + usize::from(outer > 0);
        lines.push(format!("{:indent$}{}", "", head(below.name(), below), indent = 2 * depth));
    }
    lines.join("\n")
}

/// An example as a job file has it.
fn example_lines(name: &str, example: &Value) -> Vec<String> {
    let file = serde_json::Map::from_iter([(name.to_owned(), example.clone())]);
    let text = serde_saphyr::to_string(&file).unwrap_or_else(|_| format!("{name}: {example}"));
    let text: Vec<&str> = text.trim_end().lines().collect();
    match text.as_slice() {
        [line] => vec![format!("    Example: {line}")],
        lines => {
            let lines = lines.iter().map(|line| format!("        {line}"));
            std::iter::once("    Example:".to_owned()).chain(lines).collect()
        }
    }
}

/// The name of a field, its type and its default, in one line.
fn head(name: &str, field: &FieldHelp) -> String {
    let more = if field.inner.is_empty() { "" } else { "..." };
    let default = match field.default.as_str() {
        _ if field.required => " (required)".to_owned(),
        "" => String::new(),
        // The defaults of the fields within it follow; they stand at those.
        default if !field.inner.is_empty() => {
            format!(" (default: {})", default.split("; ").next().unwrap_or_default())
        }
        default => format!(" (default: {default})"),
    };
    format!("{name}{more} <{}>{default}", several(&field.kind))
}

/// `a list of names` for a list of what is a name.
fn several(kind: &str) -> String {
    kind.replace("a list of a name", "a list of names")
        .replace("a map to a whole number", "a map to whole numbers")
        .replace("a map to (a whole number", "a map to (whole numbers")
}

/// A text in lines of at most 100 columns, broken between words.
fn wrapped(indent: &str, text: &str) -> Vec<String> {
    let mut lines = vec![indent.to_owned()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { continue };
        let is_first = line.len() == indent.len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > COLUMNS_MAX {
            lines.push(format!("{indent}{word}"));
            continue;
        }
        if !is_first {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use borough_model::job::file::field_help;
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_field_is_explained_with_those_within() {
        let text = field_text(&field_help("restart").unwrap());
        expect![[r#"
            restart... <always, on_failure, never or a map> (default: services always without limit, batch jobs
            on_failure three times)
                What happens when a task ends by itself.
                Accepted: always, on_failure, never, or a map of mode, attempts (a number or unlimited),
                backoff, backoff_max, reset_after
                Example:
                    restart:
                      mode: on_failure
                      attempts: 7
                      backoff: 1s

              mode <always, on_failure or never> (default: services always, batch jobs on_failure)
                  The exits after which the task restarts.

              attempts <a whole number from 0 or unlimited> (default: services no limit, batch jobs 3)
                  The most restarts in a row; the next failure ends the task for good.

              backoff <a duration, 10ms to 1h> (default: 500ms)
                  The pause before the first restart. Each further failure in a row doubles it.

              backoff_max <a duration, 10ms to 1h> (default: 1m)
                  The longest pause of the job. After many failures in a row the cell itself pauses for up to 10
                  s.

              reset_after <a duration> (default: 2m)
                  After an attempt of at least this time, the next failure is the first in a row."#]].assert_eq(&text);
        let text = field_text(&field_help("task.resources.cpu").unwrap());
        expect![[r#"
            task.resources.cpu <cores, such as 2, 0.5 or 500m> (default: 100m)
                Processor time that its node holds for it."#]]
        .assert_eq(&text);
        let text = field_text(&field_help("task.grace").unwrap());
        assert!(text.contains("between SIGTERM and SIGKILL.") && !text.contains("Accepted"), "{text}");
    }

    #[test]
    fn a_list_is_of_several() {
        let of = |path: &str| field_text(&borough_model::federation::federated_field_help(path).unwrap());
        assert!(
            of("federation.cells").starts_with("federation.cells <a list of names>"),
            "{}",
            of("federation.cells")
        );
        assert!(of("federation").contains("weights <a map to whole numbers, 1 to 1000>"));
    }

    #[test]
    fn the_tree_shows_every_field_once_and_lines_are_short() {
        let all = field_help("").unwrap();
        let tree = field_tree(&all);
        assert_eq!(tree.lines().count(), all.below().len());
        expect![[r#"
            task.health... <a map> (default: none: healthy while it runs)
              http... <a text or a map> (default: none)
                port <a text> (required)
                path <a text> (default: /)
              tcp... <a text or a map> (default: none)
                port <a text> (required)
              command <a list of texts> (default: none)
              interval <a duration, 100ms to 1h> (default: 5s)
              timeout <a duration, 1ms to 1h> (default: 2s, or the interval if shorter)
              failures <a whole number, 1 to 1000> (default: 3)
              initial_grace <a duration, 0s to 1h> (default: 10s)"#]]
        .assert_eq(&field_tree(&field_help("task.health").unwrap()));
        for field in all.below() {
            let long =
                field_text(field).lines().find(|line| line.chars().count() > COLUMNS_MAX).map(str::to_owned);
            assert_eq!(long, None, "{}", field.path);
        }
    }
}
