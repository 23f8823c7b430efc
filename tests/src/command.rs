//! What a run of the program gave.

use std::process::Output;

use serde_json::Value;

/// What a run of the program gave.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its arguments.
    pub line: String,
    /// Its exit code; absent where a signal ended it.
    pub code: Option<i32>,
    /// Its answer.
    pub stdout: String,
    /// Its remarks.
    pub stderr: String,
}

impl Ran {
    /// Reads what was caught.
    pub fn new(line: String, output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { line, code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// The same, where it ended with `code`.
    ///
    /// # Panics
    /// Where it did not; what it wrote is shown.
    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "borough {}\n{}{}", self.line, self.stdout, self.stderr);
        self
    }

    /// The same, where its answer contains `text`.
    ///
    /// # Panics
    /// Where it does not.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "no {text:?} in\nborough {}\n{}", self.line, self.stdout);
        self
    }

    /// The same, where its remarks contain `text`.
    ///
    /// # Panics
    /// Where they do not.
    #[track_caller]
    pub fn warns(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "no {text:?} in\nborough {}\n{}", self.line, self.stderr);
        self
    }

    /// Its answer as JSON.
    ///
    /// # Panics
    /// Where it is none.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("borough {}: {error}\n{}", self.line, self.stdout))
    }
}
