//! The results of runs of the program.

use std::process::Output;

use serde_json::Value;

/// The result of a run of the program.
#[derive(Clone, Debug)]
pub struct Ran {
    pub line: String,
    /// Its exit code; absent if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Converts the output of a process.
    pub fn new(line: String, output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { line, code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Asserts that it ended with `code`.
    ///
    /// # Panics
    /// The command ended otherwise. The message shows what it wrote.
    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "borough {}\n{}{}", self.line, self.stdout, self.stderr);
        self
    }

    /// Asserts that its answer contains `text`.
    ///
    /// # Panics
    /// The answer does not contain `text`.
    #[track_caller]
    pub fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "no {text:?} in\nborough {}\n{}", self.line, self.stdout);
        self
    }

    /// Asserts that its remarks contain `text`.
    ///
    /// # Panics
    /// The remarks do not contain `text`.
    #[track_caller]
    pub fn warns(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "no {text:?} in\nborough {}\n{}", self.line, self.stderr);
        self
    }

    /// Its answer as JSON.
    ///
    /// # Panics
    /// The answer is not JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("borough {}: {error}\n{}", self.line, self.stdout))
    }
}
