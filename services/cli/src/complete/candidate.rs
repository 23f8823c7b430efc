//! What may stand at an argument: names of the cell, asked for in bounded time, of contexts and of fields.

use std::collections::BTreeSet;
use std::time::Duration;

use borough_client::{Client, ClientError, FederatedFilter, JobFilter, JobRef, NodeFilter, TaskFilter};
use borough_model::access::{AccessRole, Right};
use borough_model::federation::federated_field_help as field_help;
use borough_model::node::TaintEffect;
use borough_proto::v1::{GetJobResponse, JobState, PageRequest};
use borough_scheduler_core::ScoringProfile;
use clap::Arg;
use clap_complete::engine::CompletionCandidate;

use super::TypedLine;
use crate::args::{
    JobTarget, WhyTarget, band_names, condition_value, job_state_names, node_state_names, signal_names,
    task_state_names,
};
use crate::command::{KnownVersions, audited_methods};
use crate::connect;
use crate::output::TaintView;

/// Without an answer in this time the shell gets no names.
const TIME_MAX: Duration = Duration::from_millis(300);
/// Names that are asked for at most: one page.
const NAMES_MAX: u32 = 1_000;
/// Verbs whose job may be over.
const VERBS_OF_ENDED: [&str; 3] = ["history", "status", "logs"];
/// Of a job that is over.
const ENDED: [JobState; 4] =
    [JobState::Succeeded, JobState::Failed, JobState::Stopped, JobState::DependencyFailed];

/// What an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completed {
    Job,
    JobOrEnded,
    EndedJob,
    /// A job, or a task of it.
    JobOrTask,
    /// A task, or a job as the beginning of one.
    Task,
    /// The same, also of a job that is over.
    TaskOrEnded,
    /// A job of the federation.
    FederatedJob,
    FederatedOrStopped,
    Node,
    Cell,
    /// A cell of the federation.
    Member,
    /// The home of a federation.
    Home,
    /// A job of the caller, for its share of a service.
    Share,
    MergedService,
    Context,
    /// A field of a job file.
    Field,
    /// Words for `--state`.
    NodeState,
    TaskState,
    /// Of the tasks of a job, or of jobs.
    TaskOrJobState,
    Signal,
    Band,
    /// A scoring profile.
    Profile,
    /// A role, or a right, of a grant.
    Role,
    Right,
    /// A method of the API.
    Method,
    /// A helper of the tasks that the line names.
    Helper,
    /// A version of the job that the line names, to which a rollout can go back.
    Version,
    /// Any version of the present job of the name that the line names.
    KnownVersion,
    /// A taint to set, by the keys that nodes have, or one to remove.
    Taint,
    NodeTaint,
    /// Conditions on the labels of jobs, of nodes with their attributes, or of both.
    JobLabel,
    NodeLabel,
    AnyLabel,
}

impl Completed {
    /// What an argument of a verb, such as `list` of `task`, names if it names something that can be listed.
    pub(super) fn of(noun: &str, verb: &str, argument: &Arg) -> Option<Self> {
        let value =
            argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
        let is_of_ended = VERBS_OF_ENDED.contains(&verb);
        match (verb, argument.get_id().as_str(), value) {
            (_, _, "JOB") if noun == "federation" && (is_of_ended || verb == "forget") => {
                Some(Self::FederatedOrStopped)
            }
            (_, _, "JOB") if noun == "federation" => Some(Self::FederatedJob),
            ("why", _, "JOB") => Some(Self::JobOrTask),
            (_, _, "TASK") if is_of_ended => Some(Self::TaskOrEnded),
            (_, _, "TASK") => Some(Self::Task),
            ("purge", _, "JOB") => Some(Self::EndedJob),
            ("status", _, "JOB") if noun == "task" => Some(Self::TaskOrEnded),
            (_, _, "JOB") if is_of_ended => Some(Self::JobOrEnded),
            (_, _, "JOB") => Some(Self::Job),
            (_, "service", _) if noun == "name" => Some(Self::MergedService),
            (_, "node" | "nodes", _) if !matches!(verb, "token" | "agent") => Some(Self::Node),
            (_, "member" | "members", _) if verb != "join" => Some(Self::Member),
            (_, "federation", _) if matches!(noun, "cell" | "federation") => Some(Self::Home),
            (_, "shares", _) => Some(Self::Share),
            (_, "label", _) if noun == "cell" => None,
            (_, "state", _) => match noun {
                "node" => Some(Self::NodeState),
                "task" => Some(Self::TaskState),
                _ => Some(Self::TaskOrJobState),
            },
            (_, "label", _) => match noun {
                "node" => Some(Self::NodeLabel),
                "event" => Some(Self::AnyLabel),
                _ => Some(Self::JobLabel),
            },
            (_, "signal", _) => Some(Self::Signal),
            (_, "band", _) => Some(Self::Band),
            (_, "profile", _) => Some(Self::Profile),
            (_, "roles", _) => Some(Self::Role),
            (_, "allow" | "deny", _) => Some(Self::Right),
            (_, "method", _) => Some(Self::Method),
            (_, "helper", _) => Some(Self::Helper),
            ("undo", "to", _) => Some(Self::Version),
            ("history", "version", _) => Some(Self::KnownVersion),
            ("taint", "taints", _) => Some(Self::Taint),
            ("untaint", "taints", _) => Some(Self::NodeTaint),
            ("explain", "field", _) => Some(Self::Field),
            (_, "context" | "context_name", _) => Some(Self::Context),
            (_, "cell", _) | ("status" | "set", "name", _) => Some(Self::Cell),
            _ => None,
        }
    }
}

/// What may stand where `current` is typed. Nothing if no gateway answers in time.
pub(super) fn candidates(completed: Completed, line: &TypedLine, current: &str) -> Vec<CompletionCandidate> {
    let names = match completed {
        Completed::Field => fields(),
        Completed::NodeState => node_state_names().map(str::to_owned).collect(),
        Completed::TaskState => task_state_names().map(str::to_owned).collect(),
        Completed::TaskOrJobState if line.object.is_some() => task_state_names().map(str::to_owned).collect(),
        Completed::TaskOrJobState => job_state_names().map(str::to_owned).collect(),
        Completed::Signal => signals(current),
        Completed::Band => band_names().map(str::to_owned).collect(),
        Completed::Profile => ScoringProfile::names().into_iter().map(str::to_owned).collect(),
        Completed::Role => AccessRole::ALL.iter().map(|known| known.name().to_owned()).collect(),
        Completed::Right => Right::ALL.iter().map(|known| known.name().to_owned()).collect(),
        Completed::Method => audited_methods().map(str::to_owned).collect(),
        Completed::Context => {
            connect::context_file().map(|file| file.contexts.into_keys().collect()).unwrap_or_default()
        }
        _ => asked(completed, line, current).unwrap_or_default(),
    };
    // A name from elsewhere must not act on the terminal.
    let is_plain = |name: &String| name.chars().all(|each| each.is_ascii_graphic());
    // A job that has ended may have the name of one that has not.
    let names: BTreeSet<String> = names.into_iter().collect();
    let fits = names.into_iter().filter(|name| name.starts_with(current)).filter(is_plain);
    fits.map(CompletionCandidate::new).collect()
}

/// The names of signals, as `current` begins: in its case, and with `SIG` if it has that.
fn signals(current: &str) -> Vec<String> {
    let is_low = current.starts_with(|first: char| first.is_ascii_lowercase());
    // No name begins with SI.
    let begin: String = current.chars().take(3).collect::<String>().to_ascii_uppercase();
    let has_prefix = begin.len() > 1 && "SIG".starts_with(&begin);
    let named = |name: &str| {
        let name = if has_prefix { format!("SIG{name}") } else { name.to_owned() };
        if is_low { name.to_ascii_lowercase() } else { name }
    };
    signal_names().map(named).collect()
}

fn fields() -> Vec<String> {
    let all = field_help("").map(|help| help.below().into_iter().map(|field| field.path.clone()).collect());
    all.unwrap_or_default()
}

/// The names of a cell, in bounded time.
fn asked(completed: Completed, line: &TypedLine, current: &str) -> Option<Vec<String>> {
    let global = line.global.as_ref()?;
    let client = connect::client(global).ok()?;
    let home = connect::federation_home(global).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let object = line.object.as_deref();
    let asking =
        async { tokio::time::timeout(TIME_MAX, names(completed, &client, &home, object, current)).await };
    let names = runtime.block_on(asking);
    // A name server that does not answer must not hold up the shell.
    runtime.shutdown_background();
    names.ok()?.ok()
}

/// The names of a kind. `home` is the federation's, and `object` is what the line is about.
async fn names(
    completed: Completed,
    client: &Client,
    home: &str,
    object: Option<&str>,
    current: &str,
) -> Result<Vec<String>, ClientError> {
    match completed {
        Completed::Helper => of_job(client, object, helpers).await,
        Completed::Version => versions(client, object).await,
        Completed::KnownVersion => known_versions(client, object).await,
        Completed::Taint => Ok(settable(taints(client, None).await?)),
        Completed::NodeTaint => taints(client, object).await,
        Completed::Cell => Ok(client.cell_list().await?.into_iter().map(|cell| cell.name).collect()),
        Completed::Home => {
            // A home that nobody has joined yet cannot be told from other cells, except by the usual name.
            let cells = client.cell_list().await?.into_iter();
            let homes = cells.filter(|cell| cell.members > 0 || cell.name == home);
            Ok(homes.map(|cell| cell.name).collect())
        }
        Completed::Share => {
            let own = current.split('=').next().unwrap_or_default();
            let names = jobs(client, own, Completed::Job).await?;
            Ok(names.into_iter().map(|name| format!("{name}=")).collect())
        }
        Completed::Member => {
            let members = client.with_cell(home).member_list(Vec::new()).await?;
            Ok(members.into_iter().map(|member| member.cell).collect())
        }
        Completed::MergedService => {
            let page = PageRequest { limit: NAMES_MAX, page: String::new() };
            let answer = client.merged_service_list_page(client.user(), page).await?;
            Ok(answer.services.into_iter().map(|service| service.name).collect())
        }
        Completed::Node => Ok(client.node_list().await?.into_iter().map(|node| node.name).collect()),
        Completed::Job | Completed::JobOrEnded | Completed::EndedJob => {
            jobs(client, current, completed).await
        }
        Completed::FederatedJob | Completed::FederatedOrStopped => {
            federated_jobs(&client.with_cell(home), current, completed).await
        }
        Completed::JobOrTask => {
            let mut names = tasks(client, current, Completed::Task).await?;
            names.extend(jobs(client, current, Completed::Job).await?);
            Ok(names)
        }
        Completed::Task | Completed::TaskOrEnded => tasks(client, current, completed).await,
        Completed::JobLabel => Ok(conditions(job_labels(client).await?, current)),
        Completed::NodeLabel => Ok(conditions(node_labels(client).await?, current)),
        Completed::AnyLabel => {
            let labels = job_labels(client).await?.into_iter().chain(node_labels(client).await?);
            Ok(conditions(labels, current))
        }
        Completed::Context
        | Completed::Field
        | Completed::NodeState
        | Completed::TaskState
        | Completed::TaskOrJobState
        | Completed::Band
        | Completed::Profile
        | Completed::Role
        | Completed::Right
        | Completed::Method
        | Completed::Signal => Ok(Vec::new()),
    }
}

/// The user that `current` names, with what stands before the name of a job; else the caller.
fn owner(client: &Client, current: &str) -> (String, String) {
    match current.split_once('/') {
        Some((user, _)) => (user.to_owned(), format!("{user}/")),
        None => (client.user().to_owned(), String::new()),
    }
}

/// Jobs of a federation, as [`jobs`] has those of a cell. `home` asks its home.
async fn federated_jobs(
    home: &Client,
    current: &str,
    completed: Completed,
) -> Result<Vec<String>, ClientError> {
    let (user, prefix) = owner(home, current);
    let stopped = completed == Completed::FederatedOrStopped;
    let filter = FederatedFilter { user, stopped, ..FederatedFilter::default() };
    let page = PageRequest { limit: NAMES_MAX, page: String::new() };
    let answer = home.federated_list_page(&filter, page).await?;
    Ok(answer.jobs.into_iter().map(|job| format!("{prefix}{}", job.name)).collect())
}

/// `JOB` of the caller, or `USER/JOB`.
async fn jobs(client: &Client, current: &str, completed: Completed) -> Result<Vec<String>, ClientError> {
    let (user, prefix) = owner(client, current);
    let states = if completed == Completed::EndedJob { ENDED.to_vec() } else { Vec::new() };
    let ended = !matches!(completed, Completed::Job | Completed::Task | Completed::JobOrTask);
    let filter = JobFilter { user, ended, states, ..JobFilter::default() };
    let page = PageRequest { limit: NAMES_MAX, page: String::new() };
    let answer = client.job_list_page(&filter, page).await?;
    Ok(answer.jobs.into_iter().map(|job| format!("{prefix}{}", job.name)).collect())
}

/// `JOB/INDEX` of the caller, or `USER/JOB/INDEX`. Before the index, the jobs with a `/` behind them.
async fn tasks(client: &Client, current: &str, completed: Completed) -> Result<Vec<String>, ClientError> {
    let of_job = async |job: JobRef, prefix: String| {
        let page = PageRequest { limit: NAMES_MAX, page: String::new() };
        let answer = client.task_list_page(&TaskFilter::of_job(&job), page).await;
        let tasks = answer.map(|answer| answer.tasks).unwrap_or_default();
        tasks.into_iter().map(|task| format!("{prefix}{}", task.index)).collect::<Vec<_>>()
    };
    let mut names: Vec<String> = Vec::new();
    match *current.split('/').collect::<Vec<_>>().as_slice() {
        [user, job, _] => names = of_job(JobRef::new(user, job), format!("{user}/{job}/")).await,
        [job, _] => {
            names = of_job(JobRef::new(client.user(), job), format!("{job}/")).await;
            names.extend(jobs(client, current, completed).await?.into_iter().map(|name| format!("{name}/")));
        }
        _ => names.extend(jobs(client, current, completed).await?.into_iter().map(|name| format!("{name}/"))),
    }
    Ok(names)
}

/// What `read` finds in the job that the line names, or that of its task.
async fn of_job(
    client: &Client,
    object: Option<&str>,
    read: fn(GetJobResponse) -> Vec<String>,
) -> Result<Vec<String>, ClientError> {
    let Some(target) = object.and_then(|object| object.parse::<WhyTarget>().ok()) else {
        return Ok(Vec::new());
    };
    Ok(read(client.job_get(&target.resolve(client.user())).await?))
}

fn helpers(answer: GetJobResponse) -> Vec<String> {
    let task = answer.spec.and_then(|spec| spec.task).unwrap_or_default();
    task.helpers.into_iter().map(|helper| helper.name).collect()
}

/// The versions to which a rollout can go back. One that is the same as the version in force changes nothing.
async fn versions(client: &Client, object: Option<&str>) -> Result<Vec<String>, ClientError> {
    let Some(target) = object.and_then(|object| object.parse::<JobTarget>().ok()) else {
        return Ok(Vec::new());
    };
    let job = target.resolve(client.user());
    let row = client.job_get(&job).await?.job.unwrap_or_default();
    let known = KnownVersions::read(client, &job, &row).await;
    Ok(known.others(&row).iter().map(ToString::to_string).collect())
}

async fn known_versions(client: &Client, object: Option<&str>) -> Result<Vec<String>, ClientError> {
    let Some(target) = object.and_then(|object| object.parse::<JobTarget>().ok()) else {
        return Ok(Vec::new());
    };
    let versions = client.job_history(&target.resolve(client.user())).await?;
    Ok(versions.iter().map(|version| version.version.to_string()).collect())
}

/// The taints of a node, or of all, as `node untaint` takes them.
async fn taints(client: &Client, node: Option<&str>) -> Result<Vec<String>, ClientError> {
    let nodes = match node {
        Some(node) => vec![client.node_get(node).await?],
        None => {
            let page = PageRequest { limit: NAMES_MAX, page: String::new() };
            client.node_list_page(&NodeFilter::default(), page).await?.nodes
        }
    };
    Ok(nodes.into_iter().flat_map(|node| node.taints).map(|taint| TaintView::from(taint).text()).collect())
}

/// The keys and values of taints, with each effect.
fn settable(taints: Vec<String>) -> Vec<String> {
    let begins = taints.iter().filter_map(|taint| taint.rsplit_once(':')).map(|(begin, _)| begin);
    let all = begins.flat_map(|begin| TaintEffect::NAMES.map(|(effect, _)| format!("{begin}:{effect}")));
    all.collect()
}

/// The labels of the caller's jobs.
async fn job_labels(client: &Client) -> Result<Vec<(String, String)>, ClientError> {
    let filter = JobFilter { user: client.user().to_owned(), ended: true, ..JobFilter::default() };
    let page = PageRequest { limit: NAMES_MAX, page: String::new() };
    let jobs = client.job_list_page(&filter, page).await?.jobs;
    Ok(jobs.into_iter().flat_map(|job| job.labels).collect())
}

/// The labels and attributes of nodes.
async fn node_labels(client: &Client) -> Result<Vec<(String, String)>, ClientError> {
    let page = PageRequest { limit: NAMES_MAX, page: String::new() };
    let nodes = client.node_list_page(&NodeFilter::default(), page).await?.nodes;
    Ok(nodes.into_iter().flat_map(|node| node.labels.into_iter().chain(node.attributes)).collect())
}

/// Conditions on these labels, behind those that are typed already: `KEY=`, and behind a key its values.
fn conditions(labels: impl IntoIterator<Item = (String, String)>, current: &str) -> Vec<String> {
    let last = current
        .rmatch_indices(',')
        .find(|(at, _)| !current.get(..*at).is_some_and(|begin| begin.ends_with('\\')));
    let (before, current) = current.split_at(last.map_or(0, |(at, _)| at.saturating_add(1)));
    let begun = current.split_once('=').map(|(key, _)| key);
    let condition = |(key, value): (String, String)| match begun {
        None => format!("{before}{key}="),
        Some(begun) if begun.ends_with('!') => format!("{before}{key}!={}", condition_value(&value)),
        Some(_) => format!("{before}{key}={}", condition_value(&value)),
    };
    let conditions: BTreeSet<String> = labels.into_iter().map(condition).collect();
    conditions.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_completed_first_and_then_their_values() {
        let labels = [("app", "web"), ("app", "db"), ("tier", "a,b")];
        let of = |current: &str| {
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
            let all = conditions(labels, current).into_iter();
            all.filter(|each| each.starts_with(current)).collect::<Vec<_>>()
        };
        assert_eq!(of(""), ["app=", "tier="]);
        assert_eq!(of("ap"), ["app="]);
        assert_eq!(of("app="), ["app=db", "app=web"]);
        assert_eq!(of("app!=w"), ["app!=web"]);
        assert_eq!(of("tier="), [r"tier=a\,b"]);
        assert_eq!(of(r"tier=a\,"), [r"tier=a\,b"]);
        assert_eq!(of("app=web,ti"), ["app=web,tier="]);
    }

    #[test]
    fn a_known_taint_is_set_with_each_effect() {
        let all = settable(vec!["gpu=yes:no_schedule".to_owned(), "old:no_execute".to_owned()]);
        assert_eq!(all.len(), 6);
        assert!(
            all.contains(&"gpu=yes:no_execute".to_owned()) && all.contains(&"old:no_schedule".to_owned())
        );
    }

    #[test]
    fn signals_are_completed_as_they_are_typed() {
        let of = |current: &str| {
            let all = signals(current).into_iter();
            all.filter(|name| name.starts_with(current)).collect::<Vec<_>>()
        };
        assert_eq!(of("HU"), ["HUP"]);
        assert_eq!(of("SIGHU"), ["SIGHUP"]);
        assert_eq!(of("sigte"), ["sigterm"]);
        assert!(of("si").contains(&"sighup".to_owned()) && of("SI").len() == of("").len());
        assert_eq!(of("us"), ["usr1", "usr2"]);
        assert!(of("").contains(&"TERM".to_owned()) && of("x").is_empty());
        assert_eq!(of("S"), ["SEGV", "STOP"]);
    }
}
