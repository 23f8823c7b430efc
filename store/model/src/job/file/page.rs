//! The tables of fields in `docs/job-files.md`.

use super::{FieldInfo, FileMessage as _, fields_flat};
use crate::job::{JobSpec, TaskSpec};

/// The tables with the marks around them on the page: `<!-- fields of a job -->` and `<!-- end of fields -->`.
pub const PAGE_MARKS: [(&str, &[FieldInfo]); 2] =
    [("<!-- fields of a job -->", JobSpec::FIELDS), ("<!-- fields of task -->", TaskSpec::FIELDS)];

/// A table in Markdown, one row per field.
pub fn page_table(fields: &'static [FieldInfo]) -> String {
    let row = |field: &&FieldInfo| format!("| `{}` | {} | {} |\n", field.file, field.value, field.default);
    let rows: String = fields_flat(fields).iter().map(row).collect();
    format!("| field | value | default |\n|---|---|---|\n{rows}")
}
