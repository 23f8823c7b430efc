//! Errors at the edge: every error becomes one gRPC status with details that a program can read. `ErrorInfo` names the
//! reason. `BadRequest` names the field, its value, and what would be accepted. `RetryInfo` says when to try again.

#![expect(
    clippy::disallowed_types,
    reason = "the facts of an ErrorInfo are a HashMap in tonic-types; nothing iterates"
)]

use std::collections::HashMap;
use std::time::Duration;

use borough_kv::ErrorCode;
use borough_model::job::FieldChange;
use borough_model::job::file::file_value_text;
use borough_model::node::{NodeRefusal, RefusalCause};
use borough_model::{FieldError, Name};
use borough_proto::bounds::text_cut;
use borough_proto::convert::{FieldRefused, name_from_text};
use borough_scheduler_core::ProfileError;
use borough_store::{RefusalRemedy, StoreError, error_chain};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// The domain of every `ErrorInfo`.
pub const DOMAIN: &str = "borough";

/// How long a caller should wait before it repeats a request that the store could not take.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// The same for a caller beyond a limit.
const EXHAUSTED_RETRY_AFTER: Duration = Duration::from_secs(2);

/// Bytes of a refused value that are shown.
const VALUE_BYTES_MAX: usize = 100;

/// Bytes of the path of a refused field that are shown: the caller may choose parts of it.
const PATH_BYTES_MAX: usize = 200;

/// Bytes of all refused fields that are shown. The trailers contain them twice, and gRPC clients accept 8 KiB of
/// trailers by default.
const FIELDS_BYTES_MAX: usize = 1_200;

/// A status with its reason.
pub fn status_with(
    code: Code,
    reason: &str,
    message: impl Into<String>,
    facts: HashMap<String, String>,
) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, DOMAIN, facts);
    Status::with_error_details(code, message, details)
}

/// Refuses one field.
pub fn status_from_field(refused: &FieldRefused) -> Status {
    status_from_lines(&[(refused.field.as_str(), refused_line(refused))])
}

/// Reads a name, or refuses its field.
pub(crate) fn name_read(field: &str, text: &str) -> Result<Name, Status> {
    name_from_text(field, text).map_err(|refused| status_from_field(&refused))
}

/// Reads the user and the name of what a request means.
pub(crate) fn names_read(user: &str, name: &str) -> Result<(Name, Name), Status> {
    Ok((name_read("user", user)?, name_read("name", name)?))
}

/// Refuses every bad field of a spec.
pub fn status_from_validation(errors: &[FieldError]) -> Status {
    status_from_lines(&errors.iter().map(error_line).collect::<Vec<_>>())
}

/// The field and the line of an error of the model, which shows the value itself, such as `3 ports`.
fn error_line(FieldError { path, value, accepted }: &FieldError) -> (&str, String) {
    (path, format!("{path}: {}; accepted: {accepted}", quotes_cut(&escaped(value))))
}

/// Refuses a field that names no scoring profile.
pub fn status_from_profile(field: &str, value: &str, error: &ProfileError) -> Status {
    status_from_field(&FieldRefused::new(field, value, error.to_string()))
}

/// What is wrong with one field, and what would be right.
fn refused_line(FieldRefused { field, value, accepted }: &FieldRefused) -> String {
    // The text of a parser says both, and has the value.
    if accepted.contains("accepted") {
        return format!("{field}: {}", quotes_cut(&escaped(accepted)));
    }
    let value = if value.is_empty() { "missing or empty".to_owned() } else { value_shown(value) };
    format!("{field}: {value}; accepted: {accepted}")
}

/// A text with each part in quotes shortened if it is long: what is accepted stands behind it.
fn quotes_cut(text: &str) -> String {
    let parts = text.split('"').map(|part| {
        let mut shown = part.to_owned();
        if shown.len() > VALUE_BYTES_MAX && !part.contains("accepted: ") {
            text_cut(&mut shown, VALUE_BYTES_MAX);
            shown.push_str("...");
        }
        shown
    });
    parts.collect::<Vec<_>>().join("\"")
}

/// A text without control characters.
fn escaped(text: &str) -> String {
    let plain = |each: char| {
        if each.is_control() { each.escape_default().to_string() } else { each.to_string() }
    };
    text.chars().map(plain).collect()
}

/// Refuses fields, each with the line that says why.
pub(crate) fn status_from_lines(fields: &[(&str, String)]) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info("FIELD_REFUSED", DOMAIN, HashMap::<String, String>::new());
    let mut lines = Vec::with_capacity(fields.len());
    let mut bytes = 0_usize;
    for (place, (field, line)) in fields.iter().enumerate() {
        let mut line = line.clone();
        text_cut(&mut line, FIELDS_BYTES_MAX);
        bytes = bytes.saturating_add(line.len());
        if bytes > FIELDS_BYTES_MAX && place > 0 {
            lines.push(format!("and {} more fields", fields.len() - place));
            break;
        }
        let mut path = (*field).to_owned();
        text_cut(&mut path, PATH_BYTES_MAX);
        details.add_bad_request_violation(path, line.clone());
        lines.push(line);
    }
    Status::with_error_details(Code::InvalidArgument, lines.join("\n"), details)
}

/// A value in quotation marks, shortened if it is long.
fn value_shown(value: &str) -> String {
    let mut shown = value.to_owned();
    text_cut(&mut shown, VALUE_BYTES_MAX);
    if shown.len() == value.len() {
        format!("{value:?}")
    } else {
        format!("{shown:?}... ({} bytes)", value.len())
    }
}

/// `NOT_FOUND`: `what` does not exist.
pub fn status_not_found(what: &str) -> Status {
    status_with(Code::NotFound, "NOT_FOUND", format!("there is no {what}"), HashMap::new())
}

/// `FAILED_PRECONDITION`: the state of a thing forbids the request.
pub fn status_refused(reason: &str, message: impl Into<String>) -> Status {
    status_with(Code::FailedPrecondition, reason, message, HashMap::new())
}

/// `UNAVAILABLE`: the same request may be repeated later.
pub fn status_unavailable(reason: &str, message: impl Into<String>) -> Status {
    status_unavailable_of(reason, message, [])
}

/// As [`status_unavailable`], with facts about the reason.
pub fn status_unavailable_of<const N: usize>(
    reason: &str,
    message: impl Into<String>,
    facts: [(&str, String); N],
) -> Status {
    let facts: HashMap<String, String> =
        facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, facts);
    details.set_retry_info(Some(RETRY_AFTER));
    Status::with_error_details(Code::Unavailable, message, details)
}

/// All connections that are not reserved for agents are taken; the same request may be repeated.
pub fn status_connections_exhausted() -> Status {
    let message = "this gateway has as many connections as it may; close some, ask another gateway, or start it with \
                   a larger --connections-max";
    status_exhausted("CONNECTIONS_EXHAUSTED", message)
}

/// A limit is reached that others may free soon.
pub(crate) fn status_exhausted(reason: &str, message: impl Into<String>) -> Status {
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, HashMap::<String, String>::new());
    details.set_retry_info(Some(EXHAUSTED_RETRY_AFTER));
    Status::with_error_details(Code::ResourceExhausted, message, details)
}

/// Converts an error of the layer, by what the caller should do about it.
pub fn status_from_store(error: &StoreError) -> Status {
    let message = error_chain(error);
    match error {
        StoreError::Kv(kv) => status_from_kv(kv.code, message),
        StoreError::NotFound { .. } | StoreError::CellUnknown { .. } => {
            status_with(Code::NotFound, "NOT_FOUND", message, HashMap::new())
        }
        StoreError::AlreadyExists { .. } => {
            status_with(Code::AlreadyExists, "ALREADY_EXISTS", message, HashMap::new())
        }
        StoreError::CellClosed { .. } => status_refused("CELL_CLOSED", message),
        StoreError::JournalTrimmed { .. } => {
            status_with(Code::OutOfRange, "CURSOR_TRIMMED", message, HashMap::new())
        }
        StoreError::ForeignEpoch { .. } => {
            status_with(Code::OutOfRange, "CURSOR_FOREIGN", message, HashMap::new())
        }
        StoreError::RequestReused { .. } => {
            status_with(Code::AlreadyExists, "REQUEST_ID_REUSED", message, HashMap::new())
        }
        StoreError::TooLarge { .. } => {
            status_with(Code::InvalidArgument, "TOO_LARGE", message, HashMap::new())
        }
        StoreError::JournalFull { .. } => status_exhausted("JOURNAL_FULL", message),
        StoreError::EndedJobsFull { .. } => status_exhausted("ENDED_JOBS_FULL", message),
        StoreError::LeaseLost { .. } => status_with(Code::Aborted, "LEASE_LOST", message, HashMap::new()),
        StoreError::DamagedValue { .. } | StoreError::DamagedKey { .. } => {
            tracing::error!(error = %message, "damaged store");
            status_with(Code::DataLoss, "STORE_DAMAGED", message, HashMap::new())
        }
        StoreError::Unencodable { .. } => status_with(Code::Internal, "UNENCODABLE", message, HashMap::new()),
        StoreError::InvalidSpec { errors } => status_from_validation(errors),
        StoreError::NodeRefused(refusal) => status_node_refused(refusal),
        StoreError::NeedsUpdate { job, changes } => status_needs_update(*job, changes),
        StoreError::Refused { remedy, .. } => status_refused(reason_of(*remedy), message),
        _ => status_refused("REFUSED", message),
    }
}

/// The reason of a refusal, which says what to do about it.
fn reason_of(remedy: RefusalRemedy) -> &'static str {
    match remedy {
        RefusalRemedy::ChangeState => "REFUSED",
        RefusalRemedy::ReadAgain => "OUTDATED",
        RefusalRemedy::Wait => "NOT_YET",
        RefusalRemedy::Quota => "QUOTA_EXCEEDED",
        RefusalRemedy::Capacity => "CAPACITY_EXCEEDED",
    }
}

/// An agent may not register: names both agents and what to do. A retry can only help while the lease is still renewed.
fn status_node_refused(refusal: &NodeRefusal) -> Status {
    let message = refusal.to_string();
    match refusal.cause {
        RefusalCause::OtherAgent => {
            status_with(Code::PermissionDenied, "NODE_OTHER_AGENT", message, HashMap::new())
        }
        RefusalCause::Superseded => {
            status_with(Code::PermissionDenied, "NODE_SUPERSEDED", message, HashMap::new())
        }
        RefusalCause::StillBeats => status_unavailable("NODE_STILL_BEATS", message),
    }
}

/// Why fields of a running job are not changed. `job` names the job.
pub(crate) fn refusal_of_fixed(job: &str, fixed: &[FieldChange]) -> String {
    let fields = fixed.iter().map(|change| change.path.as_str()).collect::<Vec<_>>().join(", ");
    format!(
        "{job} has not ended, and keeps its kind, gang, scheduler and alloc set until then: {fields} cannot change"
    )
}

/// The job runs and keeps these fields: the difference, one violation per field.
fn status_needs_update(job: borough_model::JobId, changes: &[FieldChange]) -> Status {
    let shown = |value: &Option<serde_json::Value>| {
        value.as_ref().map_or_else(|| "absent".to_owned(), file_value_text)
    };
    let mut details = ErrorDetails::new();
    let facts = HashMap::from([("job_id".to_owned(), job.to_string())]);
    details.set_error_info("JOB_DIFFERS", DOMAIN, facts);
    let mut message = format!("{}:", refusal_of_fixed("a job of that name", changes));
    for change in changes {
        let line = format!("{}: {} -> {}", change.path, shown(&change.old), shown(&change.new));
        message.push_str("\n  ");
        message.push_str(&line);
        details.add_precondition_failure_violation("JOB_DIFFERS", change.path.clone(), line);
    }
    Status::with_error_details(Code::FailedPrecondition, message, details)
}

fn status_from_kv(code: ErrorCode, message: String) -> Status {
    match code {
        ErrorCode::NoSpace => status_unavailable("STORE_FULL", message),
        ErrorCode::ShortOfResources => status_unavailable("STORE_SHORT_OF_RESOURCES", message),
        code if code.is_retryable() => status_unavailable("STORE_BUSY", message),
        ErrorCode::TransactionTimedOut => {
            status_with(Code::DeadlineExceeded, "STORE_TIMED_OUT", message, HashMap::new())
        }
        _ => {
            tracing::error!(error = %message, "store error");
            status_with(Code::Internal, "STORE_ERROR", message, HashMap::new())
        }
    }
}

#[cfg(test)]
mod tests {
    use borough_scheduler_core::ScoringProfile;

    use super::*;

    /// What a stock gRPC client accepts of trailers by default.
    const TRAILERS_BYTES_MAX: usize = 8 << 10;

    #[test]
    fn a_refusal_fits_into_the_trailers_of_any_client() {
        let long = "\u{1b}é".repeat(50_000);
        let error = |at| FieldError {
            path: format!("task.{at}.{long}"),
            value: long.clone(),
            accepted: "a word".to_owned(),
        };
        let many: Vec<_> = (0..500).map(error).collect();
        let one = FieldRefused::new("node", long.as_str(), "a name");
        for status in [status_from_validation(&many), status_from_field(&one)] {
            // Details travel as base64, and each byte of the message as up to three.
            let bytes = status.message().len() * 3 + status.details().len() * 4 / 3;
            assert!(bytes < TRAILERS_BYTES_MAX, "{bytes} bytes");
            assert!(!status.get_error_details().bad_request().unwrap().field_violations.is_empty());
        }
    }

    #[test]
    fn a_long_value_leaves_room_for_what_is_accepted() {
        let long = "x".repeat(100_000);
        let error = long.parse::<ScoringProfile>().unwrap_err();
        let of_profile = status_from_profile("profile", &long, &error);
        let path = FieldError {
            path: "queues[0].path".to_owned(),
            value: format!("{long:?}"),
            accepted: "names".to_owned(),
        };
        for (status, end) in [(of_profile, "worst-fit"), (status_from_validation(&[path]), "accepted: names")]
        {
            let message = status.message();
            assert!(message.len() < 500 && message.contains("x...\"") && message.ends_with(end), "{message}");
        }
    }

    /// A program tells by the reason whether to read again, to wait, or to ask for something else.
    #[test]
    fn a_refusal_of_the_store_says_by_its_reason_what_to_do() {
        let of = |remedy| status_from_store(&StoreError::refused_with(remedy, "why"));
        for (remedy, reason) in [
            (RefusalRemedy::ChangeState, "REFUSED"),
            (RefusalRemedy::ReadAgain, "OUTDATED"),
            (RefusalRemedy::Wait, "NOT_YET"),
            (RefusalRemedy::Quota, "QUOTA_EXCEEDED"),
            (RefusalRemedy::Capacity, "CAPACITY_EXCEEDED"),
        ] {
            let status = of(remedy);
            assert_eq!(status.get_details_error_info().unwrap().reason, reason);
            assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "why"));
        }
    }

    /// Each kind of refusal has the field, the value once and in one pair of quotes, and what is accepted.
    #[test]
    fn a_refusal_reads_as_one_sentence() {
        let of_name = |text: &str| status_from_field(&name_from_text("cell", text).unwrap_err());
        let key = FieldError {
            path: "labels[\"a b\"]".to_owned(),
            value: "\"a b\"".to_owned(),
            accepted: "1 to 128 of a-z".to_owned(),
        };
        let profile = "besst".parse::<ScoringProfile>().unwrap_err();
        for (status, begin) in [
            (status_from_field(&FieldRefused::new("node", "A", "a name")), "node: \"A\"; accepted: a name"),
            (
                status_from_field(&FieldRefused::new("task", "", "what it runs")),
                "task: missing or empty; accepted: ",
            ),
            (of_name(""), "cell: the name \"\" is empty; accepted: 1 to 63 of"),
            (of_name("A B"), "cell: the name \"A B\" has 'A' at position 1; accepted: a-z, 0-9 and -"),
            (status_from_validation(&[key]), "labels[\"a b\"]: \"a b\"; accepted: 1 to 128 of a-z"),
            (
                status_from_profile("profile", "besst", &profile),
                "profile: unknown scoring profile \"besst\"; accepted: best-fit, ",
            ),
        ] {
            let message = status.message();
            assert!(message.starts_with(begin), "{message}");
            assert_eq!(message.matches("accepted").count(), 1, "{message}");
        }
    }
}
