//! The verbs on member cells: `cell join`, `cell leave`, `cell cordon` and so on.

use std::time::Duration;

use borough_client::{Client, ClientError, FederatedFilter, MemberChange};
use borough_kv::env::SystemClock;
use borough_model::Name;
use borough_model::job::file::nearest;
use borough_proto::v1::{FederatedJob, Member, PageRequest, WatchFilter};

use super::bulk::named_read;
use super::confirm::{Intent, confirm};
use super::list::list_page;
use super::removed::labels_absent;
use super::watch::{WatchedView, list_or_watch, status_watch};
use crate::args::conditions_of;
use crate::args::{
    FederationHome, Global, ListArguments, MemberAddress, MemberDrain, MemberJoin, MemberLabelArguments,
    MemberList, MemberTarget, MemberTargets, label_change,
};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{MemberView, Printer, line_shown, tally};

/// The arguments of the verbs, by the fields that they set.
const ARGUMENTS: [(&str, &str); 3] = [("gateways", "--at"), ("labels", "LABEL"), ("member", "CELL")];
/// The same of `cell join`, which takes labels by an option.
const JOIN_ARGUMENTS: [(&str, &str); 3] = [("gateways", "--at"), ("labels", "--label"), ("member", "CELL")];

/// A client of the home of a federation.
pub(super) fn home(global: &Global, home: &FederationHome) -> Result<Client, Failure> {
    let client = connect::client(global)?;
    let named = home.federation.as_ref().map(Name::to_string);
    Ok(client.with_cell(named.map_or_else(|| connect::federation_home(global), Ok)?))
}

/// The failure of a call, with what to do if there is no federation or no such member.
fn explained(client: &Client, error: ClientError) -> Failure {
    explained_as(client, error, &ARGUMENTS)
}

/// The same, with the arguments of a verb by the fields that they set.
fn explained_as(client: &Client, error: ClientError, arguments: &[(&str, &str)]) -> Failure {
    let failure = Failure::from(error).with_fields_as(arguments);
    if failure.code() == Code::NotFound && failure.message().contains("member cell") {
        return failure.with_hint("borough cell members");
    }
    home_missing_explained(client, failure)
}

/// A failure, with what to do if the gateway serves no home of that name.
pub(super) fn home_missing_explained(client: &Client, failure: Failure) -> Failure {
    if failure.code() != Code::NotFound {
        return failure;
    }
    let home = client.cell();
    failure.with_hint(format!(
        "the gateway serves no home of a federation named {home:?}; one on this machine: borough dev --federation {home}; \
         another name: --federation HOME"
    ))
}

/// Adds a cell.
pub(super) async fn join(global: &Global, join: MemberJoin, printer: &Printer) -> Result<Code, Failure> {
    let MemberJoin { target, at, label } = join;
    let client = home(global, &target.home)?;
    let labels = label_change(label).map_err(|text| Failure::new(Code::Usage, format!("--label: {text}")))?;
    if let Some(key) = labels.remove.first() {
        let text = format!("--label: {key:?} has no value; accepted: KEY=VALUE");
        return Err(Failure::new(Code::Usage, text));
    }
    let strangers = contradictions(global, &client, target.member.as_str(), &at).await?;
    let joined = client.member_join(target.member.as_str(), at, labels.set).await;
    let joined = joined.map_err(|error| explained_as(&client, error, &JOIN_ARGUMENTS))?;
    let kept = KEPT.replace("CELL", target.member.as_str());
    strangers.iter().for_each(|text| printer.remark(&format!("warning: {text}{kept}")));
    show(joined.into(), printer)
}

/// What becomes of a cell with such a gateway.
const KEPT: &str = "; the cell is kept, and the federation looks again every 5 s: borough cell members CELL";

/// How long a gateway may take to show that it is one.
const GATEWAY_LOOK_MAX: Duration = Duration::from_secs(3);

/// What keeps gateways from being those of a cell, as far as they show it now.
///
/// # Errors
/// An address that is certainly wrong: a port that is no gateway's, or this gateway without such a cell.
async fn contradictions(
    global: &Global,
    client: &Client,
    cell: &str,
    gateways: &[String],
) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    let own = client.gateways();
    for gateway in gateways {
        if own.contains(gateway) {
            let failure = client.with_cell(cell).cell_get().await.err().map(Failure::from);
            let missing = failure.filter(|failure| {
                failure.code() == Code::NotFound && failure.message().contains("there is no cell")
            });
            if let Some(failure) = missing {
                return Err(Failure::new(Code::NotFound, format!("{gateway}: {}", failure.message()))
                    .with_hint("borough cell list"));
            }
            continue;
        }
        // The token is for this gateway alone. Another one refuses a call without any, and so shows that it is one.
        // What is no address, the home refuses in the words of the option.
        let Ok(stranger) = connect::stranger(global, gateway) else { continue };
        match stranger.with_deadline_max(GATEWAY_LOOK_MAX).cell_list().await {
            Err(ClientError::NotGateway { what, .. }) if what.contains("HTTP port") => {
                let message = format!("--at: {gateway} is {what}; accepted: the gRPC port of a gateway");
                return Err(Failure::new(Code::Usage, message));
            }
            Err(
                error @ (ClientError::Unreachable { .. }
                | ClientError::Deadline { .. }
                | ClientError::NotGateway { .. }),
            ) => {
                let why = Failure::from(&error);
                warnings.push(why.message().to_owned());
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(warnings)
}

/// The failure of a call on one cell, with the near name of a cell that the federation has.
async fn unknown_explained(client: &Client, member: &str, error: ClientError) -> Failure {
    let failure = explained(client, error);
    if failure.code() != Code::NotFound || !failure.message().contains("member cell") {
        return failure;
    }
    let known = client.member_list(Vec::new()).await.unwrap_or_default();
    let names: Vec<&str> = known.iter().map(|known| known.cell.as_str()).collect();
    failure.with_near(nearest(member, &names))
}

/// Takes a cell out after a question.
pub(super) async fn leave(
    global: &Global,
    target: &MemberTarget,
    printer: &Printer,
) -> Result<Code, Failure> {
    let (client, member) = (home(global, &target.home)?, target.member.as_str());
    let parts = federated_left(&client, member).await?;
    let goes_on = if parts.is_empty() {
        "it has no federated tasks".to_owned()
    } else {
        format!("these tasks go on, although other cells replace them: {}", parts_text(&parts))
    };
    let what = format!("take cell {member} out of the federation; {goes_on}");
    confirm(global, &client, Intent::stop(&what), printer)?;
    let left = client.member_remove(member).await.map_err(|error| explained(&client, error))?;
    if global.yes && !parts.is_empty() {
        printer.remark(&format!("in {member} {goes_on}"));
    }
    printer.one(&MemberView::from(left), |view, _| format!("cell {} has left the federation", view.cell))?;
    Ok(Code::Done)
}

/// Jobs of a cell that a question names.
const PARTS_NAMED_MAX: usize = 5;

/// What federated jobs have in one cell: `ann/web (3 tasks), ann/api (1 task), and 2 more jobs`.
fn parts_text(jobs: &[FederatedJob]) -> String {
    let text = |job: &FederatedJob| {
        let tasks = job.parts.iter().map(|part| part.count).fold(0, u32::saturating_add);
        let tasks = tally(usize::try_from(tasks).unwrap_or(usize::MAX), "task");
        format!("{}/{} ({tasks})", line_shown(&job.user), line_shown(&job.name))
    };
    let named: Vec<String> = jobs.iter().take(PARTS_NAMED_MAX).map(text).collect();
    let named = named.join(", ");
    match jobs.len().saturating_sub(PARTS_NAMED_MAX) {
        0 => named,
        others => format!("{named}, and {}", tally(others, "more job")),
    }
}

/// Gives cells no new work, or new work again. All are looked up before the first is changed.
pub(super) async fn cordon(
    global: &Global,
    targets: &MemberTargets,
    cordoned: Cordon,
    printer: &Printer,
) -> Result<Code, Failure> {
    let client = home(global, &targets.home)?;
    let draining = (cordoned == Cordon::Lifted).then_some(false);
    let wanted =
        MemberChange { cordoned: Some(cordoned == Cordon::Set), draining, ..MemberChange::default() };
    let read = async |member: &Name| match client.member_get(member.as_str()).await {
        Ok(_) => Ok(member.to_string()),
        Err(error) => Err(unknown_explained(&client, member.as_str(), error).await),
    };
    let mut views = Vec::new();
    for member in named_read(&targets.members, "cell", read).await? {
        let changed = client.member_change(&member, wanted.clone()).await;
        views.push(MemberView::from(changed.map_err(|error| explained(&client, error))?));
    }
    match views.pop() {
        Some(only) if views.is_empty() => show(only, printer),
        last => {
            views.extend(last);
            printer.list(&views, "")?;
            Ok(Code::Done)
        }
    }
}

/// Moves the federated tasks of a cell to others, and waits until they run there.
pub(super) async fn drain(global: &Global, drain: MemberDrain, printer: &Printer) -> Result<Code, Failure> {
    let MemberDrain { target, wait } = drain;
    let (client, member) = (home(global, &target.home)?, target.member.as_str());
    let known = match client.member_get(member).await {
        Ok(known) => known,
        Err(error) => return Err(unknown_explained(&client, member, error).await),
    };
    if !known.draining {
        let what = format!("move the federated tasks of cell {member} to other cells");
        confirm(global, &client, Intent::stop(&what), printer)?;
    }
    let drained = MemberChange { draining: Some(true), ..MemberChange::default() };
    let member_now =
        client.member_change(member, drained).await.map_err(|error| explained(&client, error))?;
    let clock = SystemClock::shared();
    let begun = clock.monotonic();
    let mut shown = String::new();
    loop {
        let left = federated_left(&client, member).await?;
        if wait.detach {
            return show(member_now.into(), printer);
        }
        if left.is_empty() {
            printer.remark(&format!(
                "{member} has no federated task any more, and gets none until: borough cell uncordon {member}"
            ));
            return show(reported_anew(&client, member).await?.into(), printer);
        }
        let since_ms = member_now.changed_ms;
        let lines: Vec<String> = left.iter().map(|job| left_text(job, member, since_ms)).collect();
        let now = lines.join("\n");
        if now != shown {
            printer.remark(&now);
            shown = now;
        }
        if clock.monotonic().saturating_sub(begun) >= wait.timeout {
            let tasks = left
                .iter()
                .flat_map(|job| &job.parts)
                .fold(0_u32, |sum, part| sum.saturating_add(part.count));
            let message = format!("cell {member} still has {tasks} federated tasks; the drain goes on");
            let hint = format!("borough cell uncordon {member} ends it");
            return Err(Failure::new(Code::NotDone, message).with_hint(hint));
        }
        tokio::time::sleep(DRAIN_PAUSE).await;
    }
}

/// A cell with a report that is newer than this call, or with its last one if none comes soon. An older one still
/// counts tasks that have gone since.
async fn reported_anew(client: &Client, member: &str) -> Result<Member, Failure> {
    let clock = SystemClock::shared();
    let begun = clock.monotonic();
    loop {
        let now = client.member_get(member).await.map_err(|error| explained(client, error))?;
        let waited = clock.monotonic().saturating_sub(begun);
        let is_new = now.report.is_some() && Duration::from_millis(now.report_age_ms) <= waited;
        if is_new || waited >= REPORT_AWAITED {
            return Ok(now);
        }
        tokio::time::sleep(DRAIN_PAUSE).await;
    }
}

/// Time in which a cell that is drained reports again.
const REPORT_AWAITED: Duration = Duration::from_secs(12);
/// Pause between two looks at a drain.
const DRAIN_PAUSE: Duration = Duration::from_millis(500);

/// The federated jobs that have tasks in a cell, each with its part there.
async fn federated_left(client: &Client, member: &str) -> Result<Vec<FederatedJob>, Failure> {
    let filter = FederatedFilter { member: member.to_owned(), ..FederatedFilter::default() };
    let (mut jobs, mut page) = (Vec::new(), PageRequest::default());
    loop {
        let answer =
            client.federated_list_page(&filter, page).await.map_err(|error| explained(client, error))?;
        jobs.extend(answer.jobs);
        if answer.next_page.is_empty() {
            return Ok(jobs);
        }
        page = PageRequest { page: answer.next_page, ..PageRequest::default() };
    }
}

/// What a job still has in a cell that is drained since `since_ms`, and why.
fn left_text(job: &FederatedJob, member: &str, since_ms: i64) -> String {
    let (user, name) = (line_shown(&job.user), line_shown(&job.name));
    let tasks = |count: u32| if count == 1 { "1 task".to_owned() } else { format!("{count} tasks") };
    let part = job.parts.first().cloned().unwrap_or_default();
    if part.target < part.count {
        let moves = part.count - part.target;
        let (ends, them) = if moves == 1 { ("ends", "it") } else { ("end", "them") };
        return format!(
            "{user}/{name}: {} of {member} {ends} once what is to replace {them} is healthy",
            tasks(moves)
        );
    }
    if job.divided_ms < since_ms {
        return format!("{user}/{name}: {} in {member}: being divided anew", tasks(part.count));
    }
    let words: Vec<_> = job.reasons.iter().map(|reason| line_shown(&reason.words)).collect();
    let why =
        if part.arrived || part.count > 0 { "no other cell has room for them" } else { "it is being told" };
    let why = if words.is_empty() { why.to_owned() } else { words.join("; ") };
    format!("{user}/{name}: {} in {member}: {why}", tasks(part.count))
}

/// Whether a cell gets no new work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cordon {
    Set,
    Lifted,
}

/// Says where a cell is reached from now on.
pub(super) async fn rename_endpoint(
    global: &Global,
    address: MemberAddress,
    printer: &Printer,
) -> Result<Code, Failure> {
    let moved = MemberChange { gateways: address.at, ..MemberChange::default() };
    change(global, &address.target, moved, printer).await
}

/// Sets and removes labels of a cell.
pub(super) async fn label(
    global: &Global,
    labels: MemberLabelArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let labelled = label_change(labels.changes).map_err(|text| Failure::new(Code::Usage, text))?;
    let client = home(global, &labels.target.home)?;
    let member = labels.target.member.as_str();
    if !labelled.remove.is_empty() {
        let before = client.member_get(member).await.map_err(|error| explained(&client, error))?;
        labels_absent(member, &labelled.remove, before.labels.keys(), printer);
    }
    change(global, &labels.target, MemberChange { labels: labelled, ..MemberChange::default() }, printer)
        .await
}

async fn change(
    global: &Global,
    target: &MemberTarget,
    change: MemberChange,
    printer: &Printer,
) -> Result<Code, Failure> {
    let client = home(global, &target.home)?;
    let changed = client.member_change(target.member.as_str(), change).await;
    show(changed.map_err(|error| explained(&client, error))?.into(), printer)
}

fn show(view: MemberView, printer: &Printer) -> Result<Code, Failure> {
    printer.one(&view, MemberView::text)?;
    Ok(Code::Done)
}

/// Lists the members, or shows one.
pub(super) async fn members(global: &Global, list: MemberList, printer: &Printer) -> Result<Code, Failure> {
    let MemberList { member, home: of, label, watching } = list;
    let client = home(global, &of)?;
    // The list is also read at intervals: what was seen of members is in no journal.
    let changes = WatchFilter { members: true, ..WatchFilter::default() };
    let watched = WatchedView::cell(client.clone(), changes);
    if let Some(member) = member {
        let fetch = async |_| {
            let found = client.member_get(member.as_str()).await;
            Ok(MemberView::from(found.map_err(|error| explained(&client, error))?))
        };
        if watching.watch {
            return status_watch(watched, printer, fetch, MemberView::text).await;
        }
        return show(fetch(None).await?, printer);
    }
    let fetch = async |_| {
        let members =
            client.member_list(conditions_of(&label)).await.map_err(|error| explained(&client, error))?;
        Ok(list_page::<_, MemberView>(members, String::new()))
    };
    let listed = ListArguments { watching, ..ListArguments::default() };
    let such = if label.is_empty() { "" } else { "such " };
    let own = client.gateways().join(",");
    let none = format!(
        "no {such}cells in the federation\nhint: borough cell join CELL --at HOST:PORT; a cell of this gateway: --at {own}"
    );
    list_or_watch(watched, &listed, none, printer, fetch).await
}
