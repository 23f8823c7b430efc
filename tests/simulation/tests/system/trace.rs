//! The trace of a run, line by line: the same seed writes the same lines, byte for byte.

use std::fmt;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;

use parking_lot::Mutex;

/// The trace of one run. Clones write into the same one.
#[derive(Clone)]
pub(crate) struct Trace(Arc<Mutex<State>>);

struct State {
    now_ms: u64,
    lines: u64,
    digest: u64,
    printed: bool,
}

impl Trace {
    /// An empty trace. Prints its lines at once if `printed`.
    pub(crate) fn new(printed: bool) -> Self {
        Self(Arc::new(Mutex::new(State { now_ms: 0, lines: 0, digest: 0, printed })))
    }

    /// Sets the time of the next lines.
    pub(crate) fn at(&self, now_ms: u64) {
        self.0.lock().now_ms = now_ms;
    }

    #[expect(clippy::print_stdout, reason = "asked for by BOROUGH_TRACE")]
    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        let mut state = self.0.lock();
        let line = format!("{:>7} {what}", state.now_ms);
        state.digest = state.digest.rotate_left(5) ^ hash(line.as_bytes());
        state.lines += 1;
        if state.printed {
            println!("{line}");
        }
    }

    /// A hash over all lines, and how many they are.
    pub(crate) fn digest(&self) -> (u64, u64) {
        let state = self.0.lock();
        (state.digest, state.lines)
    }
}

/// A hash of bytes for a line of a trace.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
