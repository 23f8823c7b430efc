//! What a step expects: of an error, and of the time that it takes.

use borough_client::{ClientError, JobSpecRefused, WaitError};
use serde_json::{Value, json};

/// An error as the scenarios see it.
pub(super) struct Failed {
    kind: &'static str,
    code: Box<str>,
    reason: Box<str>,
    fields: Box<[String]>,
    changes: bool,
    /// Of a dry run, each as SUBJECT: TEXT.
    effects: Box<[String]>,
    message: String,
}

impl Failed {
    fn new(kind: &'static str, message: String) -> Self {
        Self {
            kind,
            code: Box::default(),
            reason: Box::default(),
            fields: Box::default(),
            changes: false,
            effects: Box::default(),
            message,
        }
    }

    /// A step that did not do what it says.
    pub(super) fn otherwise(message: impl Into<String>) -> Self {
        Self::new("otherwise", message.into())
    }
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        let failed = |kind| Self::new(kind, message.clone());
        match &error {
            ClientError::Unreachable { .. } => failed("unreachable"),
            ClientError::Deadline { changes, .. } => Self { changes: *changes, ..failed("deadline") },
            ClientError::DryRun { answer, .. } => {
                let effects = answer.effects.iter();
                let effects = effects.map(|effect| format!("{}: {}", effect.subject, effect.text)).collect();
                Self { changes: answer.changes, effects, ..failed("dry_run") }
            }
            ClientError::NotGateway { .. } => failed("not_gateway"),
            ClientError::TokenRefused { .. } => failed("token_refused"),
            ClientError::Refused(refusal) => Self {
                code: format!("{:?}", refusal.code).into(),
                reason: refusal.reason.as_str().into(),
                fields: refusal.fields.iter().map(|violation| violation.field.clone()).collect(),
                ..failed("refused")
            },
            _ => failed("invalid"),
        }
    }
}

impl From<JobSpecRefused> for Failed {
    fn from(refused: JobSpecRefused) -> Self {
        Self { fields: refused.problems.as_slice().into(), ..Self::new("invalid", refused.to_string()) }
    }
}

impl From<WaitError> for Failed {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Call(error) => error.into(),
            late @ WaitError::Late { .. } => Self::new("late", late.to_string()),
        }
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, code, reason, message, fields, effects, .. } = self;
        write!(f, "{kind} {code} {reason} {fields:?} {effects:?}: {message}")
    }
}

/// Checks what came of a step.
///
/// # Errors
/// It is not what the step expects.
pub(super) fn check(step: &Value, outcome: Result<(), Failed>) -> Result<(), String> {
    let expected = &step["error"];
    let failed = match (outcome, expected.is_object()) {
        (Ok(()), false) => return Ok(()),
        (Ok(()), true) => return Err(format!("succeeded, and {expected} was expected")),
        (Err(failed), false) => return Err(failed.to_string()),
        (Err(failed), true) => failed,
    };
    // The codes of the library have no underscores.
    let code = expected["code"].as_str().map(|code| code.replace('_', ""));
    let as_said = [
        expected["kind"].as_str().is_none_or(|kind| kind == failed.kind),
        code.is_none_or(|code| code.eq_ignore_ascii_case(&failed.code)),
        expected["reason"].as_str().is_none_or(|reason| *reason == *failed.reason),
        expected["field"]
            .as_str()
            .is_none_or(|field| failed.fields.iter().any(|known| known.contains(field))),
        expected["changes"].is_null() || expected["changes"] == json!(failed.changes),
        expected["effect"]
            .as_str()
            .is_none_or(|effect| failed.effects.iter().any(|known| known.starts_with(effect))),
        expected["says"].as_str().is_none_or(|text| failed.message.contains(text)),
    ];
    if as_said == [true; 7] { Ok(()) } else { Err(format!("{failed}; expected: {expected}")) }
}
