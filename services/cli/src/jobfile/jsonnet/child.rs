//! The evaluating process: it limits itself, evaluates one file, writes JSON to standard output or one clear text to
//! standard error, and ends.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use jrsonnet_evaluator::trace::{CompactFormat, PathResolver};
use jrsonnet_evaluator::{EvaluationState, FileImportResolver, ManifestFormat};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};

use super::imports::imports_check;

/// Processor time of an evaluation, in seconds.
pub(super) const CPU_SECONDS_MAX: u64 = 5;
/// Address space of an evaluation.
pub(super) const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// The evaluator recurses on the machine's stack; its own limit is to be reached before this one.
const STACK_BYTES: usize = 192 << 20;
/// Frames of the evaluated program.
const FRAMES_MAX: usize = 400;
/// Frames shown of an error.
const TRACE_FRAMES: usize = 6;

/// What is evaluated.
#[derive(Clone, Debug, Args)]
pub struct EvaluateArguments {
    /// Variable for std.extVar
    #[arg(long, value_parser = crate::args::pair)]
    pub ext_str: Vec<(String, String)>,
    /// Argument of the function the file is
    #[arg(long, value_parser = crate::args::pair)]
    pub tla_str: Vec<(String, String)>,
    /// The file
    pub file: PathBuf,
}

/// Evaluates the file in this process, which is limited for good. Nothing else may be done in it afterwards.
///
/// # Errors
/// One text about what is wrong with the file.
pub fn evaluate(arguments: EvaluateArguments) -> Result<(), String> {
    limit().map_err(|error| format!("cannot limit the evaluation: {error}"))?;
    // A panic of the evaluator becomes one line of the caller, so its report is not printed.
    std::panic::set_hook(Box::new(|_| {}));
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let thread = thread.spawn(move || value_of(&arguments)).map_err(|error| error.to_string())?;
    let json = thread.join().map_err(|_| "the evaluator failed on this file".to_owned())??;
    std::io::stdout().lock().write_all(json.as_bytes()).map_err(|error| error.to_string())
}

fn limit() -> rustix::io::Result<()> {
    let at_most = |limit: u64| Rlimit { current: Some(limit), maximum: Some(limit) };
    setrlimit(Resource::Cpu, Rlimit { current: Some(CPU_SECONDS_MAX), maximum: Some(CPU_SECONDS_MAX + 1) })?;
    setrlimit(Resource::As, at_most(MEMORY_BYTES_MAX))?;
    setrlimit(Resource::Core, at_most(0))?;
    setrlimit(Resource::Fsize, at_most(0))?;
    // Nobody waits for the value once the caller is gone.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
}

fn value_of(arguments: &EvaluateArguments) -> Result<String, String> {
    let file = absolute(&arguments.file)?;
    let directory = file.parent().unwrap_or_else(|| Path::new("/")).to_path_buf();
    imports_check(&file, &directory)?;
    let state = EvaluationState::default();
    state.set_max_stack(FRAMES_MAX);
    state.set_import_resolver(Box::new(FileImportResolver::default()));
    state.set_trace_format(Box::new(CompactFormat {
        resolver: PathResolver::Relative(directory),
        padding: 2,
    }));
    state.set_manifest_format(ManifestFormat::Json(0));
    state.with_stdlib();
    for (key, value) in &arguments.ext_str {
        state.add_ext_str(key.as_str().into(), value.as_str().into());
    }
    for (key, value) in &arguments.tla_str {
        state.add_tla_str(key.as_str().into(), value.as_str().into());
    }
    let value = state.evaluate_file_raw_nocwd(&file).and_then(|value| state.with_tla(value));
    let json = value.and_then(|value| state.manifest(value));
    json.map(|json| json.to_string()).map_err(|error| told(&state.stringify_err(&error)))
}

/// The error with the first frames of its trace, in this program's terms.
fn told(error: &str) -> String {
    let mut lines: Vec<String> = error.lines().take(1 + TRACE_FRAMES).map(str::to_owned).collect();
    if let Some(first) = lines.first_mut().filter(|first| first.starts_with("stack overflow")) {
        *first = format!("recurses more than {FRAMES_MAX} levels deep");
    }
    lines.join("\n")
}

fn absolute(file: &Path) -> Result<PathBuf, String> {
    std::fs::canonicalize(file).map_err(|error| error.to_string())
}
