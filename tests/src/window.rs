//! A terminal in which a test types: a window of a tmux server of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use borough_shim::process::ProcessId;
use borough_shim::record::{ProcessKind, process_record};

use crate::wait::until;

/// The size of a window, in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

/// What runs in a terminal.
#[derive(Clone, Debug)]
pub struct TerminalProgram {
    /// The program and its arguments.
    pub line: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub size: TerminalSize,
}

/// A tmux server with one window. Dropping it, or the guard of `records`, ends the server and what runs in it.
pub struct TestTerminal {
    directory: tempfile::TempDir,
}

/// After the program has ended, the window shows its exit code and whether the terminal echoes keys again.
const WRAPPER: &str = r#""$@"; code=$?; echo "ended with $code, terminal:$(stty -a | grep -oE -- '-?\b(echo|icanon)\b' | tr '\n' ' ')"; exec sleep 600"#;

impl TestTerminal {
    /// Returns true if tmux is installed.
    pub fn is_available() -> bool {
        let version = Command::new("tmux").arg("-V").stdin(Stdio::null()).output();
        version.is_ok_and(|output| output.status.success())
    }

    /// Starts `program` in a new terminal. The guard of `records` ends it even if the test is killed.
    ///
    /// # Panics
    /// tmux does not start.
    pub fn start(program: &TerminalProgram, records: &Path) -> Self {
        let directory = tempfile::Builder::new().prefix("borough-tmux-").tempdir().expect("a directory");
        let terminal = Self { directory };
        let TerminalSize { columns, rows } = program.size;
        let mut line =
            vec!["-f", "/dev/null", "new-session", "-d"].into_iter().map(str::to_owned).collect::<Vec<_>>();
        line.extend(["-x".to_owned(), columns.to_string(), "-y".to_owned(), rows.to_string()]);
        for (name, value) in &program.environment {
            line.extend(["-e".to_owned(), format!("{name}={value}")]);
        }
        line.extend(["sh", "-c", WRAPPER, "sh"].map(str::to_owned));
        line.extend(program.line.iter().cloned());
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let started = terminal.tmux(&line);
        assert!(started.status.success(), "tmux: {}", String::from_utf8_lossy(&started.stderr));
        let server = terminal.asked("#{pid}").trim().parse().ok().and_then(ProcessId::find);
        process_record(records, ProcessKind::Agent, server.expect("the server of tmux"), Vec::new())
            .expect("it is recorded");
        // Two status lines of tmux would take rows of the window.
        terminal.tmux(&["set", "-g", "status", "off"]);
        terminal.resize(program.size);
        terminal
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.socket()).args(arguments).stdin(Stdio::null()).env_remove("TMUX");
        command.output().expect("tmux runs")
    }

    /// The value of a format of tmux.
    fn asked(&self, format: &str) -> String {
        String::from_utf8_lossy(&self.tmux(&["display-message", "-p", format]).stdout).into_owned()
    }

    /// The present picture, as text.
    pub fn picture(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// The present picture with the escapes of its colours.
    pub fn picture_colored(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p", "-e"]).stdout).into_owned()
    }

    /// Everything that the window has shown, with wrapped lines joined.
    pub fn transcript(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p", "-J", "-S", "-"]).stdout).into_owned()
    }

    /// Types keys, by the names of tmux: `Enter`, `Down`, `q`.
    pub fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types text as it is.
    pub fn types(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Gives the window another size.
    pub fn resize(&self, size: TerminalSize) {
        let (columns, rows) = (size.columns.to_string(), size.rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]);
    }

    /// Returns true if the program shows a screen of its own.
    pub fn is_full_screen(&self) -> bool {
        self.asked("#{alternate_on}").trim() == "1"
    }

    /// The shell of the window. The program is below it.
    ///
    /// # Panics
    /// The window has none.
    pub fn shell(&self) -> u32 {
        self.asked("#{pane_pid}").trim().parse().expect("the process of the window")
    }

    /// Waits until the picture contains every one of `texts`, and returns it.
    pub async fn shows(&self, texts: &[&str]) -> String {
        let picture = || async {
            let picture = self.picture();
            texts.iter().all(|text| picture.contains(text)).then_some(picture)
        };
        let watch = PictureOnPanic(self);
        let shown = until(&format!("a picture with {texts:?}"), picture).await;
        std::mem::forget(watch);
        shown
    }
}

/// Prints the last picture if a wait for another one fails.
struct PictureOnPanic<'t>(&'t TestTerminal);

impl Drop for PictureOnPanic<'_> {
    fn drop(&mut self) {
        eprintln!("--- the terminal shows\n{}", self.0.picture());
    }
}

impl Drop for TestTerminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
