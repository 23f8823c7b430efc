//! `explain`: help on the fields of a job file, without a cell.

use borough_model::job::file::field_help;

use crate::args::ExplainArguments;
use crate::exit::{Code, Failure};
use crate::output::{Printer, field_text, field_tree};

pub(super) fn run(arguments: &ExplainArguments, printer: &Printer) -> Result<Code, Failure> {
    let help = field_help(arguments.field.as_deref().unwrap_or_default()).map_err(|error| {
        Failure::new(Code::Usage, error.to_string()).with_hint("every field: borough explain --recursive")
    })?;
    let text = if arguments.recursive { field_tree } else { field_text };
    printer.one(&help, |help, _| text(help))?;
    Ok(Code::Done)
}
