//! `explain`: help on the fields of a job file.

use clap::Args;

/// Arguments of `explain`.
#[derive(Clone, Debug, Args)]
pub struct ExplainArguments {
    /// The field, such as task.resources.cpu [default: the whole file]
    #[arg(value_parser = field)]
    pub field: Option<String>,
    /// Show also the fields within fields, one line each
    #[arg(short, long)]
    pub recursive: bool,
}

/// A path. An empty one is rather a variable that is not set.
fn field(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("accepted: a field such as task.grace; for the whole file give none".to_owned());
    }
    Ok(text.to_owned())
}
