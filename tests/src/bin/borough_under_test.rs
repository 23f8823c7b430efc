//! The `borough` program as whole-system tests run it: the same main function as the shipped one. A control role (`dev`
//! runs all of them) first records itself where its test says, so that the test's guard ends it in any case.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use borough_shim::process::ProcessId;
use borough_shim::record::{ProcessKind, process_record};

/// Verbs that run until a signal ends them. Agents record themselves.
const ROLES: [&str; 4] = ["dev", "gateway", "scheduler", "controller"];

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let records = std::env::var_os(borough_tests::RECORDS_VARIABLE).map(PathBuf::from);
    if let Some(records) =
        records.filter(|_| arguments.get(1).is_some_and(|verb| ROLES.iter().any(|role| verb == role)))
    {
        let own = ProcessId::find(std::process::id());
        let recorded = own.map(|own| process_record(&records, ProcessKind::Agent, own, Vec::new()));
        if !matches!(recorded, Some(Ok(_))) {
            return ExitCode::from(70);
        }
    }
    borough_cli::main(arguments)
}
