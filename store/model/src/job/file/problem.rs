//! One problem of a job file, with its place.

use std::fmt;

use super::tree::TreeNode;

/// A place in a file. Both numbers count from 1, and columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

impl Position {
    /// The place of byte `offset` of `text`.
    pub fn of(text: &str, offset: usize) -> Self {
        Self { line: 1, column: 1 }.behind(text.get(..offset).unwrap_or(text))
    }

    /// The place behind the text `passed`, which begins here.
    #[must_use]
    pub fn behind(self, passed: &str) -> Self {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        match passed.rsplit_once('\n') {
            None => Self { column: self.column.saturating_add(number(passed.chars().count())), ..self },
            Some((before, last)) => {
                let lines = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
                let column = number(last.chars().count()).saturating_add(1);
                Self { line: self.line.saturating_add(number(lines)), column }
            }
        }
    }

    /// The character at this place of `text`.
    pub fn character(self, text: &str) -> Option<char> {
        let index = |number: u32| usize::try_from(number).ok()?.checked_sub(1);
        text.split('\n').nth(index(self.line)?)?.chars().nth(index(self.column)?)
    }
}

/// One problem of a job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its place; absent if it is unknown.
    pub at: Option<Position>,
    /// What is wrong, and what would be accepted.
    pub message: String,
}

impl Problem {
    /// A problem at a place.
    pub fn at(at: Option<Position>, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    /// A problem with a value.
    pub fn of(node: &TreeNode, message: impl Into<String>) -> Self {
        Self::at(node.at, message)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
