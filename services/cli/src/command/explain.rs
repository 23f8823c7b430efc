//! `explain`: help on the fields of a job file, without a cell.

use borough_model::federation::federated_field_help as field_help;

use crate::args::ExplainArguments;
use crate::exit::{Code, Failure};
use crate::output::{Printer, field_text, field_tree};

pub(super) fn run(arguments: &ExplainArguments, printer: &Printer) -> Result<Code, Failure> {
    let field = arguments.field.as_deref().unwrap_or_default();
    let help = field_help(field).map_err(|error| {
        let hint = own_path(field).unwrap_or_else(|| "every field: borough explain --recursive".to_owned());
        Failure::new(Code::Usage, error.to_string()).with_hint(hint)
    })?;
    let text = if arguments.recursive { field_tree } else { field_text };
    printer.one(&help, |help, _| text(help))?;
    Ok(Code::Done)
}

/// Words for a whole job file before the path of a field, as Kubernetes and Nomad have them.
const ROOTS: [&str; 7] = ["job", "spec", "deployment", "pod", "statefulset", "template", "group"];

/// The command for a path that begins with a word for the whole file, such as `job.task` or `pod.spec`; `None`: what is
/// left is no field.
fn own_path(path: &str) -> Option<String> {
    let begin = |rest: &str| ROOTS.contains(&rest.split('.').next().unwrap_or_default());
    let mut rest = path;
    while begin(rest) {
        rest = rest.split_once('.').map_or("", |(_, behind)| behind);
    }
    let is_known = rest.len() < path.len() && field_help(rest).is_ok();
    is_known.then(|| format!("borough explain {rest}").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_for_the_whole_file_before_a_field_is_left_out() {
        let of = |path: &str| own_path(path).unwrap_or_default();
        assert_eq!(of("job.task"), "borough explain task");
        assert_eq!(of("job"), "borough explain");
        assert_eq!(of("deployment.spec.count"), "borough explain count");
        assert_eq!(of("pod.spec.task.health"), "borough explain task.health");
        for other in ["job.nope", "tsak", "task.job", ""] {
            assert_eq!(of(other), "", "{other}");
        }
    }
}
