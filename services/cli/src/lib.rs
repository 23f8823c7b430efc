//! The `borough` program as a library, so that its parts can be tested: arguments, job files, commands, output.
//!
//! A verb reads its arguments (`args`), asks a gateway through the client library (`command`), and shows the answer
//! (`output`, the one place that writes to standard output). Roles of the system are in `role`.

pub mod args;
pub mod client_file;
mod command;
mod complete;
mod connect;
pub mod context_file;
pub mod exit;
pub mod jobfile;
mod login;
mod output;
mod own_file;
mod provider;
mod role;

use std::ffi::OsString;
use std::process::ExitCode;

use borough_proto::v1::DryRunResponse;

use crate::args::{Arguments, TypedOptions, usage_failure};
use crate::exit::Code;
use crate::output::{DryRunView, Printer};

/// Runs the program with these arguments. The first one is its name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(code) = complete::answer(&arguments) {
        return code;
    }
    let typed = TypedOptions::of(&arguments);
    let arguments = match Arguments::read(arguments.clone()) {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error, &arguments, typed),
    };
    let printer = Printer::new(&arguments.global, typed);
    let numbers = arguments.verb.failure_numbers();
    match command::run(arguments, &printer) {
        Ok(code) => ExitCode::from(code.number()),
        Err(failure) => {
            if let Some(answer) = failure.dry_run() {
                return dry_run_end(&printer, answer, failure.code());
            }
            printer.failure(&failure);
            ExitCode::from(numbers.number(failure.code()))
        }
    }
}

/// Shows what a change would do.
fn dry_run_end(printer: &Printer, answer: &DryRunResponse, code: Code) -> ExitCode {
    match printer.one(&DryRunView::from(answer), |view, _| view.text()) {
        Ok(()) => ExitCode::from(code.number()),
        Err(failure) => ExitCode::from(failure.code().number()),
    }
}

/// A wrong command line, or the output of clap: help and version are no failures.
fn usage(error: &clap::Error, line: &[OsString], typed: TypedOptions) -> ExitCode {
    if let Some(failure) = usage_failure(error, line) {
        Printer::errors_only(typed).failure(&failure);
        return ExitCode::from(failure.code().number());
    }
    let printed = error.print();
    if error.use_stderr() {
        return ExitCode::from(Code::Usage.number());
    }
    match printed {
        // Help is the requested answer. A reader that closes the pipe early is no failure.
        Err(failed) if failed.kind() != std::io::ErrorKind::BrokenPipe => {
            ExitCode::from(Code::Failed.number())
        }
        _ => ExitCode::SUCCESS,
    }
}
