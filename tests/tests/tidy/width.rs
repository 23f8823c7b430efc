//! Comments keep within the width of a line. rustfmt does so for code only.

use std::fs;

use super::{assert_none, root, tracked};

const WIDTH: usize = 120;

/// Returns true for a comment beyond the width. Rows of tables and of diagrams have no place to break.
fn is_wide(line: &str) -> bool {
    let text = line.trim_start();
    let is_drawn = text.contains(['│', '─', '|']);
    text.starts_with("//") && !is_drawn && line.chars().count() > WIDTH
}

#[test]
fn comments_keep_within_the_line() {
    let mut wide = Vec::new();
    for path in tracked("*.rs") {
        let text = fs::read_to_string(root().join(&path)).expect("a tracked file");
        let lines = text.lines().enumerate().filter(|(_, line)| is_wide(line));
        wide.extend(lines.map(|(at, _)| format!("{path}:{}", at + 1)));
    }
    assert_none("comments are wider than a line", &wide);
}

#[test]
fn a_wide_comment_is_refused() {
    let long = "x".repeat(WIDTH);
    assert!(is_wide(&format!("    /// {long}")) && is_wide(&format!("//! {long}")));
    assert!(!is_wide(&format!("let a = \"{long}\";")) && !is_wide(&format!("//! | {long} |")));
    assert!(!is_wide(&format!("// {}", "ü".repeat(WIDTH - 3))), "characters count, not bytes");
}
