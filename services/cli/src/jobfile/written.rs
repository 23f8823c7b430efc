//! The YAML of a stored job, for its owner to edit.

use borough_model::job::{JobSpec, spec_diff};

use super::yaml::yaml_read;

/// Takes out the overrides of tasks that the job does not have now: no job file has them. Returns a comment that says
/// so; empty if there are none.
pub(crate) fn overrides_gone(spec: &mut JobSpec) -> String {
    let gone: Vec<String> = spec.overrides.split_off(&spec.count).keys().map(u32::to_string).collect();
    if gone.is_empty() {
        return String::new();
    }
    format!("# Without the overrides of {}, which the job does not have now.\n", gone.join(", "))
}

/// The YAML from which [`super::load`] reads this spec again.
///
/// # Errors
/// The fields with values that no job file can have. Only a program could have set them.
pub(crate) fn job_text(spec: &JobSpec) -> Result<String, Vec<String>> {
    let text = serde_saphyr::to_string(&spec.to_file()).map_err(|error| vec![error.to_string()])?;
    let messages = |problems: Vec<borough_model::job::file::Problem>| -> Vec<String> {
        problems.into_iter().map(|problem| problem.message).collect()
    };
    let tree = yaml_read(&text).map_err(messages)?;
    let (again, _) = JobSpec::from_file(&tree, &spec.user).map_err(messages)?;
    let lost = spec_diff(spec, &again);
    if lost.is_empty() { Ok(text) } else { Err(lost.into_iter().map(|change| change.path).collect()) }
}
