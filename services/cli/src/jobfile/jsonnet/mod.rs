//! Jsonnet is a programming language: a file may loop, recurse or fill the memory. It is evaluated by a child process
//! of this same program, which limits itself first ([`child`]); this side bounds its time and its output.

mod child;
mod imports;
mod parameters;
mod report;

pub use child::evaluate;

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use borough_model::job::file::{Position, TreeKey, TreeNode, TreeValue};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use self::report::{JsonnetProblem, problem_of};
use super::problem::{JobFileError, shown as path_shown};
use super::{LoadOptions, json};

/// Wall time of an evaluation.
const WALL_LIMIT: Duration = Duration::from_secs(20);
/// Most bytes of the rendered JSON.
const OUTPUT_BYTES_MAX: u64 = 8 << 20;
/// Most bytes of an error message.
const ERROR_BYTES_MAX: u64 = 16 << 10;

/// The tree of a Jsonnet file: its value, with the places of its keys as far as they can be guessed.
pub(super) async fn jsonnet_read(
    path: &Path,
    source: &str,
    options: &LoadOptions,
) -> Result<TreeNode, JobFileError> {
    let failed =
        |problem: JsonnetProblem| JobFileError::Jsonnet { place: problem.place, problem: problem.text };
    let whole = |text| failed(JsonnetProblem { place: path_shown(path), text });
    let text = match evaluated(path, options).await.map_err(whole)? {
        Evaluation::Value(text) => text,
        Evaluation::Report(report) => return Err(failed(problem_of(&report, path, source))),
    };
    let mut tree = json::json_read(&text).map_err(|problems| {
        let first = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
        whole(format!("the rendered JSON cannot be read: {first}"))
    })?;
    guess_places(&mut tree, source, None);
    Ok(tree)
}

/// What the evaluating process says.
enum Evaluation {
    /// The value of the file, as JSON.
    Value(String),
    /// What is wrong with the file, in the evaluator's words.
    Report(String),
}

/// Evaluates the file. The error says which limit has ended it.
async fn evaluated(path: &Path, options: &LoadOptions) -> Result<Evaluation, String> {
    let mut command = Command::new(&options.evaluator);
    command.arg("__evaluate-jsonnet");
    for (flag, pairs) in [("--ext-str", &options.ext_str), ("--tla-str", &options.tla_str)] {
        command.args(pairs.iter().map(|(key, value)| format!("{flag}={key}={value}")));
    }
    command.arg("--").arg(path);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    // The settings and secrets of the caller do not influence the rendered job.
    command.env_clear();
    let mut process = command.spawn().map_err(|error| {
        format!("cannot start its evaluation with {}: {error}", options.evaluator.display())
    })?;
    let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
    let finished = tokio::time::timeout(WALL_LIMIT, async {
        let (stdout, stderr) =
            tokio::join!(bounded(stdout, OUTPUT_BYTES_MAX), bounded(stderr, ERROR_BYTES_MAX));
        if stdout.is_cut {
            // It may write without end, and nobody reads the rest.
            let _killed = process.start_kill();
        }
        (stdout, stderr, process.wait().await)
    });
    let (stdout, stderr, status) =
        finished.await.map_err(|_| format!("loops, or takes more than {} s", WALL_LIMIT.as_secs()))?;
    if stdout.is_cut {
        return Err(format!("renders to more than {} MiB", OUTPUT_BYTES_MAX >> 20));
    }
    let status = status.map_err(|error| format!("its evaluation was lost: {error}"))?;
    match stderr.text.trim() {
        _ if status.success() => Ok(Evaluation::Value(stdout.text)),
        report if status.signal().is_none() && !report.is_empty() => {
            Ok(Evaluation::Report(report.to_owned()))
        }
        message => Err(ending(status, message)),
    }
}

/// The output of a process, as far as it was read.
#[derive(Default)]
struct BoundedText {
    text: String,
    /// There was more.
    is_cut: bool,
}

/// Reads `source` to its end, or until it has given more than `limit` bytes.
async fn bounded(source: Option<impl AsyncRead + Unpin>, limit: u64) -> BoundedText {
    let Some(source) = source else { return BoundedText::default() };
    let mut bytes = Vec::new();
    // After a read error, the part before it counts.
    let _ended = source.take(limit + 1).read_to_end(&mut bytes).await;
    let is_cut = u64::try_from(bytes.len()).is_ok_and(|length| length > limit);
    BoundedText { text: String::from_utf8_lossy(&bytes).into_owned(), is_cut }
}

/// The limit that ended the evaluation.
fn ending(status: ExitStatus, message: &str) -> String {
    const CPU_LIMIT_SIGNAL: i32 = 24;
    match status.signal() {
        None => format!("has no value ({status})"),
        Some(CPU_LIMIT_SIGNAL) => {
            format!("loops, or takes more than {} s of processor time", child::CPU_SECONDS_MAX)
        }
        Some(_) if message.contains("memory allocation") => {
            format!("takes more than {} MiB of memory", child::MEMORY_BYTES_MAX >> 20)
        }
        Some(_) if message.contains("overflowed its stack") => "is nested too deeply".to_owned(),
        Some(signal) => format!("its evaluation was ended by signal {signal}"),
    }
}

/// Gives each entry the place of its key in the source if the key occurs there exactly once, and else its parent's
/// place. The value may come from elsewhere: the place is a hint, and the path in the message is exact.
fn guess_places(node: &mut TreeNode, source: &str, outer: Option<Position>) {
    node.at = outer;
    match &mut node.value {
        TreeValue::List(items) => {
            for item in items {
                guess_places(item, source, outer);
            }
        }
        TreeValue::Map(entries) => {
            for (TreeKey { at, text }, node) in entries {
                let place = key_place(source, text).or(outer);
                *at = place;
                guess_places(node, source, place);
            }
        }
        _ => {}
    }
}

/// The place of `key:` in the source where there is exactly one.
fn key_place(source: &str, key: &str) -> Option<Position> {
    let mut places = source.match_indices(key).filter(|&(offset, _)| {
        let before = source.get(..offset).and_then(|text| text.chars().next_back());
        let after = source.get(offset + key.len()..).unwrap_or_default();
        let after = after.trim_start_matches(['"', '\'', ']', '+']).trim_start();
        let inside = before.is_some_and(|each| each.is_alphanumeric() || each == '_' || each == '.');
        !key.is_empty() && !inside && after.starts_with(':')
    });
    match (places.next(), places.next()) {
        (Some((offset, _)), None) => Some(Position::of(source, offset)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_once_has_a_place() {
        let source =
            "local port = 1;\n{\n  task: { memory: 1, \"cpu\": 2, 'disk'+: 3 },\n  b: { disk: 1 },\n}";
        assert_eq!(key_place(source, "memory"), Some(Position { line: 3, column: 11 }));
        assert_eq!(key_place(source, "cpu"), Some(Position { line: 3, column: 23 }));
        assert_eq!(key_place(source, "disk"), None, "it stands twice");
        assert_eq!(key_place(source, "port"), None, "it is no key");
        assert_eq!(key_place(source, ""), None);
    }
}
