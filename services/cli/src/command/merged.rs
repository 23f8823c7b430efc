//! `name set`, `name status` and `name remove`: services over the labels of jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_client::{Client, ClientError, JobRef};
use borough_proto::v1::{JobShare, LabelMatch, MergedService, PageRequest};

use super::confirm::{Intent, confirm};
use crate::args::{Global, ServiceSet, ServiceTarget, conditions_of, shares_changed};
use crate::exit::{Code, Failure};
use crate::output::{MergedServiceView, MergedStatusView, Printer};

/// The arguments of `name set`, by the fields that they set.
const OPTIONS: [(&str, &str); 3] = [("selector", "--label"), ("shares", "--share"), ("name", "NAME")];

/// How often a change is made again after another one.
const TRIES: u32 = 8;
/// The time before it is read again: a gateway may show what was committed a little later.
const TRY_PAUSE: Duration = Duration::from_millis(100);
/// A revision that no service has: a change for it changes nothing.
const NO_REVISION: u64 = u64::MAX;

/// Makes a service, or changes what is named of it, and shows it.
pub(super) async fn set(client: &Client, set: &ServiceSet, printer: &Printer) -> Result<(), Failure> {
    let service = set.service.resolve(client.user());
    for left in (0..TRIES).rev() {
        let before = match found(client, &service).await {
            Err(error) if error.code() == Some(tonic::Code::PermissionDenied) => {
                return Err(set_refused(client, &service, error).await);
            }
            before => before?,
        };
        let change = ServiceChange::of(set, &service, before)?;
        let ServiceChange { selector, shares, revision } = change;
        match client.merged_service_set(&service, selector, shares, revision).await {
            // Another one came first, and this one names no revision: it is for the service as it is now.
            Err(error) if left > 0 && is_overtaken(&error) => tokio::time::sleep(TRY_PAUSE).await,
            done => {
                done.map_err(|error| Failure::from(error).with_fields_as(&OPTIONS))?;
                break;
            }
        }
    }
    show(client, &service, printer).await
}

/// Whether the service has changed since it was read.
fn is_overtaken(error: &ClientError) -> bool {
    error.refusal().is_some_and(|refusal| refusal.reason == "OUTDATED")
}

/// Why a service cannot be set that must not be read: the right to set it is what is missing, if it is.
async fn set_refused(client: &Client, service: &JobRef, read: ClientError) -> Failure {
    let set = client.merged_service_set(service, Vec::new(), Vec::new(), NO_REVISION).await;
    let refused = set.err().filter(|error| error.code() == Some(tonic::Code::PermissionDenied));
    refused.unwrap_or(read).into()
}

/// A service as it is to be, for the revision that was read.
struct ServiceChange {
    selector: Vec<LabelMatch>,
    shares: Vec<JobShare>,
    revision: u64,
}

impl ServiceChange {
    fn of(set: &ServiceSet, service: &JobRef, before: Option<MergedService>) -> Result<Self, Failure> {
        if set.label.is_empty() && before.is_none() {
            let text = format!("there is no service {service}; accepted: --label as well, to make it");
            let hint = format!("borough name set {service} --label app={}", service.name);
            return Err(Failure::new(Code::Usage, text).with_hint(hint));
        }
        let before = before.unwrap_or_default();
        let shares: BTreeMap<String, u32> =
            before.shares.into_iter().map(|share| (share.job, share.percent)).collect();
        let shares = shares_changed(shares, &set.shares).map_err(|text| Failure::new(Code::Usage, text))?;
        let shares = shares.into_iter().map(|(job, percent)| JobShare { job, percent }).collect();
        let selector = if set.label.is_empty() { before.selector } else { conditions_of(&set.label) };
        Ok(Self { selector, shares, revision: before.revision })
    }
}

/// The service as it is; `None` if there is none.
async fn found(client: &Client, service: &JobRef) -> Result<Option<MergedService>, ClientError> {
    match client.merged_service_get(service).await {
        Ok(answer) => Ok(answer.service),
        Err(error) if error.code() == Some(tonic::Code::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Shows one service with its jobs, or a list of the caller's.
pub(super) async fn status(
    client: &Client,
    target: Option<&ServiceTarget>,
    printer: &Printer,
) -> Result<(), Failure> {
    if let Some(target) = target {
        return show(client, &target.resolve(client.user()), printer).await;
    }
    let (mut services, mut page) = (Vec::new(), PageRequest::default());
    loop {
        let answer = client.merged_service_list_page(client.user(), page).await?;
        services.extend(answer.services.into_iter().map(MergedServiceView::from));
        if answer.next_page.is_empty() {
            break;
        }
        page = PageRequest { page: answer.next_page, ..PageRequest::default() };
    }
    let (user, cell) = (client.user(), client.cell());
    let none =
        format!("no services over labels of user {user} in cell {cell}\nhint: borough name set --help");
    printer.list(&services, &none)
}

async fn show(client: &Client, service: &JobRef, printer: &Printer) -> Result<(), Failure> {
    let answer = client.merged_service_get(service).await.map_err(unknown)?;
    let status = MergedStatusView::from(answer);
    printer.one(&status, MergedStatusView::text)?;
    status.remarks().iter().for_each(|text| printer.remark(text));
    Ok(())
}

fn unknown(error: ClientError) -> Failure {
    let is_unknown = error.code() == Some(tonic::Code::NotFound);
    let failure = Failure::from(error);
    if is_unknown { failure.with_hint("borough name status") } else { failure }
}

/// Removes a service after a question.
pub(super) async fn remove(
    global: &Global,
    client: &Client,
    target: &ServiceTarget,
    printer: &Printer,
) -> Result<(), Failure> {
    let service = target.resolve(client.user());
    let what = format!("remove service {service}; its jobs keep their own names");
    confirm(global, client, Intent::stop(&what), printer)?;
    let removed = client.merged_service_remove(&service).await.map_err(unknown)?;
    printer.one(&MergedServiceView::from(removed), |view, _| {
        format!("removed service {}/{}", view.user, view.name)
    })
}
