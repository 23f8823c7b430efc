//! Reports what a test run did not exercise, so that no test passes in silence on a machine that lacks its subject.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

/// Names the file to which every test of a run appends what it did not exercise, one line each.
pub const NOT_EXERCISED_VARIABLE: &str = "BOROUGH_NOT_EXERCISED";

/// Reports that the calling test returns without having exercised `subject`, and why.
///
/// The line goes to the process's standard error, past the capture of the test runner, and to the file that
/// [`NOT_EXERCISED_VARIABLE`] names. `.ci/run` prints that file as its last lines.
pub fn not_exercised(subject: &str, reason: &str) {
    let line = line_of(subject, reason);
    // A test run with a closed standard error gets no report.
    io::stderr().write_all(line.as_bytes()).ok();
    if let Some(path) = std::env::var_os(NOT_EXERCISED_VARIABLE)
        && let Err(error) = append(Path::new(&path), &line)
    {
        io::stderr().write_all(format!("{}: {error}\n", path.display()).as_bytes()).ok();
    }
}

fn line_of(subject: &str, reason: &str) -> String {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("NOT EXERCISED: {}: {}\n", one_line(subject), one_line(reason))
}

/// One write per line, so that parallel test processes do not mix theirs.
fn append(path: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_report_is_one_line_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("not-exercised");
        append(&path, &line_of("a full disk", "this user may\nnot mount")).unwrap();
        append(&path, &line_of("a cluster", "none is named")).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let expected =
            "NOT EXERCISED: a full disk: this user may not mount\nNOT EXERCISED: a cluster: none is named\n";
        assert_eq!(text, expected);
    }
}
