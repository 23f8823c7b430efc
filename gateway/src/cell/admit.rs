//! The way of every request to its cell: who asks, for whom, and whether the grants allow it.

use std::sync::Arc;

use borough_model::Name;
use borough_model::access::{AccessRefused, ActionNeed, Identity, Right};
use borough_proto::bounds::text_cut;
use borough_proto::convert::{FieldRefused, name_from_text};
use borough_proto::v1;
use http::Extensions;
use tonic::{Code, Request, Status};

use super::ask::Ask;
use super::context::{Caller, CellContext, Cells, caller_of_mutation, caller_of_read};
use super::dry_run::DryRunMark;
use super::ongoing::OngoingCall;
use crate::auth::{CredentialEnd, NODE_TOKEN_ONLY, Principal};
use crate::call::{CallAbout, CallKind, CallTrace};
use crate::status::{status_from_field, status_unavailable, status_with};

/// Bytes of a name in a refusal, which the caller has chosen.
const NAME_BYTES_SHOWN: usize = 80;

/// A request that may be done, with its cell.
pub(crate) struct Asked<'a, M> {
    pub cell: &'a Arc<CellContext>,
    pub message: M,
}

/// Who calls, as the layers before have found out.
#[derive(Clone, Debug)]
pub(crate) struct CallSeen {
    pub(crate) principal: Principal,
    /// When its credential counts no longer; absent: it does not expire.
    pub(crate) end: Option<CredentialEnd>,
    pub(crate) trace: Arc<CallTrace>,
    /// It asks what would happen.
    pub(crate) dry_run: Option<DryRunMark>,
}

impl CallSeen {
    /// Reads the extensions of a request.
    ///
    /// # Errors
    /// Nothing has checked the caller.
    pub(crate) fn of(extensions: &Extensions) -> Result<Self, Status> {
        let principal = extensions.get::<Principal>().cloned();
        let principal = principal.ok_or_else(|| Status::unauthenticated("the call has no valid token"))?;
        let trace = extensions.get::<Arc<CallTrace>>().cloned().unwrap_or_default();
        trace.authenticated(&principal);
        let dry_run = extensions.get().cloned();
        Ok(Self { principal, end: extensions.get().copied(), trace, dry_run })
    }
}

/// What a request's credential proves. Without one, nothing has checked the caller.
pub(crate) fn principal_of(extensions: &Extensions) -> Result<Principal, Status> {
    CallSeen::of(extensions).map(|seen| seen.principal)
}

/// Completes a request as its caller meant it: without a user, it is in the name of the caller's own.
pub(crate) fn context_complete(
    principal: &Principal,
    context: &mut Option<v1::RequestContext>,
) -> Result<(), Status> {
    let identity = match principal {
        Principal::Operator => return Ok(()),
        Principal::Node(_) | Principal::Claimed(_) => return Err(Status::permission_denied(NODE_TOKEN_ONLY)),
        Principal::User(identity) => identity,
    };
    let context = context.get_or_insert_default();
    if context.user.is_empty() {
        context.user = identity.user.to_string();
    }
    if context.user == identity.user.as_str() { Ok(()) } else { Err(other_user(identity, &context.user)) }
}

fn other_user(identity: &Identity, claimed: &str) -> Status {
    let (own, mut claimed) = (&identity.user, claimed.escape_default().to_string());
    text_cut(&mut claimed, NAME_BYTES_SHOWN);
    let text = format!(
        "the credential is of user {own}, and the call is in the name of {claimed}; only an operator's token acts for \
         others"
    );
    let facts = [("user".to_owned(), own.to_string())].into();
    status_with(Code::PermissionDenied, "OTHER_USER", text, facts)
}

/// Admits a message of a caller that changes nothing, or refuses it.
///
/// # Errors
/// `PERMISSION_DENIED` if the grants of the cell do not allow it; `NOT_FOUND` for another cell.
pub(crate) fn admit_message<'a, M: Ask>(
    cells: &'a Cells,
    seen: &CallSeen,
    mut message: M,
) -> Result<Asked<'a, M>, Status> {
    seen.trace.is_of(CallKind::Read);
    if seen.dry_run.is_some() {
        return Err(no_change(M::METHOD));
    }
    match read_allowed(cells, &seen.principal, &mut message) {
        Ok(cell) => Ok(Asked { cell, message }),
        Err(refused) => {
            seen.trace.is_about(about_of(&mut message));
            Err(refused)
        }
    }
}

/// The refusal of a dry run of what changes nothing, or is no method.
pub(crate) fn no_change(method: &str) -> Status {
    let accepted = "a method that changes something, such as StopJob or JobService/StopJob";
    status_from_field(&FieldRefused::new("method", method, accepted))
}

fn read_allowed<'a, M: Ask>(
    cells: &'a Cells,
    principal: &Principal,
    message: &mut M,
) -> Result<&'a Arc<CellContext>, Status> {
    context_complete(principal, message.context_mut())?;
    caller_of_read(message.context_mut().as_ref())?;
    cell_of(cells, principal, message)
}

/// What a message says of itself, for the audit.
fn about_of<M: Ask>(message: &mut M) -> CallAbout {
    let context = message.context_mut().clone();
    CallAbout::new(message.cell(), context.as_ref(), message.object())
}

/// The cell of a message, if the grants there allow it.
fn cell_of<'a, M: Ask>(
    cells: &'a Cells,
    principal: &Principal,
    message: &M,
) -> Result<&'a Arc<CellContext>, Status> {
    let cell = cells.get(message.cell())?;
    cell.allow(principal, M::METHOD, M::NEED, message.owner())?;
    Ok(cell)
}

/// As [`admit_message`], for a call whose answer is a stream.
///
/// # Errors
/// As there.
pub(crate) fn admit_stream<'a, M: Ask>(
    cells: &'a Cells,
    seen: &CallSeen,
    message: M,
) -> Result<(Asked<'a, M>, OngoingCall), Status> {
    let mut asked = admit_message(cells, seen, message)?;
    // Commands in tasks are recorded.
    seen.trace.is_about(about_of(&mut asked.message));
    let ongoing = OngoingCall {
        cell: Arc::clone(asked.cell),
        principal: seen.principal.clone(),
        end: seen.end,
        method: M::METHOD,
        need: M::NEED,
        owner: asked.message.owner().to_owned(),
    };
    Ok((asked, ongoing))
}

impl Cells {
    /// As [`admit_message`], for a request with its credential.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn admit_read<M: Ask>(&self, request: Request<M>) -> Result<Asked<'_, M>, Status> {
        let seen = CallSeen::of(request.extensions())?;
        admit_message(self, &seen, request.into_inner())
    }

    /// As [`admit_stream`], for a request with its credential.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn admit_watch<M: Ask>(
        &self,
        request: Request<M>,
    ) -> Result<(Asked<'_, M>, OngoingCall), Status> {
        let seen = CallSeen::of(request.extensions())?;
        admit_stream(self, &seen, request.into_inner())
    }

    /// Admits a request that changes something, under its request id.
    ///
    /// # Errors
    /// As [`admit_message`].
    pub(crate) fn admit_change<M: Ask>(
        &self,
        request: Request<M>,
    ) -> Result<(&Arc<CellContext>, Caller, M), Status> {
        let CallSeen { principal, trace, dry_run, .. } = CallSeen::of(request.extensions())?;
        let mut message = request.into_inner();
        trace.is_of(if dry_run.is_some() { CallKind::Read } else { CallKind::Change });
        if dry_run.is_some() {
            trace.is_dry_run_of(M::METHOD);
        }
        trace.is_about(about_of(&mut message));
        context_complete(&principal, message.context_mut())?;
        let mut caller = caller_of_mutation(message.context_mut().as_ref())?;
        let cell = cell_of(self, &principal, &message)?;
        caller.call = Some(Arc::new(trace.call(M::METHOD)));
        caller.dry_run = dry_run;
        Ok((cell, caller, message))
    }
}

impl CellContext {
    /// Decides whether `principal` may call a method that needs `need` for the work of `owner` (empty: of everybody).
    pub(crate) fn allow(
        &self,
        principal: &Principal,
        method: &str,
        need: ActionNeed,
        owner: &str,
    ) -> Result<(), Status> {
        let identity = match principal {
            Principal::Operator => return Ok(()),
            Principal::Node(_) | Principal::Claimed(_) => {
                return Err(Status::permission_denied(NODE_TOKEN_ONLY));
            }
            Principal::User(identity) => identity,
        };
        let owner = (!owner.is_empty()).then(|| name_from_text("user", owner)).transpose();
        let owner = owner.map_err(|refused| status_from_field(&refused))?;
        let table = self.access.table().ok_or_else(|| {
            let text = format!("the grants of cell {} are being loaded", self.name);
            status_unavailable("ACCESS_LOADING", text)
        })?;
        let decided = need.decide(&table, identity, owner.as_ref());
        decided.map(drop).map_err(|refused| {
            let asked = AskedFor { cell: &self.name, method, owner: owner.as_ref() };
            asked.refusal(&refused)
        })
    }

    /// Decides whether `principal` may run a job of `owner` with this priority.
    pub(crate) fn allow_priority(
        &self,
        principal: &Principal,
        owner: &Name,
        priority: u32,
    ) -> Result<(), Status> {
        let Principal::User(identity) = principal else { return Ok(()) };
        let table = self.access.table().unwrap_or_default();
        let decided = table.priority_decide(identity, owner, priority, self.clock.wall_ms());
        decided.map_err(|refused| {
            let asked = AskedFor { cell: &self.name, method: "JobService/SubmitJob", owner: Some(owner) };
            asked.refusal(&refused)
        })
    }
}

/// What a refused caller wanted.
struct AskedFor<'a> {
    cell: &'a Name,
    method: &'a str,
    owner: Option<&'a Name>,
}

/// Methods that do not have a verb and what it is done to in their names.
const ACTIONS: [(&str, &str); 12] = [
    ("Exec", "run commands in tasks"),
    ("Watch", "watch changes"),
    ("WatchEndpoints", "watch endpoints"),
    ("DryRun", "try changes"),
    ("CheckAccess", "ask what others may do"),
    ("ListAudit", "list audited calls"),
    ("ListAuditChunks", "list audited calls"),
    ("GetJobHistory", "see versions of jobs"),
    ("GetFederatedJobHistory", "see versions of federated jobs"),
    ("OrderRollout", "steer rollouts"),
    ("OrderFederatedRelease", "steer releases of federated jobs"),
    ("Session", "serve nodes"),
];

/// The name of a method as people say it: `GetJob` is `see jobs`. It is about all objects of a kind: so are rights.
fn action_words(action: &str) -> String {
    if let Some((_, words)) = ACTIONS.iter().find(|(known, _)| *known == action) {
        return (*words).to_owned();
    }
    let mut words = String::new();
    for letter in action.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    match words.split_once(' ') {
        Some((verb, object)) => {
            let verb = if verb == "get" { "see" } else { verb };
            let plural = if object.ends_with('s') { "" } else { "s" };
            format!("{verb} {object}{plural}")
        }
        None => words,
    }
}

impl AskedFor<'_> {
    fn refusal(&self, refused: &AccessRefused) -> Status {
        let Self { cell, method, owner } = *self;
        let action = method.split_once('/').map_or(method, |(_, name)| name);
        let words = action_words(action);
        let of = owner.map(|owner| format!(" of {owner}")).unwrap_or_default();
        // The administrator who runs the command may have another default cell, so each command names this one.
        let next = match refused {
            AccessRefused::Missing { own_only: true, right: Right::Read, user } if owner.is_none() => {
                match action {
                    "ListQuotas" => format!("see your own: borough quota status --cell {cell}"),
                    // A watch of everything is of a program, or of a command that has no such option.
                    "Watch" => "watch one of your jobs, by its user and name".to_owned(),
                    "ListEvents" => "name one of your jobs: --job NAME".to_owned(),
                    _ => format!("ask for your own: --user {user}"),
                }
            }
            AccessRefused::Missing { user, right, .. } => {
                format!(
                    "an administrator gives it: borough auth grant user/{user} --allow {right} --cell {cell}"
                )
            }
            AccessRefused::Nothing { user } => {
                format!(
                    "an administrator gives one: borough auth grant user/{user} --role runner --cell {cell}"
                )
            }
            AccessRefused::Denied { user, by, .. } => {
                format!(
                    "see borough auth grants {by} --cell {cell}, and ask an administrator who knows why {user} is \
                     denied it"
                )
            }
            AccessRefused::Band { user, band } => format!(
                "give the job a priority below 200, or ask an administrator: borough quota set {user} --band {} \
                 --tasks N --cell {cell}",
                band.name()
            ),
        };
        let text = format!("to {words}{of} is not allowed in cell {cell}: {refused}; {next}");
        let right = match refused {
            AccessRefused::Missing { right, .. } | AccessRefused::Denied { right, .. } => right.name(),
            AccessRefused::Nothing { .. } => "",
            AccessRefused::Band { .. } => Right::RaisePriority.name(),
        };
        let facts = [("method", method), ("cell", cell.as_str()), ("right", right)];
        let facts = facts.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        status_with(Code::PermissionDenied, "ACCESS_REFUSED", text, facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::METHODS;

    /// A method that is renamed would otherwise get words that are no sentence.
    #[test]
    fn every_method_with_words_of_its_own_is_one_of_the_api() {
        // The session of a node asks for no right of a user.
        let known = |name: &str| name == "Session" || METHODS.iter().any(|rule| rule.name() == name);
        for (name, _) in ACTIONS {
            assert!(known(name), "{name} is no method");
        }
    }

    #[test]
    fn a_method_is_said_as_people_say_it() {
        let said = ["GetJob", "ListNodes", "StopJob", "GetQuota", "Exec", "OrderRollout"].map(action_words);
        let words =
            ["see jobs", "list nodes", "stop jobs", "see quotas", "run commands in tasks", "steer rollouts"];
        assert_eq!(said, words.map(str::to_owned));
    }
}
