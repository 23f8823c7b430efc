//! What a verb says of a job or node that the cell does not have: of whom and where it looked, the near names, and the
//! command that lists them.

use std::time::Duration;

use borough_client::{Client, ClientError, JobFilter, JobRef};
use borough_model::job::file::nearest;
use borough_proto::convert::job_id_from_text;
use borough_proto::v1::PageRequest;

use crate::args::{Global, NamedTarget, OptionSource, is_kind};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::Printer;

/// Without an answer in this time the failure stays as it is.
const TIME_MAX: Duration = Duration::from_secs(2);
/// Names that are looked at: one page.
const NAMES_MAX: u32 = 1_000;

/// What was found out about a name.
struct Found {
    unknown: Option<Failure>,
    /// The command that shows what there is, of a job that is there.
    hint: Option<String>,
}

/// The failure of a verb that found nothing, if it is for lack of what it names; else the same failure.
pub(super) async fn explained(global: &Global, named: &NamedTarget, failure: Failure) -> Failure {
    let Ok(client) = connect::client(global) else { return failure };
    let asked = async {
        match named {
            NamedTarget::Job(target) => {
                // Without the option the hint would list the jobs of somebody else.
                let is_caller = global.sources.user != OptionSource::Line;
                let caller = is_caller.then(|| client.user());
                let job = target.resolve(client.user());
                let unknown = match job_unknown(&client, &job, caller).await? {
                    Some(unknown) => Some(elsewhere(global, &client, &job).await.unwrap_or(unknown)),
                    None => None,
                };
                // The job is there, and a task or an attempt of it is not.
                let known = || format!("borough task status {job}");
                Ok(Found { hint: unknown.is_none().then(known), unknown })
            }
            NamedTarget::Node(node) => {
                let unknown = match node_unknown(&client, node).await? {
                    Some(unknown) => Some(job_of_name(&client, node).await.unwrap_or(unknown)),
                    None => None,
                };
                Ok(Found { unknown, hint: None })
            }
        }
    };
    let found: Result<Result<Found, ClientError>, _> = tokio::time::timeout(TIME_MAX, asked).await;
    match found {
        Ok(Ok(Found { unknown: Some(unknown), .. })) => unknown,
        Ok(Ok(Found { hint: Some(hint), .. })) if failure.hint().is_none() => failure.with_hint(hint),
        _ => failure,
    }
}

/// The failure of a job that is one of several, as [`explained`] has it for a single one.
pub(super) async fn job_missing(client: &Client, job: &JobRef, failure: Failure) -> Failure {
    missing(failure, job_unknown(client, job, Some(client.user()))).await
}

/// The same of a node.
pub(super) async fn node_missing(client: &Client, node: &str, failure: Failure) -> Failure {
    missing(failure, node_unknown(client, node)).await
}

async fn missing(
    failure: Failure,
    unknown: impl Future<Output = Result<Option<Failure>, ClientError>>,
) -> Failure {
    if failure.code() != Code::NotFound {
        return failure;
    }
    match tokio::time::timeout(TIME_MAX, unknown).await {
        Ok(Ok(Some(unknown))) => unknown,
        _ => failure,
    }
}

/// Says that a watch waits for a job that is not there yet.
pub(super) async fn job_awaited(client: &Client, job: &JobRef, printer: &Printer) -> Result<(), Failure> {
    match client.job_get(job).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(tonic::Code::NotFound) => {
            awaited(job_unknown(client, job, None).await?, &format!("job {job}"), printer);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Says that a watch waits for a node that is not there yet.
pub(super) async fn node_awaited(client: &Client, node: &str, printer: &Printer) -> Result<(), Failure> {
    match client.node_get(node).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(tonic::Code::NotFound) => {
            awaited(node_unknown(client, node).await?, &format!("node {node}"), printer);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn awaited(unknown: Option<Failure>, what: &str, printer: &Printer) {
    let unknown = unknown.map_or_else(|| format!("no {what}"), |failure| failure.message().to_owned());
    printer.remark(&format!("{unknown}; the watch waits for it"));
}

/// The failure of a job that the cell does not have, if something else has that name.
async fn elsewhere(global: &Global, client: &Client, job: &JobRef) -> Option<Failure> {
    if let Some(service) = service_of_name(client, job).await {
        return Some(service);
    }
    if client.node_get(&job.name).await.is_ok() {
        let hint = format!("borough node status {}", job.name);
        return Some(is_other(client, job, "it is a node").with_hint(hint));
    }
    federated(global, client, job).await
}

/// The failure of a node that the cell does not have, if a job of the caller has that name.
async fn job_of_name(client: &Client, node: &str) -> Option<Failure> {
    let job = JobRef::new(client.user(), node);
    client.job_get(&job).await.ok()?;
    let message = format!("no node {node:?} in cell {}: it is a job", client.cell());
    Some(Failure::new(Code::NotFound, message).with_hint(format!("borough job status {job}")))
}

fn is_other(client: &Client, job: &JobRef, what: &str) -> Failure {
    let cell = client.cell();
    Failure::new(Code::NotFound, format!("no job {:?} of user {} in cell {cell}: {what}", job.name, job.user))
}

/// The failure of a job that the cell does not have, if a service over several jobs has that name.
pub(super) async fn service_of_name(client: &Client, job: &JobRef) -> Option<Failure> {
    client.merged_service_get(job).await.ok()?;
    let failure = is_other(client, job, "it is a service over several jobs");
    Some(
        failure
            .with_hint(format!("borough name status {job}, and for each of its jobs: borough name list JOB")),
    )
}

/// The same, if the federation has a job of that name.
async fn federated(global: &Global, client: &Client, job: &JobRef) -> Option<Failure> {
    let home = client.with_cell(connect::federation_home(global).ok()?);
    let known = home.federated_get(job).await.ok()?.job?;
    let cells: Vec<&str> =
        known.parts.iter().filter(|part| part.count > 0).map(|part| part.cell.as_str()).collect();
    let has = if cells.is_empty() { "no cell".to_owned() } else { cells.join(", ") };
    let message = format!(
        "no job {:?} of user {} in cell {}: it is a federated job, with tasks in {has}",
        job.name,
        job.user,
        client.cell()
    );
    let hint = format!("borough federation job status {job}; borough federation job --help");
    Some(Failure::new(Code::NotFound, message).with_hint(hint))
}

async fn job_unknown(
    client: &Client,
    job: &JobRef,
    caller: Option<&str>,
) -> Result<Option<Failure>, ClientError> {
    let own = jobs(client, &job.user).await?.jobs;
    let names: Vec<&str> = own.iter().map(|own| own.name.as_str()).collect();
    if names.contains(&job.name.as_str()) {
        return Ok(None);
    }
    let list = if Some(job.user.as_str()) == caller {
        "borough job list --ended".to_owned()
    } else {
        format!("borough --user {} job list --ended", job.user)
    };
    // A job may also have a name of this form.
    if job_id_from_text("job", &job.name).is_ok()
        && let Some(failure) = id_unknown(client, job, &list).await?
    {
        return Ok(Some(failure));
    }
    // `job/web` of kubectl: a kind and a name.
    if own.is_empty() && is_kind(&job.user) {
        let message = format!(
            "no job {:?} of user {} in cell {}; accepted: JOB or USER/JOB, such as {}",
            job.name,
            job.user,
            client.cell(),
            job.name
        );
        let hint = format!("borough job status {}", job.name);
        return Ok(Some(Failure::new(Code::NotFound, message).with_hint(hint)));
    }
    // A job of the caller with the name of that user: its task was meant.
    if own.is_empty()
        && job.user != client.user()
        && client.job_get(&JobRef::new(client.user(), job.user.as_str())).await.is_ok()
    {
        let message = format!(
            "no job {:?} of user {} in cell {}; accepted: JOB/INDEX, such as {}/0, for a task of job {}",
            job.name,
            job.user,
            client.cell(),
            job.user,
            job.user
        );
        let hint = format!("borough task status {}", job.user);
        return Ok(Some(Failure::new(Code::NotFound, message).with_hint(hint)));
    }
    let near = match nearest(&job.name, &names) {
        Some(near) if job.user == client.user() => Some(near.to_owned()),
        Some(near) => Some(format!("{}/{near}", job.user)),
        // Often somebody else has the job.
        None => {
            let all = jobs(client, "").await?.jobs;
            // It was submitted between the two questions.
            if all.contains(job) {
                return Ok(None);
            }
            all.iter().find(|other| other.name == job.name).map(ToString::to_string)
        }
    };
    let what = format!("job {:?} of user {} in cell {}", job.name, job.user, client.cell());
    Ok(Some(unknown(&what, near.as_deref(), &list)))
}

async fn node_unknown(client: &Client, node: &str) -> Result<Option<Failure>, ClientError> {
    let nodes = client.node_list().await?;
    let names: Vec<&str> = nodes.iter().map(|known| known.name.as_str()).collect();
    if names.contains(&node) {
        return Ok(None);
    }
    let what = format!("node {node:?} in cell {}", client.cell());
    Ok(Some(unknown(&what, nearest(node, &names), "borough node list")))
}

/// The failure of a verb that got an id in place of a name; `None`: the cell has more jobs than were looked at.
async fn id_unknown(client: &Client, job: &JobRef, list: &str) -> Result<Option<Failure>, ClientError> {
    let all = jobs(client, "").await?;
    let what = format!("no job {:?} of user {} in cell {}", job.name, job.user, client.cell());
    if let Some(at) = all.ids.iter().position(|id| *id == job.name)
        && let Some(named) = all.jobs.get(at)
    {
        let message = format!("{what}: this is the id of job {named}, and a verb takes its name");
        return Ok(Some(
            Failure::new(Code::NotFound, message).with_hint(format!("borough job status {named}")),
        ));
    }
    let message = format!("{what}, and no job has this id: it never existed, or its record has expired");
    Ok(all.is_whole.then(|| Failure::new(Code::NotFound, message).with_hint(list)))
}

/// Jobs, with their ids in the same order.
struct JobsFound {
    jobs: Vec<JobRef>,
    ids: Vec<String>,
    /// No further page follows.
    is_whole: bool,
}

/// The jobs of a user, or of all, with those that are over.
async fn jobs(client: &Client, user: &str) -> Result<JobsFound, ClientError> {
    let filter = JobFilter { user: user.to_owned(), ended: true, ..JobFilter::default() };
    let page = PageRequest { limit: NAMES_MAX, page: String::new() };
    let answer = client.job_list_page(&filter, page).await?;
    let is_whole = answer.next_page.is_empty();
    let (jobs, ids) = answer.jobs.into_iter().map(|job| (JobRef::new(job.user, job.name), job.id)).unzip();
    Ok(JobsFound { jobs, ids, is_whole })
}

fn unknown(what: &str, near: Option<&str>, list: &str) -> Failure {
    let meant = near.map(|near| format!(", did you mean {near:?}?")).unwrap_or_default();
    Failure::new(Code::NotFound, format!("no {what}{meant}")).with_hint(list)
}
