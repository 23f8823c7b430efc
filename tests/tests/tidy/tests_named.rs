//! A test that the documentation names exists. Its readers look for the name.

use std::collections::BTreeSet;
use std::fs;

use super::{assert_none, root, tracked};

/// Words of the documentation with three or more `_` that are no tests: their endings, and their beginnings.
const METRIC_ENDINGS: [&str; 3] = ["_total", "_seconds", "_bytes"];
const METRIC_BEGINNINGS: [&str; 1] = ["borough_"];

/// The names of functions in a source file.
fn functions(source: &str) -> BTreeSet<&str> {
    let name =
        |part: &'_ str| part.len() - part.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
    source.split("fn ").skip(1).map(|part| &part[..name(part)]).collect()
}

/// Words between single backquotes that look like the name of a test.
fn tests_named(text: &str) -> impl Iterator<Item = &str> {
    let plain = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let test = |word: &&str| word.matches('_').count() >= 3 && !word.starts_with('_') && !word.ends_with('_');
    let metric = |word: &&str| {
        METRIC_ENDINGS.iter().any(|ending| word.ends_with(ending))
            || METRIC_BEGINNINGS.iter().any(|beginning| word.starts_with(beginning))
    };
    text.split('`').skip(1).step_by(2).filter(plain).filter(test).filter(move |word| !metric(word))
}

#[test]
fn tests_that_the_documentation_names_exist() {
    let sources: Vec<String> =
        tracked("*.rs").iter().filter_map(|path| fs::read_to_string(root().join(path)).ok()).collect();
    let known: BTreeSet<&str> = sources.iter().flat_map(|source| functions(source)).collect();
    let mut named = 0;
    let mut missing = Vec::new();
    for path in tracked("docs/*.md") {
        let text = fs::read_to_string(root().join(&path)).expect("a tracked file");
        for test in tests_named(&text) {
            named += 1;
            if !known.contains(test) {
                missing.push(format!("{path}: {test}"));
            }
        }
    }
    assert!(named > 300, "only {named} tests are named: the names are not found any more");
    assert_none("the documentation names tests that do not exist", &missing);
}

#[test]
fn names_of_tests_are_told_from_other_words() {
    let text = "`a_b_c_d`, `node_alloc`, `borough_log_lost_lines_total`, `store_x_y_seconds`, `Type_a_b_c`; and `e_f_g_h`";
    assert_eq!(tests_named(text).collect::<Vec<_>>(), ["a_b_c_d", "e_f_g_h"]);
    let known = functions("async fn one_test() {}\npub(super) fn two<T>() {}");
    assert_eq!(known, BTreeSet::from(["one_test", "two"]));
}
