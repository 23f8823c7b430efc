//! The exit codes of the program. The numbers are stable: scripts depend on them.
//!
//! | code | meaning |
//! |-----:|---------|
//! | 0 | done; for `job plan` and `--dry-run`: no change |
//! | 1 | the request failed: a job failed, a wait timed out, output could not be read; for `job plan` and `--dry-run`: there is a change |
//! | 2 | wrong usage, or an invalid job file; for `job plan`: the job would be refused |
//! | 3 | no such job, task, attempt, node, cell, context or store |
//! | 4 | refused: a condition is not met, another request was first, a limit is reached, or a file or context is there already |
//! | 5 | no gateway could be reached, or none answered in time, or none answers when a wait times out; the agent of a task's node does not answer |
//! | 6 | not allowed: no token, a wrong one, or one without this right |
//! | 7 | not done yet: the wait of `node drain` or `cell drain` timed out, and the drain continues |
//! | 74 | a role: its store has stopped, or cannot be read or written (`EX_IOERR` of sysexits.h). Its supervisor starts it again |
//! | 130 | interrupted |
//! | 255 | `job plan`, `store check` and `task exec`: the verb failed. `task exec` otherwise ends with the command's own code, or with 128 and its signal |

use std::time::Duration;

use borough_client::{ClientError, GatewayAbsence, GatewayRefusal};
use borough_proto::v1::DryRunResponse;

/// A code of the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Done,
    /// For `job plan` and `--dry-run`: there is a change. Not an error.
    Changed,
    /// For `job plan`: the gateway would refuse the job. Not an error of the plan.
    WouldBeRefused,
    Failed,
    Usage,
    NotFound,
    Refused,
    Unreachable,
    NotAllowed,
    NotDone,
    /// The store of a role has stopped, or cannot be read or written.
    StoreFailed,
    Interrupted,
    /// The code of the command of `task exec`.
    Command(u8),
}

impl Code {
    /// The number the process ends with.
    pub fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Changed | Self::Failed => 1,
            Self::Usage | Self::WouldBeRefused => 2,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Unreachable => 5,
            Self::NotAllowed => 6,
            Self::NotDone => 7,
            Self::StoreFailed => 74,
            Self::Interrupted => 130,
            Self::Command(number) => number,
        }
    }
}

/// The code of a failed verb whose other codes already have a meaning.
pub const VERB_FAILED: u8 = 255;

/// With which numbers a verb fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureNumbers {
    /// Those of the table.
    Table,
    /// [`VERB_FAILED`] for every failure, except a wrong command line.
    One,
    /// Those of `job plan`: what keeps the job from being admitted is its answer, and anything else a failure.
    Plan,
}

impl FailureNumbers {
    /// The number that the process ends with after a failure of this code.
    pub fn number(self, code: Code) -> u8 {
        match (self, code) {
            (Self::Table, code) | (_, code @ (Code::Interrupted | Code::Command(_))) => code.number(),
            (Self::Plan, Code::Usage | Code::Refused) => Code::WouldBeRefused.number(),
            // Nothing was done by then, and the command line says so itself.
            (Self::One, Code::Usage) => code.number(),
            (Self::One | Self::Plan, _) => VERB_FAILED,
        }
    }
}

/// Why a verb failed: one clear line, a hint, and the code.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    message: String,
    details: Vec<String>,
    hint: Option<String>,
    /// The verb ended here because it was a dry run: no failure at all.
    dry_run: Option<Box<DryRunResponse>>,
}

impl Failure {
    /// A failure with its one line.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: without_numbers(&message.into()),
            details: Vec::new(),
            hint: None,
            dry_run: None,
        }
    }

    /// The end of a verb by a dry run, which is no failure.
    pub fn of_dry_run(answer: DryRunResponse) -> Self {
        let code = if answer.changes { Code::Changed } else { Code::Done };
        Self { dry_run: Some(Box::new(answer)), ..Self::new(code, "a dry run: nothing has changed") }
    }

    /// What the change would do, if the verb ended by a dry run.
    pub fn dry_run(&self) -> Option<&DryRunResponse> {
        self.dry_run.as_deref()
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds a hint if there is one.
    #[must_use]
    pub fn with_hint_if(self, hint: Option<String>) -> Self {
        match hint {
            Some(hint) => self.with_hint(hint),
            None => self,
        }
    }

    /// Adds the command that lists what there is, if what was named is not there.
    #[must_use]
    pub(crate) fn with_list_hint(self, list: &str) -> Self {
        if self.code == Code::NotFound { self.with_hint(list) } else { self }
    }

    /// Adds further lines.
    #[must_use]
    pub fn with_details(self, details: Vec<String>) -> Self {
        Self { details, ..self }
    }

    /// Names the options of the command line instead of the fields of the request that a gateway has refused.
    #[must_use]
    pub fn with_fields_as(self, options: &[(&str, &str)]) -> Self {
        let lines = self.message.lines().map(|line| line_of_option(line, options));
        Self { message: lines.collect::<Vec<_>>().join("\n"), ..self }
    }

    /// Replaces lines of a gateway's refusal, each one for which `other` has another.
    #[must_use]
    pub fn with_lines(self, other: impl Fn(&str) -> Option<String>) -> Self {
        let lines = self.message.lines().map(|line| other(line).unwrap_or_else(|| line.to_owned()));
        Self { message: lines.collect::<Vec<_>>().join("\n"), ..self }
    }

    /// Adds the name that may be meant, if there is one.
    #[must_use]
    pub(crate) fn with_near(self, near: Option<&str>) -> Self {
        let meant = near.map(|near| format!(", did you mean {near:?}?")).unwrap_or_default();
        Self { message: self.message + &meant, ..self }
    }

    /// Puts the place before the message, such as a line of a job file.
    #[must_use]
    pub fn at(self, place: &str) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    /// Returns true if a gateway has refused this field.
    pub fn is_of_field(&self, field: &str) -> bool {
        self.code == Code::Usage && self.message.lines().any(|line| is_of_field(line, field))
    }

    pub fn code(&self) -> Code {
        self.code
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn details(&self) -> &[String] {
        &self.details
    }

    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Returns true if a line begins with `field`, or with one within it.
fn is_of_field(line: &str, field: &str) -> bool {
    line.strip_prefix(field).is_some_and(|rest| rest.starts_with([':', '.', '[']))
}

/// A line with the option that sets its field. The value shows which of several it is.
fn line_of_option(line: &str, options: &[(&str, &str)]) -> String {
    let known = options.iter().find(|(field, _)| is_of_field(line, field));
    let named = known.and_then(|(_, option)| Some(format!("{option}: {}", line.split_once(": ")?.1)));
    named.unwrap_or_else(|| line.to_owned())
}

/// A text without what the standard library puts around an error of the system: its capital, and ` (os error 2)`.
fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(" (os error ") {
        let words = before.rfind([':', '(']).map_or(0, |at| at + 1);
        let (place, words) = before.split_at(words);
        let from = words.find(|each: char| !each.is_whitespace()).unwrap_or(words.len());
        let (blank, words) = words.split_at(from);
        let mut letters = words.chars();
        let first = letters.next().map(|first| first.to_ascii_lowercase());
        plain.extend([place, blank]);
        plain.extend(first);
        plain.push_str(letters.as_str());
        rest = behind.split_once(')').map_or(behind, |(_, behind)| behind);
    }
    plain + rest
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::from(&error)
    }
}

impl From<&ClientError> for Failure {
    fn from(error: &ClientError) -> Self {
        of_client(error).with_hint_if(error.agent_away().as_ref().and_then(away_hint))
    }
}

/// What is said once while no gateway answers: which ones, and for how long the program tries.
pub fn absence_text(absence: &GatewayAbsence) -> String {
    absence_text_within(absence, None)
}

/// The same, if the program tries no longer than `left`.
pub fn absence_text_within(absence: &GatewayAbsence, left: Option<Duration>) -> String {
    let text = match absence.gives_up_in.into_iter().chain(left).min() {
        Some(left) => format!("trying again for {}", humantime::format_duration(tenths(left))),
        None => "trying again until one does".to_owned(),
    };
    format!("{}; {text}", Failure::from(&*absence.error).message())
}

/// A time that nobody reads in nanoseconds: the next tenth of a second, and from ten seconds on the next second.
pub(crate) fn tenths(time: Duration) -> Duration {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let step = if millis < 10_000 { 100 } else { 1_000 };
    Duration::from_millis(millis.div_ceil(step).saturating_mul(step))
}

/// What to run about an agent that is away.
pub fn away_hint(away: &GatewayRefusal) -> Option<String> {
    let of = |name: &str| away.metadata.get(name);
    Some(format!("borough node status {}; borough why {}", of("node")?, of("task")?))
}

fn of_client(error: &ClientError) -> Failure {
    match error {
        ClientError::Refused(refusal) => refused(refusal),
        ClientError::Unreachable { gateways, source, .. } => unreachable(gateways, source.as_deref()),
        ClientError::Deadline { changes: true, .. } => Failure::new(Code::Unreachable, error.to_string())
            .with_hint("the change may or may not have been made: look at the job, or repeat the command"),
        ClientError::Deadline { .. } => Failure::new(Code::Unreachable, error.to_string())
            .with_hint("nothing was changed; repeat the command, or look at the gateway's log"),
        ClientError::NotGateway { .. } => Failure::new(Code::Unreachable, error.to_string())
            .with_hint("a gateway prints the address of its gRPC port when it starts: --gateway HOST:PORT"),
        // The gateway may say what makes another token.
        ClientError::TokenRefused { refusal, .. } if refusal.message.contains(": borough auth ") => {
            Failure::new(Code::NotAllowed, error.to_string())
        }
        ClientError::TokenRefused { .. } => {
            Failure::new(Code::NotAllowed, error.to_string()).with_hint(TOKEN_HINT)
        }
        ClientError::Address { .. } | ClientError::NoGateway => Failure::new(Code::Usage, error.to_string()),
        ClientError::TokenFile { path, source } => {
            let hint = match source.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    "only the user who runs the cell can read the token file"
                }
                _ => "say where the token is: --token-file FILE or BOROUGH_TOKEN_FILE",
            };
            Failure::new(Code::NotAllowed, token_file_text(&path.display().to_string(), error, source))
                .with_hint(hint)
        }
        ClientError::TokenText { token, .. } => {
            let is_dev = token.ends_with("(of the dev cell)");
            let hint = if is_dev {
                "remove the file, and start `borough dev` again: it writes one"
            } else {
                TOKEN_HINT
            };
            Failure::new(Code::NotAllowed, error.to_string()).with_hint(hint)
        }
        ClientError::DryRun { answer, .. } => Failure::of_dry_run(DryRunResponse::clone(answer)),
        ClientError::Incomplete { .. } => Failure::new(Code::Failed, error.to_string()),
    }
}

/// What is wrong with a token file. Our own words on a file are a sentence about it.
fn token_file_text(path: &str, error: &ClientError, source: &std::io::Error) -> String {
    match source.kind() {
        std::io::ErrorKind::InvalidData => format!("the token file {path:?} is no text"),
        std::io::ErrorKind::Other => format!("the token file {path:?} {source}"),
        _ => format!("{error}: {source}"),
    }
}

const TOKEN_HINT: &str =
    "--token-file or BOROUGH_TOKEN_FILE say where the token is; `borough dev` writes one";

fn unreachable(gateways: &[String], source: Option<&tonic::Status>) -> Failure {
    // A status without a cause in this process comes from a gateway: it answers, and says what is unavailable.
    let own = |status: &&tonic::Status| {
        std::error::Error::source(*status).is_none() && !status.message().is_empty()
    };
    if let Some(status) = source.filter(own) {
        return Failure::new(Code::Unreachable, status.message());
    }
    let mut message = format!("no gateway answers at {}", gateways.join(", "));
    if let Some(reason) = source.and_then(innermost) {
        message = format!("{message} ({reason})");
    }
    let hint = "start one with `borough dev`, or say where it is: --gateway HOST:PORT or BOROUGH_GATEWAY";
    Failure::new(Code::Unreachable, message).with_hint(hint)
}

/// A server says so after it has shaken hands.
const CERTIFICATE_REFUSED: &str = "it does not accept the certificate";

/// What causes of the libraries mean. The first that fits counts; another is said as it is, if it is of the system.
const CAUSES: [(&str, &str); 9] = [
    ("received fatal alert", CERTIFICATE_REFUSED),
    ("lookup address information", "its host name has no address"),
    ("unexpected end of file", "it closed the connection"),
    ("connection closed", "it closed the connection"),
    ("broken pipe", "it closed the connection"),
    ("connection reset", "it closed the connection"),
    ("deadline has elapsed", "no answer in time"),
    ("transport error", "the connection failed"),
    ("error sending request", "the connection failed"),
];

/// The innermost cause says most: "connection refused" rather than "transport error".
fn innermost(status: &tonic::Status) -> Option<String> {
    let own = || Some(status.message().to_owned()).filter(|text| !text.is_empty()).map(known_cause);
    std::error::Error::source(status).map(cause_text).or_else(own)
}

/// The innermost cause of an error, in words for people.
pub(crate) fn cause_text(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    known_cause(innermost.to_string())
}

fn known_cause(text: String) -> String {
    let known = CAUSES.iter().find(|(part, _)| text.contains(part));
    known.map_or(text, |(_, own)| (*own).to_owned())
}

/// What runs a job that is over.
pub(crate) const RUN_AGAIN: &str = "to run it again, from its file: borough job run FILE";

fn refused(refusal: &GatewayRefusal) -> Failure {
    let (code, hint) = match refusal.code {
        tonic::Code::InvalidArgument => (Code::Usage, None),
        // The gateway lists the cells that it has. A context may name one that is gone.
        tonic::Code::NotFound if refusal.message.starts_with("there is no cell ") => {
            (Code::NotFound, Some("borough cell list"))
        }
        tonic::Code::NotFound => (Code::NotFound, None),
        // The gateway knows the caller, and says what is missing and who gives it.
        tonic::Code::PermissionDenied if refusal.reason == "ACCESS_REFUSED" => (Code::NotAllowed, None),
        tonic::Code::PermissionDenied if refusal.reason == "OTHER_USER" => {
            (Code::NotAllowed, Some("leave --user and BOROUGH_USER out, or name the user of the credential"))
        }
        tonic::Code::Unauthenticated | tonic::Code::PermissionDenied => (Code::NotAllowed, Some(TOKEN_HINT)),
        tonic::Code::DeadlineExceeded | tonic::Code::Unavailable => (Code::Unreachable, None),
        tonic::Code::FailedPrecondition if refusal.reason == "CELL_CLOSED" => {
            (Code::Refused, Some("borough cell list"))
        }
        _ if refusal.reason == "QUOTA_EXCEEDED" => (Code::Refused, Some("borough quota status")),
        tonic::Code::FailedPrecondition if refusal.message.ends_with("its job does not run") => {
            (Code::Refused, Some(RUN_AGAIN))
        }
        tonic::Code::FailedPrecondition
        | tonic::Code::Aborted
        | tonic::Code::AlreadyExists
        | tonic::Code::ResourceExhausted
        | tonic::Code::OutOfRange
        | tonic::Code::Unimplemented => (Code::Refused, None),
        _ => (Code::Failed, None),
    };
    // A gateway's message repeats its details for clients that show nothing else.
    let is_new = |said: &&str| !refusal.message.contains(*said);
    let fields = refusal.fields.iter().filter(|field| is_new(&field.description.as_str()));
    let fields = fields.map(|field| format!("{}: {}", field.field, field.description));
    let unmet = refusal.preconditions.iter().filter(|unmet| is_new(&unmet.description.as_str()));
    let unmet = unmet.map(|unmet| format!("{}: {}", unmet.subject, unmet.description));
    let mut failure = Failure::new(code, refusal.to_string()).with_details(fields.chain(unmet).collect());
    let never_placed = refusal.metadata.get("task").filter(|_| refusal.reason == "NEVER_PLACED");
    failure.hint = never_placed.map(|task| format!("borough why {task}")).or_else(|| hint.map(str::to_owned));
    failure
}

#[cfg(test)]
mod tests;
