//! `quota list`, `status`, `set`, `remove` and `history`.

use std::collections::{BTreeSet, VecDeque};

use borough_client::{Client, ClientError};
use borough_proto::v1::{Band, GrantedTogether, PageRequest, Quota, QuotaBorrow, QuotaLimit, Resources};

use super::confirm::{Intent, confirm};
use super::list::list_page;
use super::watch::{WatchedView, list_or_watch};
use crate::args::{
    Global, LimitAmount, LimitBorrow, LimitParent, LimitTime, QuotaSet, QuotaTarget, QuotaVerb,
};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{Printer, QuotaChangeView, QuotaView, band_word, time};

/// The arguments of `quota`, by the fields that they set.
const OPTIONS: [(&str, &str); 6] = [
    ("user", "HOLDER"),
    ("band", "--band"),
    ("limit.until_ms", "--until"),
    ("limit.resources.devices", "--device"),
    ("limit.parent", "--parent"),
    ("limit.borrow", "--borrow"),
];

pub(super) async fn run(global: &Global, verb: QuotaVerb, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    match verb {
        QuotaVerb::List { list } => {
            let fetch = async |page| {
                let answer = client.quota_list_page("", page).await?;
                // A list that is shown again and again would repeat them.
                if !list.watching.watch {
                    excess_warn(&answer.granted, printer);
                }
                Ok(list_page::<_, QuotaView>(answer.quotas, answer.next_page))
            };
            let none = format!(
                "no quotas, and no charges, in cell {}\nhint: borough quota set --help",
                client.cell()
            );
            return list_or_watch(WatchedView::Unwatched, &list, none, printer, fetch).await;
        }
        QuotaVerb::Status { user } => {
            let user = user.unwrap_or_else(|| client.user().to_owned());
            let answer = client.quota_list_page(&user, Default::default()).await.map_err(refused)?;
            excess_warn(&answer.granted, printer);
            let below = if user.starts_with("group/") { children(&client, &user).await? } else { Vec::new() };
            let above = parents(&client, &answer.quotas).await?;
            let lines = answer.quotas.into_iter().chain(above).chain(below);
            printer.list(&lines.map(QuotaView::from).collect::<Vec<_>>(), "")?;
        }
        QuotaVerb::Set(set) => {
            let quota = set_merged(&client, &set).await?;
            printer.list(&[QuotaView::from(quota)], "")?;
        }
        QuotaVerb::Remove(QuotaTarget { user, band }) => {
            let before = client.quota_get(&user, band).await.map_err(refused)?.quota.unwrap_or_default();
            limited_check(&user, band, &before)?;
            let what = format!("take the limits of {user} in {} away", band_word(band));
            confirm(global, &client, Intent::forget(&what), printer)?;
            let quota = client.quota_set(&user, band, None, 0).await.map_err(refused)?;
            printer.list(&[QuotaView::from(quota)], "")?;
        }
        QuotaVerb::History { user, band } => history(&client, &user, band, printer).await?,
    }
    Ok(Code::Done)
}

/// Warns of quotas that grant more than the cell has: nodes may have gone since they were set.
fn excess_warn(granted: &[GrantedTogether], printer: &Printer) {
    for together in granted.iter().filter(|together| !together.excess.is_empty()) {
        let bands: Vec<String> = together.bands().map(band_word).collect();
        let (bands, excess) = (bands.join(" and "), together.excess.join("; "));
        printer.remark(&format!("warning: the quotas of {bands} grant more than the cell has: {excess}"));
    }
}

/// The groups whose quotas bound these as well, the nearest first. Those that the caller may not see are left out.
async fn parents(client: &Client, quotas: &[Quota]) -> Result<Vec<Quota>, Failure> {
    let above = |quota: &Quota| {
        let parent =
            quota.limit.as_ref().map(|limit| limit.parent.clone()).filter(|parent| !parent.is_empty());
        parent.map(|parent| (parent, quota.band()))
    };
    let mut unread: VecDeque<(String, Band)> = quotas.iter().filter_map(above).collect();
    let (mut lines, mut seen) = (Vec::new(), BTreeSet::new());
    while let Some((group, band)) = unread.pop_front() {
        if !seen.insert((group.clone(), band)) {
            continue;
        }
        let line = match client.quota_get(&group, band).await {
            Err(ClientError::Refused(refusal)) if refusal.code == tonic::Code::PermissionDenied => continue,
            found => found.map_err(refused)?.quota.unwrap_or_default(),
        };
        unread.extend(above(&line));
        lines.push(line);
    }
    Ok(lines)
}

/// Every line right below a group.
async fn children(client: &Client, group: &str) -> Result<Vec<Quota>, Failure> {
    let (mut lines, mut page) = (Vec::new(), PageRequest::default());
    loop {
        let answer = client.quota_children_page(group, page).await.map_err(refused)?;
        lines.extend(answer.quotas);
        if answer.next_page.is_empty() {
            return Ok(lines);
        }
        page = PageRequest { page: answer.next_page, ..PageRequest::default() };
    }
}

/// A holder in a sentence.
fn who(holder: &str) -> String {
    if holder.contains('/') { holder.to_owned() } else { format!("user {holder}") }
}

/// Refuses to take away what is not there.
fn limited_check(user: &str, band: Band, quota: &Quota) -> Result<(), Failure> {
    if quota.limit.is_some() {
        return Ok(());
    }
    let text = format!("{} has no quota in {}; nothing was changed", who(user), band_word(band));
    Err(Failure::new(Code::NotFound, text).with_hint(format!("borough quota status {user}")))
}

/// The bands whose history is shown without `--band`.
const BANDS: [Band; 3] = [Band::Batch, Band::Production, Band::Monitoring];

/// The changes in one band, or in all, the newest first.
async fn history(client: &Client, user: &str, band: Option<Band>, printer: &Printer) -> Result<(), Failure> {
    let bands = band.map_or_else(|| BANDS.to_vec(), |band| vec![band]);
    let mut views: Vec<QuotaChangeView> = Vec::new();
    for band in bands {
        let changes = client.quota_get(user, band).await.map_err(refused)?.changes;
        views.extend(changes.into_iter().rev().map(|change| QuotaChangeView::new(band, change)));
    }
    // The sort is stable: changes of one band stay in their order.
    views.sort_by_key(|view| std::cmp::Reverse(view.at_ms));
    let place = band.map(|band| format!(" in {}", band_word(band))).unwrap_or_default();
    printer.list(&views, &format!("nobody has set limits of {user}{place}"))
}

fn refused(error: borough_client::ClientError) -> Failure {
    Failure::from(error).with_fields_as(&OPTIONS)
}

/// Changes what is named and leaves the rest, unless somebody else has changed it meanwhile.
async fn set_merged(client: &Client, set: &QuotaSet) -> Result<Quota, Failure> {
    let QuotaTarget { user, band } = &set.target;
    let before = client.quota_get(user, *band).await.map_err(refused)?.quota.unwrap_or_default();
    let limit = merged(before.limit.unwrap_or_default(), set);
    if is_empty(&limit) {
        let band = band_word(*band);
        let text = format!(
            "nothing of {user} in {band} would be limited; accepted: an amount of at least one resource, --tasks, or --parent"
        );
        return Err(Failure::new(Code::Usage, text)
            .with_hint(format!("to take the limits away: borough quota remove {user} --band {band}")));
    }
    if let (Some(from), Some(until)) = (limit.from_ms, limit.until_ms)
        && until <= from
    {
        let (from, until) = (time(from), time(until));
        let text = format!("--until: {until:?}; accepted: a time after {from}, the begin of the window");
        return Err(Failure::new(Code::Usage, text).with_hint("borough quota set --help"));
    }
    client.quota_set(user, *band, Some(limit), before.revision).await.map_err(refused)
}

/// The limit with what was named.
fn merged(limit: QuotaLimit, set: &QuotaSet) -> QuotaLimit {
    fn put(amount: &mut u64, named: Option<LimitAmount>) {
        match named {
            None => {}
            Some(LimitAmount::None) => *amount = 0,
            Some(LimitAmount::Of(named)) => *amount = named,
        }
    }
    let mut resources = limit.resources.clone().unwrap_or_default();
    put(&mut resources.cpu_millis, set.cpu);
    put(&mut resources.memory_bytes, set.memory);
    put(&mut resources.disk_bytes, set.disk);
    put(&mut resources.disk_bytes_per_s, set.disk_rate);
    put(&mut resources.network_bytes_per_s, set.network_rate);
    for (kind, amount) in &set.devices {
        put(resources.device_millis.entry(kind.clone()).or_default(), Some(*amount));
    }
    resources.device_millis.retain(|_, amount| *amount > 0);
    let tasks_max = match set.tasks {
        None => limit.tasks_max,
        Some(LimitAmount::None) => None,
        Some(LimitAmount::Of(tasks)) => Some(tasks),
    };
    let time = |before: Option<i64>, named: Option<LimitTime>| match named {
        None => before,
        Some(LimitTime::None) => None,
        Some(LimitTime::At(ms)) => Some(ms),
    };
    let (from_ms, until_ms) = (time(limit.from_ms, set.from), time(limit.until_ms, set.until));
    let parent = match &set.parent {
        None => limit.parent,
        Some(LimitParent::None) => String::new(),
        Some(LimitParent::Group(group)) => group.clone(),
    };
    // What is borrowed is the room of the parent.
    let borrow = if set.borrow.is_empty() { limit.borrow } else { borrow_of(&set.borrow) };
    let borrow = borrow.filter(|_| set.parent != Some(LimitParent::None));
    QuotaLimit { resources: Some(resources), tasks_max, from_ms, until_ms, parent, borrow }
}

/// What is named, together; `none` and `all` stand for themselves, and the last one counts.
fn borrow_of(named: &[LimitBorrow]) -> Option<QuotaBorrow> {
    let (mut borrow, mut resources) = (QuotaBorrow::default(), Resources::default());
    for one in named {
        match one {
            LimitBorrow::None => return None,
            LimitBorrow::All => return Some(QuotaBorrow { all: true, ..QuotaBorrow::default() }),
            LimitBorrow::Tasks(tasks) => borrow.tasks = *tasks,
            LimitBorrow::Cpu(amount) => resources.cpu_millis = *amount,
            LimitBorrow::Memory(amount) => resources.memory_bytes = *amount,
            LimitBorrow::Disk(amount) => resources.disk_bytes = *amount,
            LimitBorrow::DiskRate(amount) => resources.disk_bytes_per_s = *amount,
            LimitBorrow::NetworkRate(amount) => resources.network_bytes_per_s = *amount,
            LimitBorrow::Device { kind, amount } => {
                resources.device_millis.insert(kind.clone(), *amount);
            }
        }
    }
    Some(QuotaBorrow { resources: Some(resources), ..borrow })
}

fn is_empty(limit: &QuotaLimit) -> bool {
    limit.parent.is_empty()
        && limit.tasks_max.is_none()
        && limit.resources.as_ref().is_none_or(|all| *all == Resources::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_not_there_cannot_be_taken_away() {
        let limited = Quota { limit: Some(QuotaLimit::default()), ..Quota::default() };
        assert!(limited_check("ann", Band::Batch, &limited).is_ok());
        let refused = limited_check("ann", Band::Batch, &Quota::default()).unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
        assert_eq!(refused.message(), "user ann has no quota in batch; nothing was changed");
    }

    #[test]
    fn what_is_not_named_stays() {
        let target = QuotaTarget { user: "ann".to_owned(), band: Band::Batch };
        let none = QuotaSet {
            target,
            tasks: None,
            cpu: None,
            memory: None,
            disk: None,
            disk_rate: None,
            network_rate: None,
            devices: Vec::new(),
            from: None,
            until: None,
            parent: None,
            borrow: Vec::new(),
        };
        let gpu = |amount| vec![("gpu".to_owned(), amount)];
        let of = LimitAmount::Of;
        let first =
            QuotaSet { cpu: Some(of(500)), devices: gpu(of(2_000)), tasks: Some(of(0)), ..none.clone() };
        let limit = merged(QuotaLimit::default(), &first);
        let then = QuotaSet {
            memory: Some(of(7)),
            devices: gpu(LimitAmount::None),
            until: Some(LimitTime::At(9)),
            ..none.clone()
        };
        let limit = merged(limit, &then);
        let expected = Resources { cpu_millis: 500, memory_bytes: 7, ..Resources::default() };
        assert_eq!((limit.resources.clone(), limit.tasks_max), (Some(expected), Some(0)));
        assert_eq!((limit.from_ms, limit.until_ms), (None, Some(9)));
        let away = LimitAmount::None;
        let last = QuotaSet { cpu: Some(away), memory: Some(away), tasks: Some(away), ..none };
        assert!(!is_empty(&limit) && is_empty(&merged(limit.clone(), &last)));
        let shop = LimitParent::Group("group/shop".to_owned());
        let borrow = vec![LimitBorrow::Tasks(3), LimitBorrow::Cpu(250)];
        let below = QuotaSet { parent: Some(shop), borrow, ..last.clone() };
        let below = merged(limit, &below);
        assert!(!is_empty(&below), "it counts for its parent");
        let lent = merged(below.clone(), &last).borrow.unwrap();
        assert_eq!((lent.all, lent.tasks, lent.resources.unwrap().cpu_millis), (false, 3, 250));
        let alone = merged(below, &QuotaSet { parent: Some(LimitParent::None), ..last });
        assert_eq!((alone.parent.as_str(), alone.borrow), ("", None));
    }
}
