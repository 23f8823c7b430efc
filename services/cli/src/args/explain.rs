//! `explain`: help on the fields of a job file.

use clap::Args;

/// Arguments of `explain`.
#[derive(Clone, Debug, Args)]
pub struct ExplainArguments {
    /// The field, such as task.resources.cpu [default: the whole file]
    #[arg(default_value = "", hide_default_value = true)]
    pub field: String,
    /// Show also the fields within fields, one line each
    #[arg(short, long)]
    pub recursive: bool,
}
