//! `auth`: who may do what in a cell.

use borough_client::{AccessQuestion, Client, IdentityKeyRotation};
use borough_model::access::{AccessRole, Right};
use borough_proto::v1::Grant;

use super::confirm::{Intent, confirm};
use super::list::list_page;
use super::login;
use super::watch::{WatchedView, list_or_watch};
use crate::args::{AuthVerb, CanIArguments, Global, GrantArguments, GrantEntries, KeysVerb, RevokeArguments};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{
    AccessAnswerView, Foreign, GrantChangeView, GrantView, HolderView, IdentityKeyView, Printer, RightView,
    RoleView,
};
use crate::role;

/// The arguments of `auth`, by the fields that they set.
const OPTIONS: [(&str, &str); 6] = [
    ("action", "ACTION"),
    ("owner", "--owner"),
    ("subject", "SUBJECT"),
    ("grant.roles", "--role"),
    ("grant.allow", "--allow"),
    ("grant.deny", "--deny"),
];

/// Runs a verb on rights. Those on roles, keys and certificates need no gateway.
pub(super) async fn run(global: &Global, verb: AuthVerb, printer: &Printer) -> Result<Code, Failure> {
    match verb {
        AuthVerb::Roles => {
            printer.list(&AccessRole::ALL.map(RoleView::of), "")?;
            Ok(Code::Done)
        }
        AuthVerb::Issuer(arguments) => role::issuer::issuer_create(&arguments, printer),
        AuthVerb::Token(arguments) => role::issuer::user_token(&arguments, printer),
        AuthVerb::Ca(verb) => role::authority::run(&verb, printer),
        AuthVerb::Login(arguments) => login::login(global, arguments, printer).await,
        AuthVerb::Logout => login::logout(global, printer).await,
        AuthVerb::Keys(verb) => keys(global, &verb, printer).await,
        AuthVerb::Whoami => whoami(&connect::cell_client(global).await?, printer).await,
        AuthVerb::CanI(arguments) => can_i(&connect::cell_client(global).await?, arguments, printer).await,
        AuthVerb::WhoCan { action, owner } => {
            let client = connect::cell_client(global).await?;
            let owner = owner.map(|owner| owner.to_string()).unwrap_or_default();
            who_can(&client, &action, &owner, printer).await
        }
        AuthVerb::Grants { subject: None, list } => {
            let client = connect::cell_client(global).await?;
            let fetch = async |page| {
                let answer = client.grant_list_page(page).await?;
                Ok(list_page::<_, GrantView>(answer.grants, answer.next_page))
            };
            let none = format!("no grants in cell {}\nhint: borough auth grant --help", client.cell());
            list_or_watch(WatchedView::Unwatched, &list, none, printer, fetch).await
        }
        AuthVerb::Grants { subject: Some(subject), .. } => {
            let client = connect::cell_client(global).await?;
            let answer = client.grant_get(&subject.to_string()).await.map_err(refused)?;
            let changes: Vec<GrantChangeView> =
                answer.changes.into_iter().rev().map(GrantChangeView::from).collect();
            printer.list(&changes, &format!("nobody has given {subject} anything"))?;
            Ok(Code::Done)
        }
        AuthVerb::Grant(arguments) => grant(&connect::cell_client(global).await?, &arguments, printer).await,
        AuthVerb::Revoke(arguments) => {
            revoke(global, &connect::cell_client(global).await?, &arguments, printer).await
        }
    }
}

/// Lists or rotates the keys of identities.
async fn keys(global: &Global, verb: &KeysVerb, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    let keys = match verb {
        KeysVerb::List => client.identity_key_list().await?,
        KeysVerb::Rotate { withdraw: false, ahead } => {
            client.identity_keys_rotate(IdentityKeyRotation::Ahead(*ahead)).await?
        }
        KeysVerb::Rotate { withdraw: true, .. } => {
            let what = "withdraw all keys of identities, with all tokens that they have signed".to_owned();
            confirm(global, &client, Intent::forget(&what), printer)?;
            client.identity_keys_rotate(IdentityKeyRotation::Withdraw).await?
        }
    };
    printer.list(
        &keys.into_iter().map(IdentityKeyView::from).collect::<Vec<_>>(),
        "no task has an identity yet",
    )?;
    Ok(Code::Done)
}

fn refused(error: borough_client::ClientError) -> Failure {
    Failure::from(error).with_fields_as(&OPTIONS)
}

async fn whoami(client: &Client, printer: &Printer) -> Result<Code, Failure> {
    let (mut views, mut caller, mut groups) = (Vec::new(), String::new(), Vec::new());
    for right in Right::ALL {
        let question = AccessQuestion { action: right.name().to_owned(), ..AccessQuestion::default() };
        let answer = client.access_check(question).await.map_err(refused)?;
        (caller, groups) = (answer.caller, answer.groups);
        views.push(RightView {
            right: right.name(),
            allowed: answer.allowed,
            reason: answer.reason.into(),
            meaning: right.meaning(),
        });
    }
    let groups =
        if groups.is_empty() { "no groups".to_owned() } else { format!("groups {}", groups.join(", ")) };
    let caller = match caller.as_str() {
        "operator" => format!("an operator, in the name of {}", client.user()),
        caller => format!("{caller}, {groups}"),
    };
    printer.remark(&format!("{caller}, cell {}", client.cell()));
    printer.list(&views, "")?;
    Ok(Code::Done)
}

async fn can_i(client: &Client, arguments: CanIArguments, printer: &Printer) -> Result<Code, Failure> {
    let question = AccessQuestion {
        action: arguments.action,
        owner: arguments.owner.map(|owner| owner.to_string()).unwrap_or_default(),
        subject: arguments.subject.map(|subject| subject.to_string()).unwrap_or_default(),
        groups: arguments.groups.iter().map(ToString::to_string).collect(),
    };
    let answer = client.access_check(question).await.map_err(refused)?;
    let view = AccessAnswerView { allowed: answer.allowed, reason: answer.reason.into() };
    printer.one(&view, |view, _| view.text())?;
    Ok(if answer.allowed { Code::Done } else { Code::Failed })
}

async fn who_can(client: &Client, action: &str, owner: &str, printer: &Printer) -> Result<Code, Failure> {
    let answer = client.access_holders(action, owner).await.map_err(refused)?;
    let holders = answer.holders.into_iter();
    let views: Vec<HolderView> =
        holders.map(|holder| HolderView { subject: holder.subject.into(), by: holder.by.into() }).collect();
    printer.list(&views, &format!("no user and no group may {action}; an operator's token may"))?;
    if !answer.denied.is_empty() {
        printer.remark(&format!("denied, also to members of the groups above: {}", answer.denied.join(", ")));
    }
    Ok(Code::Done)
}

/// The grant before a change. Who may not read it may not change it either, and hears of the change.
async fn grant_before(client: &Client, subject: &str) -> Result<Grant, Failure> {
    let failure = match client.grant_get(subject).await.map_err(refused) {
        Ok(before) => return Ok(before.grant.unwrap_or_default()),
        Err(failure) => failure,
    };
    if failure.code() != Code::NotAllowed {
        return Err(failure);
    }
    let question =
        AccessQuestion { action: Right::Administer.name().to_owned(), ..AccessQuestion::default() };
    match client.access_check(question).await {
        Ok(answer) if !answer.allowed => {
            let text = format!("the grant of {subject} was not changed: {}", Foreign::from(answer.reason));
            let hint =
                format!("an administrator runs: borough auth grant user/{} --role admin", client.user());
            Err(Failure::new(Code::NotAllowed, text).with_hint(hint))
        }
        _ => Err(failure),
    }
}

async fn grant(client: &Client, arguments: &GrantArguments, printer: &Printer) -> Result<Code, Failure> {
    if arguments.entries.is_empty() {
        let text = "nothing is named to give; accepted: --role, --allow or --deny";
        return Err(Failure::new(Code::Usage, text).with_hint("borough auth roles"));
    }
    let before = grant_before(client, &arguments.subject.to_string()).await?;
    let revision = before.revision;
    let grant = with_entries(before, &arguments.entries, |list, entry| {
        if !list.contains(entry) {
            list.push(entry.clone());
        }
    });
    let grant = client.grant_set(grant, revision).await.map_err(refused)?;
    printer.list(&[GrantView::from(grant)], "")?;
    Ok(Code::Done)
}

async fn revoke(
    global: &Global,
    client: &Client,
    arguments: &RevokeArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let subject = arguments.subject.to_string();
    if arguments.entries.is_empty() && !arguments.all {
        let text = "nothing is named to take away; accepted: --role, --allow, --deny or --all";
        return Err(Failure::new(Code::Usage, text).with_hint(format!("borough auth grants {subject}")));
    }
    let before = grant_before(client, &subject).await?;
    let revision = before.revision;
    let after = if arguments.all {
        Grant { subject: subject.clone(), ..Grant::default() }
    } else {
        with_entries(before.clone(), &arguments.entries, |list, entry| list.retain(|known| known != entry))
    };
    let what = format!("take rights of {subject} away");
    confirm(global, client, Intent::forget(&what), printer)?;
    let grant = client.grant_set(after, revision).await.map_err(refused)?;
    if grant.revision == revision {
        printer.remark(&format!("{subject} had nothing of that"));
    }
    printer.list(&[GrantView::from(grant)], "")?;
    Ok(Code::Done)
}

/// The grant after `put` for every entry.
fn with_entries(mut grant: Grant, entries: &GrantEntries, put: fn(&mut Vec<String>, &String)) -> Grant {
    for role in &entries.roles {
        put(&mut grant.roles, &role.to_string());
    }
    for right in &entries.allow {
        put(&mut grant.allow, &right.to_string());
    }
    for right in &entries.deny {
        put(&mut grant.deny, &right.to_string());
    }
    grant
}
