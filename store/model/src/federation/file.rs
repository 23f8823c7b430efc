//! Help and the schema of a job file that may have a `federation` part.

use serde_json::{Value, json};

use super::job::FEDERATION_FIELD;
use super::spec::FederationSpec;
use crate::job::file::{FieldHelp, HelpError, field_help_beside, infos_help, job_file_schema, plain};

const MEANING: &str =
    "The cells of a federated job, and how its tasks are divided among them: `borough federation job run`.";
const DEFAULT: &str = "the job runs in one cell";

/// The help on a field of a job file with or without a `federation` part, or on the whole file for an empty path.
///
/// # Errors
/// No field has this path.
pub fn federated_field_help(path: &str) -> Result<FieldHelp, HelpError> {
    let part = FieldHelp {
        path: FEDERATION_FIELD.to_owned(),
        kind: "a map".to_owned(),
        meaning: plain(MEANING),
        accepted: String::new(),
        default: DEFAULT.to_owned(),
        required: false,
        example: None,
        inner: infos_help(FEDERATION_FIELD, FederationSpec::file_fields()),
    };
    field_help_beside(path, Some(part))
}

/// The JSON Schema of a job file with or without a `federation` part.
pub fn federated_file_schema() -> Value {
    let mut schema = job_file_schema();
    let mut part = FederationSpec::file_schema();
    if let Value::Object(part) = &mut part {
        part.insert("description".to_owned(), json!(format!("{} Default: {DEFAULT}", plain(MEANING))));
    }
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        fields.insert(FEDERATION_FIELD.to_owned(), part);
    }
    schema
}
