//! Verbs on nodes, cells, names and events.

use borough_proto::bounds::{
    AUDIT_RETENTION_MS, CELL_DRAIN_DELAY_MS_MAX, DNS_TTL_MS_MAX, ENDED_JOBS, FRESH_START_MS_MAX,
    JOURNAL_BYTES, OVERSELL_BATCH, OVERSELL_PRODUCTION, RETENTION_MS,
};
use borough_proto::v1::FailureDomains;
use clap::{Args, Subcommand};

use super::JobTarget;
use super::list::{
    LabelConditions, ListArguments, NodeStateOrCondition, WatchArguments, label_conditions, node_state,
};
use super::member::{
    DRAIN_CELL_NOTES, JOIN_NOTES, LEAVE_NOTES, MemberAddress, MemberDrain, MemberJoin, MemberLabelArguments,
    MemberList, MemberTarget, MemberTargets,
};
use super::merged::{SERVICE_NOTES, ServiceSet, ServiceTarget};
use super::number::{delay, time_within, timeout, whole};

/// When `node admit` is safe.
const ADMIT_WARNING: &str = "Use it only if the machine of the recorded agent is gone for good. The scheduler places \
    its tasks elsewhere, so they would run twice if that machine still ran them.";

/// How a job uses a label.
const NODE_LABEL_NOTES: &str = "A constraint names the key alone, as in 'tier == db'. A label hides an attribute of \
    the same key. It stays when the agent registers again. Tasks that run stay where they are.";

/// How to remove a node, and what comes back.
const REMOVE_NOTES: &str = "In order: borough node drain NODE, end its agent, borough node remove NODE. An agent that \
    comes back registers a new node of that name, and its old tasks are stopped. To keep it away, also remove its line \
    from the gateways' --node-tokens.";

/// What a drain leaves, and in which order it takes several nodes.
const DRAIN_NOTES: &str = "A task that fits on no other node runs on, and the command shows why. With --label every \
    node is cordoned before the first task moves.";

/// Some nodes by name, or those with labels.
#[derive(Clone, Debug, Args)]
pub struct NodeChoice {
    /// Names of nodes; several are checked before the first is changed
    #[arg(value_name = "NODE", required_unless_present = "label", conflicts_with = "label")]
    #[arg(value_parser = node_name)]
    pub nodes: Vec<String>,
    /// Instead of NODE: every node with labels or attributes like this; lists them and asks
    #[arg(short, long, value_parser = label_conditions, value_name = "KEY=VALUE,KEY!=VALUE")]
    pub label: Vec<LabelConditions>,
}

/// The name of one node among several. A time is none, so that `--force 5m` does not force at once.
fn node_name(text: &str) -> Result<String, String> {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(
            "is no node: names begin with a letter, and a time stands behind =, as in --force=5m".to_owned()
        );
    }
    Ok(text.to_owned())
}

/// Verbs on nodes.
#[derive(Debug, Subcommand)]
pub enum NodeVerb {
    /// List the nodes
    List {
        /// List only nodes with labels like this
        #[arg(short, long, value_parser = label_conditions, value_name = "KEY=VALUE,KEY!=VALUE")]
        label: Vec<LabelConditions>,
        /// List only nodes with one of these words in STATE, with commas between, such as lost,cordoned [default: all]
        #[arg(long, value_parser = node_state, value_name = "STATES", value_delimiter = ',')]
        state: Vec<NodeStateOrCondition>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Make a token for the agent of one node, or of any node of a cell
    #[command(after_help = "Also give --cell")]
    Token(NodeTokenArguments),
    /// Make, list and take back the tokens by which nodes join
    #[command(subcommand, name = "join-token")]
    JoinToken(super::JoinTokenVerb),
    /// Show a node and its tasks, or list the nodes
    Status {
        /// The node's name [default: list the nodes]
        node: Option<String>,
        #[command(flatten)]
        watching: WatchArguments,
    },
    /// Place no new tasks on a node; running tasks stay
    #[command(override_usage = "borough node cordon [OPTIONS] <NODE...|--label>")]
    Cordon(NodeChoice),
    /// Place tasks on a node again; ends a drain
    #[command(override_usage = "borough node uncordon [OPTIONS] <NODE...|--label>")]
    Uncordon(NodeChoice),
    /// Keep tasks that do not tolerate a taint away from a node
    #[command(override_usage = "borough node taint [OPTIONS] <NODE|--label> <TAINT>...")]
    Taint {
        /// The node's name
        #[arg(value_name = "NODE", value_parser = super::taint::node_or_taint, required_unless_present = "label")]
        node: Option<super::NameOrChange<String, borough_proto::v1::Taint>>,
        /// KEY[=VALUE]:EFFECT; effects are no_schedule, prefer_no_schedule and no_execute
        #[arg(required_unless_present = "label", value_parser = super::taint::taint, value_name = "TAINT")]
        taints: Vec<borough_proto::v1::Taint>,
        /// Instead of NODE: every node with labels or attributes like this; lists them and asks
        #[arg(short, long, value_parser = label_conditions, value_name = "KEY=VALUE,KEY!=VALUE")]
        label: Vec<LabelConditions>,
    },
    /// Remove taints from a node
    #[command(override_usage = "borough node untaint [OPTIONS] <NODE|--label> <TAINT>...")]
    Untaint {
        /// The node's name; with --label, the first taint
        #[arg(value_name = "NODE", required = true)]
        node: String,
        #[arg(
            required_unless_present = "label",
            value_parser = super::taint::taint_match,
            value_name = "TAINT",
            help = "KEY[=VALUE][:EFFECT]; without VALUE or EFFECT, any of them"
        )]
        taints: Vec<borough_proto::v1::TaintMatch>,
        /// Instead of NODE: every node with labels or attributes like this; lists them and asks
        #[arg(short, long, value_parser = label_conditions, value_name = "KEY=VALUE,KEY!=VALUE")]
        label: Vec<LabelConditions>,
    },
    /// Set and remove labels of a node, which constraints of jobs read like attributes
    #[command(after_help = NODE_LABEL_NOTES, override_usage = "borough node label [OPTIONS] <NODE|--label> <LABEL>...")]
    Label {
        /// The node's name
        #[arg(value_name = "NODE", value_parser = super::label::node_or_label, required_unless_present = "label")]
        node: Option<super::NameOrChange<String, super::LabelArgument>>,
        /// KEY=VALUE sets a label, KEY- removes it
        #[arg(required_unless_present = "label", value_parser = super::label::label, value_name = "LABEL")]
        changes: Vec<super::LabelArgument>,
        /// Instead of NODE: every node with labels or attributes like this; lists them and asks
        #[arg(short, long, value_parser = label_conditions, value_name = "KEY=VALUE,KEY!=VALUE")]
        label: Vec<LabelConditions>,
    },
    /// Forget a node that is gone for good: drained or lost, without tasks, and with its agent ended
    #[command(after_help = REMOVE_NOTES)]
    Remove {
        /// Names of nodes; several are checked before the first is forgotten
        #[arg(value_name = "NODE", required = true)]
        nodes: Vec<String>,
    },
    /// Give a lost node to another agent, whose refusal names this command
    #[command(after_help = ADMIT_WARNING)]
    Admit {
        /// The node's name
        node: String,
        /// Admit this agent, DURABLE@MACHINE as its refusal names it
        #[arg(long, value_name = "ID", value_parser = identity)]
        identity: String,
    },
    /// Cordon a node, move its tasks to others, and wait until they run there
    #[command(after_help = DRAIN_NOTES, override_usage = "borough node drain [OPTIONS] <NODE...|--label>")]
    Drain(DrainArguments),
}

/// Arguments of `node drain`.
#[derive(Clone, Debug, clap::Args)]
pub struct DrainArguments {
    #[command(flatten)]
    pub choice: NodeChoice,
    /// Return at once, without waiting
    #[arg(short, long)]
    pub detach: bool,
    /// Stop waiting after this time, such as 5m: the drain goes on, exit 7 [default: no limit]
    #[arg(long, value_parser = timeout, value_name = "TIME", conflicts_with = "detach")]
    pub timeout: Option<std::time::Duration>,
    /// Stop the tasks that fit on no other node too: at once, or after TIME [default: let them run]
    #[arg(long, value_parser = delay, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "0s")]
    pub force: Option<std::time::Duration>,
}

/// `node token`; the cell is that of every verb.
#[derive(Clone, Debug, Args)]
pub struct NodeTokenArguments {
    /// Make a token for this node [default: any node of the cell]
    pub node: Option<borough_model::Name>,
    /// Write the token to this new file; give it to the agent as --token-file
    #[arg(long, value_name = "FILE")]
    pub to: std::path::PathBuf,
    /// Add the token to this file; give it to the gateways as --node-tokens
    #[arg(long, value_name = "FILE")]
    pub accepted: std::path::PathBuf,
}

/// The identity of an agent, as refusals name it.
fn identity(text: &str) -> Result<String, String> {
    let identity: Result<borough_model::node::AgentIdentity, _> = text.parse();
    identity.map(|identity| identity.to_string()).map_err(|error| error.to_string())
}

/// Verbs on cells.
#[derive(Debug, Subcommand)]
pub enum CellVerb {
    /// List the cells
    List {
        #[command(flatten)]
        watching: WatchArguments,
    },
    /// Show a cell, its settings and its schedulers
    Status {
        /// The cell's name [default: the one in use]
        name: Option<String>,
        #[command(flatten)]
        watching: WatchArguments,
    },
    /// Change settings of a cell; settings that you do not give stay
    #[command(after_help = SCHEDULER_RULES, override_usage = "borough cell set [NAME] <OPTION>...")]
    Set {
        /// The cell's name [default: the one in use]
        name: Option<String>,
        #[command(flatten)]
        settings: Box<CellSet>,
    },
    /// Add a cell to a federation
    #[command(after_help = JOIN_NOTES)]
    Join(MemberJoin),
    /// Take a cell out of a federation
    #[command(after_help = LEAVE_NOTES)]
    Leave(MemberTarget),
    /// Give cells no new work from the federation
    Cordon(MemberTargets),
    /// Move the federated tasks of a cell to other cells, and wait until they run there
    #[command(after_help = DRAIN_CELL_NOTES)]
    Drain(MemberDrain),
    /// Give cells new work from the federation again; ends a drain
    Uncordon(MemberTargets),
    /// Say at which gateways the federation reaches a cell
    RenameEndpoint(MemberAddress),
    /// Set and remove labels of a cell in the federation
    Label(MemberLabelArguments),
    /// List the cells of a federation, each with what it has last reported
    Members(MemberList),
}

/// How `cell set --scheduler` reads its rules.
const SCHEDULER_RULES: &str = "WORK is gang, band:monitoring, band:production, band:batch, band:best_effort, service, \
    batch or daemon. The first of these with a rule for a job decides.";

/// Settings of a cell.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
pub struct CellSet {
    /// Score nodes by this profile for jobs that name none, such as best-fit or kubernetes:spread=0.5
    #[arg(long)]
    pub profile: Option<String>,
    /// Spread services over these node attributes and labels, the widest first, with commas between
    #[arg(long, value_parser = failure_domains, value_name = "KEYS", conflicts_with = "no_failure_domains")]
    pub failure_domains: Option<FailureDomains>,
    /// Spread services over no attribute
    #[arg(long)]
    pub no_failure_domains: bool,
    /// Order tasks of one priority by round-robin, fifo, drf, fair-share[:USER=WEIGHT,...] or hierarchical
    #[arg(long)]
    pub queueing: Option<String>,
    /// Replace all queues; repeat for each: PATH[:weight=N,guaranteed=PERCENT%,limit=PERCENT%]
    #[arg(long = "queue", value_parser = super::queue::queue, value_name = "QUEUE", conflicts_with = "no_queues")]
    pub queues: Vec<borough_proto::v1::Queue>,
    /// Remove all queues
    #[arg(long)]
    pub no_queues: bool,
    /// Replace all rules for jobs that name no scheduler; repeat for each: WORK=SCHEDULER, see below
    #[arg(long = "scheduler", value_parser = super::queue::scheduler_rule, value_name = "RULE", conflicts_with = "no_schedulers")]
    pub schedulers: Vec<(String, String)>,
    /// Remove all rules: jobs that name no scheduler go to default
    #[arg(long)]
    pub no_schedulers: bool,
    /// Spare a task from preemption for this time after its start, such as 5m; 0s: not at all
    #[arg(long, value_parser = fresh_start, value_name = "TIME")]
    pub fresh_start: Option<std::time::Duration>,
    /// Let queues take back their guarantee by evictions (with --queueing hierarchical)
    #[arg(long, conflicts_with = "no_reclaim")]
    pub reclaim: bool,
    /// Let queues wait for their guarantee
    #[arg(long)]
    pub no_reclaim: bool,
    /// Declare at most this many nodes lost per minute
    #[arg(long, value_parser = whole(1..=u32::MAX), value_name = "NODES")]
    pub lost_per_minute: Option<u32>,
    /// Keep jobs for this time after their end, such as 12h
    #[arg(long, value_parser = retention, value_name = "TIME")]
    pub job_retention: Option<std::time::Duration>,
    /// Keep journal entries for at least this time, such as 1h
    #[arg(long, value_parser = retention, value_name = "TIME")]
    pub journal_retention: Option<std::time::Duration>,
    /// Keep at most this much of the journal, however young it is, such as 1GiB
    #[arg(long, value_parser = journal_bytes, value_name = "BYTES")]
    pub journal_bytes: Option<u64>,
    /// Keep the calls of the audit for this time, such as 365d
    #[arg(long, value_parser = audit_retention, value_name = "TIME")]
    pub audit_retention: Option<std::time::Duration>,
    /// Keep at most this many ended jobs, however young they are
    #[arg(long, value_parser = whole(ENDED_JOBS), value_name = "JOBS")]
    pub ended_jobs: Option<u64>,
    /// Let resolvers keep an answer about names of the cell for this time, such as 5s
    #[arg(long, value_parser = dns_ttl, value_name = "TIME")]
    pub dns_ttl: Option<std::time::Duration>,
    /// Let resolvers keep for this time that a name has no records
    #[arg(long, value_parser = dns_ttl, value_name = "TIME")]
    pub dns_negative_ttl: Option<std::time::Duration>,
    /// For jobs with ports and without drain_delay: send SIGTERM this long after the endpoint is withdrawn, such as 2s
    #[arg(long, value_parser = drain_delay, value_name = "TIME")]
    pub drain_delay: Option<std::time::Duration>,
    /// Let the quotas of a band grant together this much of the capacity: production=PERCENT, up to 100 (with
    /// monitoring), or batch=PERCENT or batch=none; repeat for both
    #[arg(long, value_parser = oversell, value_name = "BAND=PERCENT")]
    pub oversell: Vec<OversellFactor>,
}

/// What the quotas of a band may grant together, in percent of the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OversellFactor {
    Production(u32),
    /// 0: any amount.
    Batch(u32),
}

fn oversell(text: &str) -> Result<OversellFactor, String> {
    let accepted = || {
        let (most, batch) = (OVERSELL_PRODUCTION.end(), OVERSELL_BATCH.end());
        format!(
            "accepted: production=PERCENT from 1 to {most}, batch=PERCENT from 1 to {batch}, or batch=none"
        )
    };
    let percent = |text: &str| text.trim_end_matches('%').parse::<u32>().ok();
    let factor = match text.split_once('=') {
        Some(("batch", "none")) => Some(OversellFactor::Batch(0)),
        Some(("batch", text)) => percent(text)
            .filter(|percent| *percent > 0 && OVERSELL_BATCH.contains(percent))
            .map(OversellFactor::Batch),
        Some(("production", text)) => percent(text)
            .filter(|percent| OVERSELL_PRODUCTION.contains(percent))
            .map(OversellFactor::Production),
        Some(_) | None => None,
    };
    factor.ok_or_else(accepted)
}

fn failure_domains(text: &str) -> Result<FailureDomains, String> {
    let keys = text.split(',').map(str::trim).filter(|key| !key.is_empty());
    let keys: Vec<String> = keys.map(str::to_owned).collect();
    if keys.is_empty() {
        let accepted =
            "accepted: attributes or labels of nodes such as zone,rack; --no-failure-domains for none";
        return Err(accepted.to_owned());
    }
    Ok(FailureDomains { keys })
}

fn fresh_start(text: &str) -> Result<std::time::Duration, String> {
    time_within(text, &(0..=FRESH_START_MS_MAX), "0s to 24h")
}

/// A time for which resolvers may keep an answer.
pub(super) fn dns_ttl(text: &str) -> Result<std::time::Duration, String> {
    const ACCEPTED: &str = "0s to 1h, in whole seconds";
    let time = time_within(text, &(0..=DNS_TTL_MS_MAX), ACCEPTED)?;
    if time.subsec_nanos() == 0 { Ok(time) } else { Err(format!("accepted: {ACCEPTED}")) }
}

fn drain_delay(text: &str) -> Result<std::time::Duration, String> {
    time_within(text, &(0..=CELL_DRAIN_DELAY_MS_MAX), "0s to 10s")
}

fn retention(text: &str) -> Result<std::time::Duration, String> {
    time_within(text, &RETENTION_MS, "1m to 365d")
}

fn audit_retention(text: &str) -> Result<std::time::Duration, String> {
    time_within(text, &AUDIT_RETENTION_MS, "1m to 3650d")
}

fn journal_bytes(text: &str) -> Result<u64, String> {
    let bytes = borough_model::resource::bytes_parse(text).map_err(|error| error.to_string())?;
    if JOURNAL_BYTES.contains(&bytes) { Ok(bytes) } else { Err("accepted: 64MiB to 1TiB".to_owned()) }
}

/// Verbs on names.
#[derive(Debug, Subcommand)]
pub enum NameVerb {
    /// List the endpoints of a job, or of all your jobs
    List {
        /// [USER/]JOB [default: all your jobs]
        #[arg(value_name = "JOB")]
        target: Option<JobTarget>,
        /// List the endpoints of every user
        #[arg(short, long, conflicts_with = "target")]
        all: bool,
        /// List only endpoints of jobs with labels like this
        #[arg(short, long, value_parser = label_conditions, value_name = "KEY=VALUE,KEY!=VALUE")]
        label: Vec<LabelConditions>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Make one service of several jobs by their labels, or change it: what is not named stays
    #[command(after_help = SERVICE_NOTES)]
    Set(ServiceSet),
    /// Show a service over labels: its jobs, their endpoints and their parts of the traffic
    Status {
        /// [USER/]NAME [default: list yours]
        #[arg(value_name = "NAME")]
        service: Option<ServiceTarget>,
    },
    /// Remove a service over labels; its jobs keep their own names
    Remove {
        /// [USER/]NAME
        #[arg(value_name = "NAME")]
        service: ServiceTarget,
    },
    /// Show the endpoints of a job, or of all your jobs, and then every change
    Watch {
        /// [USER/]JOB [default: all your jobs]
        #[arg(value_name = "JOB")]
        target: Option<JobTarget>,
    },
}

/// Events that a gateway lists at most.
pub(crate) const EVENTS_MAX: u32 = 10_000;

/// Verbs on events.
#[derive(Debug, Subcommand)]
pub enum EventVerb {
    /// List what has happened: the newest 100 events, the newest last
    #[command(after_help = EVENT_NOTES)]
    List {
        #[command(flatten)]
        filter: EventFilter,
        /// List only events that are no older than this, such as 15m or 7d [default: of any age]
        #[arg(long, value_name = "TIME", value_parser = super::number::ago)]
        since: Option<std::time::Duration>,
        /// List at most this many, the newest ones, 1 to 10000 [default: 100, with --since 10000]
        #[arg(long, value_name = "N", value_parser = whole(1..=EVENTS_MAX))]
        limit: Option<u32>,
        #[command(flatten)]
        watching: WatchArguments,
    },
    /// Show every change from now on
    Watch {
        #[command(flatten)]
        filter: EventFilter,
    },
}

/// How far back events go.
const EVENT_NOTES: &str = "The cell keeps events for as long as its journal: an hour unless it says otherwise, see \
    borough cell status.";

/// Events that are listed without `--limit` and without `--since`.
const EVENTS_DEFAULT: u32 = 100;

/// The most events of a list: all of a time, unless the user says how many.
pub(crate) fn events_limit(limit: Option<u32>, since: Option<std::time::Duration>) -> u32 {
    let all = if since.is_some() { EVENTS_MAX } else { EVENTS_DEFAULT };
    limit.unwrap_or(all)
}

/// Which events.
#[derive(Clone, Debug, Default, Args)]
pub struct EventFilter {
    /// Show only events of this job, [USER/]JOB [default: all jobs]
    #[arg(long, value_name = "JOB")]
    pub job: Option<JobTarget>,
    /// Show only events of this node [default: all nodes]
    #[arg(long, value_name = "NODE", conflicts_with = "job")]
    pub node: Option<String>,
    /// Show only events of jobs and nodes with labels like this at present, and of the tasks of such jobs
    #[arg(short, long, value_parser = label_conditions, value_name = "KEY=VALUE,KEY!=VALUE")]
    pub label: Vec<LabelConditions>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_of_a_band_and_production_has_no_more_than_everything() {
        assert_eq!(oversell("production=100"), Ok(OversellFactor::Production(100)));
        assert_eq!(oversell("batch=250%"), Ok(OversellFactor::Batch(250)));
        assert_eq!(oversell("batch=none"), Ok(OversellFactor::Batch(0)));
        for wrong in
            ["production=101", "production=none", "production=0", "batch=0", "batch", "monitoring=5", ""]
        {
            let refused = oversell(wrong).unwrap_err();
            assert!(refused.starts_with("accepted: production=PERCENT from 1 to 100"), "{wrong}: {refused}");
        }
    }
}
