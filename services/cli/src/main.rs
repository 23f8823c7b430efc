//! The `borough` program: a subcommand per role, and the verbs of people who use a cell.

use std::process::ExitCode;

fn main() -> ExitCode {
    borough_cli::main(std::env::args_os())
}
