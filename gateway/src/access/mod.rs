//! `AccessService`: administrators give rights, and everybody may ask for the own.

mod keys;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::Name;
use borough_model::access::{
    AccessGrant, AccessRole, AccessSubject, ActionNeed, GRANT_ENTRIES_MAX, GROUPS_MAX, Identity, Right,
    grant_check,
};
use borough_model::job::file::nearest;
use borough_proto::convert::{FieldRefused, name_from_text};
use borough_proto::v1;
use borough_proto::v1::access_service_server::AccessService;
use borough_store::access::{
    AccessGrantChange, GrantLine, access_head, grant_change, grant_read, grants_page,
};
use tonic::{Request, Response, Status};

use keys::{identity_keys_list, identity_keys_rotate};

use crate::auth::Principal;
use crate::cell::{Asked, CellContext, Cells, KeyedRequest, METHODS, MethodRule, keyed_run, principal_of};
use crate::page::PagedList;
use crate::status::{status_from_field, status_from_store, status_from_validation, status_unavailable};

/// How long an answer waits until this gateway has the grant.
const SHOWN_WAIT: Duration = Duration::from_secs(2);

/// The gRPC service of grants.
#[derive(Clone)]
pub struct AccessServer {
    cells: Arc<Cells>,
}

impl AccessServer {
    /// Serves `cells`.
    pub fn new(cells: Arc<Cells>) -> Self {
        Self { cells }
    }
}

#[tonic::async_trait]
impl AccessService for AccessServer {
    async fn list_grants(
        &self,
        request: Request<v1::ListGrantsRequest>,
    ) -> Result<Response<v1::ListGrantsResponse>, Status> {
        let Asked { cell, message } = self.cells.admit_read(request)?;
        let list = PagedList::new(&cell.name, "grants");
        let page = list.request(message.page.as_ref())?;
        let after = page.after.as_deref().map(subject_of).transpose()?;
        let (space, after) = (&cell.space, after.as_ref());
        let read = cell.db.run("grant_list", Idempotency::ReadOnly, |tx, _| async move {
            grants_page(&tx, space, after, page.limit).await
        });
        let lines = read.await.map_err(|error| status_from_store(&error))?;
        let next = lines.last().filter(|_| lines.len() == page.limit);
        let next_page = next.map(|line| list.token(&line.subject.to_string())).unwrap_or_default();
        // A grant that was taken away keeps its row, for its changes.
        let grants = lines.iter().filter(|line| !line.row.grant().is_empty()).map(grant_message).collect();
        Ok(Response::new(v1::ListGrantsResponse { grants, next_page }))
    }

    async fn get_grant(
        &self,
        request: Request<v1::GetGrantRequest>,
    ) -> Result<Response<v1::GetGrantResponse>, Status> {
        let Asked { cell, message } = self.cells.admit_read(request)?;
        let subject = subject_of(&message.subject)?;
        let (space, of) = (&cell.space, &subject);
        let read = cell
            .db
            .run("grant_get", Idempotency::ReadOnly, |tx, _| async move { grant_read(&tx, space, of).await });
        let row = read.await.map_err(|error| status_from_store(&error))?;
        let changes = row.changes.iter().map(|change| change_message(&subject, change)).collect();
        let grant = Some(grant_message(&GrantLine { subject, row }));
        Ok(Response::new(v1::GetGrantResponse { grant, changes }))
    }

    async fn set_grant(
        &self,
        request: Request<v1::SetGrantRequest>,
    ) -> Result<Response<v1::SetGrantResponse>, Status> {
        let (cell, caller, message) = self.cells.admit_change(request)?;
        let missing = v1::Grant::default();
        let given = message.grant.as_ref().unwrap_or(&missing);
        let subject = subject_of(&given.subject)?;
        let grant = grant_of(given)?;
        let (keyed, expected) =
            (KeyedRequest::new(&caller, "grant_set", &message), message.expected_revision);
        let (of, grant) = (&subject, &grant);
        let set = keyed_run(cell, &keyed, |tx, mut changes| async move {
            let row = grant_change(&tx, &mut changes, of, grant, expected).await?;
            Ok((row, changes))
        });
        let (row, _) = set.await.map_err(|error| status_from_store(&error))?;
        grant_shown(cell).await;
        Ok(Response::new(v1::SetGrantResponse { grant: Some(grant_message(&GrantLine { subject, row })) }))
    }

    async fn check_access(
        &self,
        request: Request<v1::CheckAccessRequest>,
    ) -> Result<Response<v1::CheckAccessResponse>, Status> {
        let principal = principal_of(request.extensions())?;
        let Asked { cell, message } = self.cells.admit_read(request)?;
        let need = need_of(&message.action)?;
        let owner = optional_name("owner", &message.owner)?;
        let mut table = table_of(cell)?;
        let (caller, groups) = match &principal {
            Principal::User(identity) => (format!("user/{}", identity.user), names_text(&identity.groups)),
            _ => ("operator".to_owned(), Vec::new()),
        };
        let answer = |allowed, reason| v1::CheckAccessResponse {
            allowed,
            reason,
            caller: caller.clone(),
            groups: groups.clone(),
        };
        let identity = match (&principal, message.subject.as_str()) {
            (Principal::User(identity), "") => Identity::clone(identity),
            (_, "") => {
                return Ok(Response::new(answer(true, "an operator may do everything".to_owned())));
            }
            (_, subject) => {
                cell.allow(&principal, "AccessService/CheckAccess", ActionNeed::Right(Right::Read), "")?;
                let subject = subject_of(subject)?;
                if matches!(subject, AccessSubject::Group(_)) {
                    let table = Arc::make_mut(&mut table);
                    table.grants.retain(|subject, _| matches!(subject, AccessSubject::Group(_)));
                }
                identity_asked(&subject, &message.groups)?
            }
        };
        // Without an owner, a user asks about the own work.
        let owner = owner.unwrap_or_else(|| identity.user.clone());
        let decided = need.decide(&table, &identity, Some(&owner));
        let response = match decided {
            Ok(reason) => {
                let by = reason.map_or_else(|| "every identity may".to_owned(), |reason| reason.to_string());
                answer(true, by)
            }
            Err(refused) => answer(false, refused.to_string()),
        };
        Ok(Response::new(response))
    }

    async fn list_identity_keys(
        &self,
        request: Request<v1::ListIdentityKeysRequest>,
    ) -> Result<Response<v1::ListIdentityKeysResponse>, Status> {
        identity_keys_list(&self.cells, request).await
    }

    async fn rotate_identity_keys(
        &self,
        request: Request<v1::RotateIdentityKeysRequest>,
    ) -> Result<Response<v1::RotateIdentityKeysResponse>, Status> {
        identity_keys_rotate(&self.cells, request).await
    }

    async fn list_holders(
        &self,
        request: Request<v1::ListHoldersRequest>,
    ) -> Result<Response<v1::ListHoldersResponse>, Status> {
        let Asked { cell, message } = self.cells.admit_read(request)?;
        let need = need_of(&message.action)?;
        let owner = optional_name("owner", &message.owner)?;
        let table = table_of(cell)?;
        let right = match need {
            ActionNeed::Right(right) | ActionNeed::Own { others: right } => right,
            ActionNeed::Identity | ActionNeed::Any => {
                let accepted = "an action that needs one right: the name of a right, or of a method";
                return Err(status_from_field(&FieldRefused::new("action", message.action, accepted)));
            }
        };
        let mut holders: Vec<v1::list_holders_response::Holder> = table
            .holders(right)
            .map(|(subject, by)| v1::list_holders_response::Holder { subject: subject.to_string(), by })
            .collect();
        if matches!(need, ActionNeed::Own { .. }) {
            let named: BTreeSet<String> = holders.iter().map(|holder| holder.subject.clone()).collect();
            let runs =
                table.holders(Right::RunJobs).filter(|(subject, _)| !named.contains(&subject.to_string()));
            let own = runs.filter_map(|(subject, by)| {
                let by = for_the_own(&subject, &by, owner.as_ref())?;
                Some(v1::list_holders_response::Holder { subject: subject.to_string(), by })
            });
            holders.extend(own);
        }
        let denied = table.grants.iter().filter(|(_, grant)| grant.deny.contains(&right));
        let denied = denied.map(|(subject, _)| subject.to_string()).collect();
        Ok(Response::new(v1::ListHoldersResponse { holders, denied }))
    }
}

/// What lets a subject change jobs of its own; `None` if those of `owner` are not its own.
fn for_the_own(subject: &AccessSubject, by: &str, owner: Option<&Name>) -> Option<String> {
    match (subject, owner) {
        (AccessSubject::User(_), None) => Some(format!("{by}, for the own jobs")),
        (AccessSubject::User(user), Some(owner)) => {
            (user == owner).then(|| format!("{by}, for the own jobs"))
        }
        (AccessSubject::Group(_), None) => Some(format!("{by}, for the own jobs of its members")),
        (AccessSubject::Group(_), Some(owner)) => Some(format!("{by}, if {owner} is a member")),
    }
}

/// Waits until this gateway decides by the grant that was just set.
async fn grant_shown(cell: &CellContext) {
    let space = &cell.space;
    let read = cell
        .db
        .run("access_head", Idempotency::ReadOnly, |tx, _| async move { access_head(&tx, space).await });
    if let Ok(head) = read.await {
        drop(tokio::time::timeout(SHOWN_WAIT, cell.access.shows(head)).await);
    }
}

fn table_of(cell: &CellContext) -> Result<Arc<borough_model::access::AccessTable>, Status> {
    let loading =
        || status_unavailable("ACCESS_LOADING", format!("the grants of cell {} are being loaded", cell.name));
    cell.access.table().ok_or_else(loading)
}

fn subject_of(text: &str) -> Result<AccessSubject, Status> {
    text.parse().map_err(|accepted: String| status_from_field(&FieldRefused::new("subject", text, accepted)))
}

fn optional_name(field: &str, text: &str) -> Result<Option<Name>, Status> {
    let name = (!text.is_empty()).then(|| name_from_text(field, text)).transpose();
    name.map_err(|refused| status_from_field(&refused))
}

/// The identity of somebody else, of whom only the asking says which groups.
fn identity_asked(subject: &AccessSubject, groups: &[String]) -> Result<Identity, Status> {
    if groups.len() > GROUPS_MAX {
        let accepted = format!("{GROUPS_MAX} at most");
        return Err(status_from_field(&FieldRefused::new("groups", groups.len().to_string(), accepted)));
    }
    let groups =
        groups.iter().map(|group| name_from_text("groups", group)).collect::<Result<BTreeSet<_>, _>>();
    let mut groups = groups.map_err(|refused| status_from_field(&refused))?;
    let user = match subject {
        AccessSubject::User(name) => name.clone(),
        // Only the grants of the group count for somebody of whom nothing else is known.
        AccessSubject::Group(name) => {
            groups.insert(name.clone());
            name.clone()
        }
    };
    Ok(Identity { user, groups })
}

/// What an action needs: one right, or what a method of the API needs.
fn need_of(action: &str) -> Result<ActionNeed, Status> {
    if let Some(right) = Right::from_name(action) {
        return Ok(ActionNeed::Right(right));
    }
    let method = METHODS.iter().find(|rule| rule.name() == action || rule.method == action);
    method.map(|rule| rule.need).ok_or_else(|| {
        let rights = Right::ALL.map(Right::name).join(", ");
        let accepted = format!("a right ({rights}) or a method of the API, such as StopJob");
        let accepted = match action_meant(action) {
            Some(name) => format!("{action:?}, did you mean {name:?}?; accepted: {accepted}"),
            None => accepted,
        };
        status_from_field(&FieldRefused::new("action", action, accepted))
    })
}

/// The name of a right or of a method that is nearly `action`, whatever its letters' case and its underscores.
fn action_meant(action: &str) -> Option<&'static str> {
    let plain = |name: &str| name.to_lowercase().replace('_', "");
    let known = Right::ALL.map(Right::name).into_iter().chain(METHODS.iter().map(MethodRule::name));
    let plain_known: Vec<(String, &'static str)> = known.map(|name| (plain(name), name)).collect();
    let texts: Vec<&str> = plain_known.iter().map(|(text, _)| text.as_str()).collect();
    let near = nearest(&plain(action), &texts)?;
    plain_known.iter().find(|(text, _)| text == near).map(|(_, name)| *name)
}

fn grant_of(message: &v1::Grant) -> Result<AccessGrant, Status> {
    let roles = entries(
        "grant.roles",
        &message.roles,
        AccessRole::from_name,
        &AccessRole::ALL.map(AccessRole::name),
    )?;
    let right_names = Right::ALL.map(Right::name);
    let allow = entries("grant.allow", &message.allow, Right::from_name, &right_names)?;
    let deny = entries("grant.deny", &message.deny, Right::from_name, &right_names)?;
    let grant = AccessGrant { roles, allow, deny };
    grant_check(&grant).map_err(|errors| status_from_validation(&errors))?;
    Ok(grant)
}

fn entries<T: Ord>(
    field: &str,
    texts: &[String],
    read: impl Fn(&str) -> Option<T>,
    accepted: &[&str],
) -> Result<BTreeSet<T>, Status> {
    if texts.len() > GRANT_ENTRIES_MAX {
        let most = format!("{GRANT_ENTRIES_MAX} at most");
        return Err(status_from_field(&FieldRefused::new(field, texts.len().to_string(), most)));
    }
    let each = texts.iter().enumerate().map(|(place, text)| {
        let refused = || FieldRefused::new(format!("{field}[{place}]"), text.clone(), accepted.join(", "));
        read(text).ok_or_else(|| status_from_field(&refused()))
    });
    each.collect()
}

fn names_text(names: &BTreeSet<Name>) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn message_of(subject: &AccessSubject, grant: &AccessGrant, revision: u64) -> v1::Grant {
    v1::Grant {
        subject: subject.to_string(),
        roles: grant.roles.iter().map(ToString::to_string).collect(),
        allow: grant.allow.iter().map(ToString::to_string).collect(),
        deny: grant.deny.iter().map(ToString::to_string).collect(),
        revision,
    }
}

fn grant_message(line: &GrantLine) -> v1::Grant {
    message_of(&line.subject, &line.row.grant(), line.row.revision)
}

fn change_message(subject: &AccessSubject, change: &AccessGrantChange) -> v1::GrantChange {
    let grant = Some(message_of(subject, &change.grant(), change.revision));
    v1::GrantChange { grant, at_ms: change.at_ms, by: change.by.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_action_is_named() {
        let refused = |action: &str| need_of(action).unwrap_err().message().to_owned();
        for (action, meant) in
            [("RunJob", "run_jobs"), ("stopjob", "StopJob"), ("administrate", "administer")]
        {
            assert!(refused(action).contains(&format!("did you mean {meant:?}?")), "{}", refused(action));
        }
        assert!(!refused("fly").contains("did you mean"), "{}", refused("fly"));
    }
}
