//! The evaluating process. It limits itself, evaluates one file, writes JSON to standard output or one error to
//! standard error, and ends.

use std::io::Write as _;
use std::path::Path;

use rsjsonnet_front::Session;
use rsjsonnet_lang::arena::Arena;
use rsjsonnet_lang::program::{Thunk, Value};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};

use super::imports::imports_check;
use crate::args::EvaluateArguments;

/// Processor time of an evaluation, in seconds.
pub(super) const CPU_SECONDS_MAX: u64 = 5;
/// Address space of an evaluation.
pub(super) const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// The parser recurses on the machine's stack, once for each level of nesting.
const STACK_BYTES: usize = 192 << 20;
/// Frames of the evaluated program.
pub(super) const FRAMES_MAX: usize = 400;
/// Frames shown of an error.
const TRACE_FRAMES: usize = 6;

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

/// The value of the file as JSON. An empty error means that the session has printed what is wrong.
fn value_of(arguments: &EvaluateArguments) -> Result<String, String> {
    let file = std::fs::canonicalize(&arguments.file).map_err(|error| error.to_string())?;
    let directory = file.parent().unwrap_or_else(|| Path::new("/"));
    imports_check(&file, directory)?;
    // The places in errors are relative to the job file.
    std::env::set_current_dir(directory).map_err(|error| error.to_string())?;
    let name = file.file_name().ok_or_else(|| "is a directory".to_owned())?;
    let arena = Arena::new();
    let mut session = Session::new(&arena);
    session.set_max_trace(TRACE_FRAMES);
    session.program_mut().set_max_stack(FRAMES_MAX);
    for (key, value) in &arguments.ext_str {
        let value = text(&mut session, value);
        let key = session.program().intern_str(key);
        session.program_mut().add_ext_var(key, &value);
    }
    json(&mut session, Path::new(name), &arguments.tla_str)
}

fn json(session: &mut Session<'_>, file: &Path, arguments: &[(String, String)]) -> Result<String, String> {
    let program = session.load_real_file(file).ok_or_else(String::new)?;
    let mut value = session.eval_value(&program).ok_or_else(String::new)?;
    if !value.is_function() && !arguments.is_empty() {
        return Err("--tla-str is for a file that is a function, such as function(count) {...}".to_owned());
    }
    if value.is_function() {
        let mut named = Vec::new();
        for (key, value) in arguments {
            let value = text(session, value);
            named.push((session.program().intern_str(key), value));
        }
        value = session.eval_call(&program, &[], &named).ok_or_else(String::new)?;
    }
    session.manifest_json(&value, false).ok_or_else(String::new)
}

fn text<'p>(session: &mut Session<'p>, text: &str) -> Thunk<'p> {
    session.program_mut().value_to_thunk(&Value::string(text))
}
