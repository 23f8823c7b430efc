//! The text of an explanation: one paragraph for people.

use std::fmt;

use borough_model::Name;
use borough_model::job::{Affinity, AffinityKind, Constraint, ConstraintOperator, JobOutcome};
use borough_model::node::{CardSelector, PRESSURE_PREFIX, SILENT_KEY, Taint, Within};
use borough_model::resource::Dimension;
use borough_model::task::machine::PORT_COOL_DOWN_MS;

use super::after::{after_text, cycle_written};
use super::amount::{Amount, Bytes};
use super::{AllocLeft, EvictionReport, Explanation, FilterLoss, FilterStep, NearestFit, WaitReason};

/// A constraint as text.
struct ConstraintText<'a>(&'a Constraint);

impl fmt::Display for ConstraintText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Constraint { attribute, operator, values, .. } = self.0;
        let values = values.join(", ");
        match operator {
            ConstraintOperator::In => write!(f, "{attribute} in [{values}]"),
            ConstraintOperator::NotIn => write!(f, "{attribute} not in [{values}]"),
            ConstraintOperator::Exists => write!(f, "{attribute} exists"),
            ConstraintOperator::Absent => write!(f, "{attribute} absent"),
            ConstraintOperator::GreaterThan => write!(f, "{attribute} > {values}"),
            ConstraintOperator::LessThan => write!(f, "{attribute} < {values}"),
        }
    }
}

impl fmt::Display for FilterStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recovering => f.write_str("recovering"),
            Self::Lost => f.write_str("lost"),
            Self::Cordoned => f.write_str("cordoned"),
            Self::Draining => f.write_str("drained"),
            Self::Constraint { constraint } => write!(f, "constraint {}", ConstraintText(constraint)),
            Self::Taint { key, .. } if key == SILENT_KEY => f.write_str("silent"),
            Self::Taint { .. } => match self.pressure() {
                // It may also be that everything waits for memory.
                Some("memory") => f.write_str("short of memory"),
                Some(kind) => write!(f, "short of {kind} by --{kind}-low of its agent"),
                None => write!(f, "taint {} not tolerated", self.taint()),
            },
            Self::Affinity { affinity } => affinity_written(f, affinity),
            Self::Kept { attribute } => write!(f, "kept apart by a task in the same {attribute}"),
            Self::Spread { attribute, max_skew: Some(most), .. } => {
                write!(f, "spread over {attribute} with at most {most} more than in the emptiest")
            }
            Self::Spread { attribute, tasks_max, .. } => {
                write!(f, "spread over {attribute} with at most {} in each", tasks_max.unwrap_or(0))
            }
            Self::PortFixed { number } => write!(f, "port {number} taken"),
            Self::PortCooling { number } => {
                write!(f, "port {number} cools down for {} s after its last task", PORT_COOL_DOWN_MS / 1_000)
            }
            Self::PortsDynamic { asked: 1 } => f.write_str("no port free"),
            Self::PortsDynamic { asked } => write!(f, "fewer than {asked} ports free"),
            Self::Within { within, exclusive_cores: false } => {
                write!(f, "too little free within {}", within_text(*within))
            }
            Self::Within { within, exclusive_cores: true } => {
                write!(f, "no whole cores free within {}", within_text(*within))
            }
            Self::Device { device, selector } => write!(f, "no {}", device_text(device, selector)),
            Self::Capacity { dimension, asked } => {
                write!(f, "too small for {dimension} {}", Amount(dimension, *asked))
            }
            Self::Free { dimension, asked } => {
                write!(f, "less than {dimension} {} free", Amount(dimension, *asked))
            }
        }
    }
}

impl FilterStep {
    /// The resource of a pressure taint, if the refusal is one.
    fn pressure(&self) -> Option<&str> {
        let Self::Taint { key, .. } = self else { return None };
        key.strip_prefix(PRESSURE_PREFIX)
    }

    /// Returns true for a taint that an agent or a gateway sets: it goes by itself.
    fn is_of_machine(&self) -> bool {
        self.pressure().is_some() || matches!(self, Self::Taint { key, .. } if key == SILENT_KEY)
    }

    /// A taint as an operator writes it.
    fn taint(&self) -> String {
        let Self::Taint { key, value, effect } = self else { return String::new() };
        let taint = Taint { key: key.clone(), value: value.clone(), effect: *effect, added_ms: 0 };
        taint.to_string()
    }
}

/// `gpu of model A100 with 40GiB`.
fn device_text(device: &str, selector: &CardSelector) -> String {
    let models = match selector.models.as_slice() {
        [] => String::new(),
        models => format!(" of model {}", models.join(" or ")),
    };
    let memory = match selector.memory_bytes_min {
        0 => String::new(),
        bytes => format!(" with {}", Bytes(bytes)),
    };
    format!("{device}{models}{memory}")
}

fn within_text(within: Within) -> &'static str {
    match within {
        Within::OneSocket => "one socket",
        Within::OneNumaNode => "one NUMA node",
    }
}

fn affinity_written(f: &mut fmt::Formatter<'_>, affinity: &Affinity) -> fmt::Result {
    let kind = match affinity.kind {
        AffinityKind::Near => "near",
        AffinityKind::Apart => "apart from",
    };
    let jobs: Vec<String> = affinity.jobs.iter().map(|one| ConstraintText(one).to_string()).collect();
    write!(f, "affinity {kind} tasks of {} in the same {}", jobs.join(" and "), affinity.attribute)
}

impl fmt::Display for FilterLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.nodes, self.filter)
    }
}

fn tasks_text(tasks: u32) -> String {
    format!("{tasks} {}", if tasks == 1 { "task" } else { "tasks" })
}

fn nodes_text(nodes: u32) -> &'static str {
    if nodes == 1 { "node" } else { "nodes" }
}

impl NearestFit {
    /// The change: `with memory <= 1.5GiB`, `without constraint rack in [r1]`, `once uncordoned`.
    pub fn change(&self) -> String {
        match self {
            Self::Resource { dimension, at_most: 0, .. } => format!("without {dimension}"),
            Self::Resource { dimension, at_most, .. } => {
                format!("with {dimension} <= {}", Amount(dimension, *at_most))
            }
            Self::Ports { at_most: 1, .. } => "with at most 1 port handed out".to_owned(),
            Self::Ports { at_most, .. } => format!("with at most {at_most} ports handed out"),
            Self::Without { filter: FilterStep::PortFixed { number }, .. } => {
                format!("without port {number}")
            }
            Self::Without {
                filter:
                    filter @ (FilterStep::Constraint { .. }
                    | FilterStep::Affinity { .. }
                    | FilterStep::Spread { .. }),
                ..
            } => format!("without {filter}"),
            Self::Without { filter: FilterStep::Within { exclusive_cores: true, .. }, .. } => {
                "sharing cores anywhere".to_owned()
            }
            Self::Without { filter: FilterStep::Within { within, .. }, .. } => {
                format!("on more than {}", within_text(*within))
            }
            Self::Without { filter: FilterStep::Device { device, .. }, .. } => format!("with any {device}"),
            Self::Without { filter: filter @ FilterStep::Taint { .. }, .. } if !filter.is_of_machine() => {
                format!("tolerating {}", filter.taint())
            }
            Self::Without { filter: FilterStep::Draining | FilterStep::Cordoned, .. } => {
                "once uncordoned".to_owned()
            }
            Self::Without { filter, .. } => format!("once not {filter}"),
            Self::Together { changes, .. } => {
                let changes: Vec<String> = changes.iter().map(Self::change).collect();
                changes.join(" and ")
            }
        }
    }

    /// The number of nodes that it lets in.
    pub fn nodes(&self) -> u32 {
        match self {
            Self::Resource { nodes, .. }
            | Self::Ports { nodes, .. }
            | Self::Without { nodes, .. }
            | Self::Together { nodes, .. } => *nodes,
        }
    }
}

impl fmt::Display for NearestFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.nodes();
        write!(f, "on {nodes} {} {}", nodes_text(nodes), self.change())
    }
}

fn outcome_text(outcome: JobOutcome) -> &'static str {
    match outcome {
        JobOutcome::Succeeded => "its job has succeeded",
        JobOutcome::Failed => "its job has failed",
        JobOutcome::Stopped => "its job was stopped",
        JobOutcome::DependencyFailed => {
            "never starts: a job of its `after` has ended otherwise than it had to"
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JobUnknown => f.write_str("the cell has no such job"),
            Self::SpecUnknown => f.write_str("its spec has not been seen yet"),
            Self::After { .. } => f.write_str(&after_text(self)),
            Self::AfterCycle { cycle } => cycle_written(f, cycle),
            Self::AfterMet => f.write_str("the jobs it waited for have ended; it is about to start"),
            Self::JobStopping => f.write_str("its job is being stopped"),
            Self::JobEnded { outcome } => f.write_str(outcome_text(*outcome)),
            Self::QueueLimit { queue, share_per_mille, limit_per_mille } => {
                let percent = |per_mille: &u32| f64::from(*per_mille) / 10.0;
                write!(
                    f,
                    "queue {queue} has {}% of the cell and may have {}%",
                    percent(share_per_mille),
                    percent(limit_per_mille)
                )
            }
            Self::IndexBeyondCount { count } => write!(f, "its job has {}", tasks_text(*count)),
            Self::BackOff { until_ms, failures: 0 } => {
                write!(f, "backs off until {}: its last node could not take it", moment(*until_ms))
            }
            Self::BackOff { until_ms, failures } => {
                let times = if *failures == 1 { "failure" } else { "failures in a row" };
                write!(f, "backs off until {} after {failures} {times}", moment(*until_ms))
            }
            Self::State { state, .. } => {
                let node = if state.is_charged() { "has a node" } else { "wants no node" };
                write!(f, "{node}: it is {}", format!("{state:?}").to_lowercase())
            }
            Self::Gang { needed, fitted } => {
                write!(f, "{} must be placed together and {fitted} fit", tasks_text(*needed))
            }
            Self::GangMembers { needed } => {
                write!(f, "{} must be placed together and fewer are ready", tasks_text(*needed))
            }
            Self::GangTopology { attribute, domains_max, domains, needed, nearest, fitted } => {
                write!(f, "{} must be placed together in ", tasks_text(*needed))?;
                match domains_max {
                    1 => write!(f, "one {attribute}")?,
                    most => write!(f, "at most {most} of {attribute}")?,
                }
                match (domains, nearest.as_slice()) {
                    (0, _) => write!(f, ", and no node has that attribute"),
                    (_, []) => write!(f, "; none of {domains} can take any"),
                    (_, nearest) => write!(
                        f,
                        "; of {domains} {attribute}s {} can take most: {fitted}",
                        nearest.join(", ")
                    ),
                }
            }
            Self::GangStands => f.write_str("the domains of the other tasks of its gang are full"),
            Self::GangNever { needed, most, within: false } => {
                write!(f, "can never fit: {needed} are needed together, and the empty cell can take {most}")
            }
            Self::GangNever { needed, most, within: true } => write!(
                f,
                "can never fit: {needed} are needed together, and within its gang_topology the empty cell takes {most}; \
                 accepted: fewer tasks, a larger at_most, or prefer: true"
            ),
            Self::InAllocs { set, asked, allocs, others } => allocs_written(f, set, asked, allocs, *others),
            Self::LeavesWithAlloc { set, index } => {
                write!(f, "it leaves the node with its alloc {set}/{index}")
            }
            Self::ServesNode => f.write_str("it serves its node until the other tasks there have left"),
            Self::Turn { ahead } => write!(f, "{ahead}"),
        }
    }
}

/// `waits for an alloc of set places with cpu 1 core left: places/0 on node-1 has cpu 0.5 cores left`.
fn allocs_written(
    f: &mut fmt::Formatter<'_>,
    set: &Name,
    asked: &[(Dimension, u64)],
    allocs: &[AllocLeft],
    others: u32,
) -> fmt::Result {
    if let Some(AllocLeft { index, node: None, .. }) = allocs.iter().find(|alloc| alloc.own) {
        return write!(f, "goes where its alloc {set}/{index} goes, which takes no tasks now");
    }
    let listed = |amounts: &[(Dimension, u64)]| {
        let amounts =
            amounts.iter().map(|(dimension, amount)| format!("{dimension} {}", Amount(dimension, *amount)));
        amounts.collect::<Vec<_>>().join(" and ")
    };
    write!(f, "waits for an alloc of set {set} with {} left", listed(asked))?;
    if allocs.is_empty() {
        return write!(f, "; the set has no allocs");
    }
    for (at, AllocLeft { index, node, left, .. }) in allocs.iter().enumerate() {
        f.write_str(if at == 0 { ": " } else { "; " })?;
        let has_room = left.iter().zip(asked).all(|((_, left), (_, asked))| left >= asked);
        match node {
            None => write!(f, "{set}/{index} takes no tasks now")?,
            Some(node) if has_room => write!(f, "{set}/{index} on {node} has it, but not the ports")?,
            Some(node) => write!(f, "{set}/{index} on {node} has {} left", listed(left))?,
        }
    }
    match others {
        0 => Ok(()),
        others => write!(f, "; {others} others have less"),
    }
}

/// A wall time in RFC 3339, to the second.
fn moment(ms: i64) -> humantime::Rfc3339Timestamp {
    let since = std::time::Duration::from_millis(u64::try_from(ms).unwrap_or_default());
    humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + since)
}

fn listed(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display], between: &str) -> fmt::Result {
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            f.write_str(between)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

/// Which parts of an explanation a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextParts {
    All,
    /// Without the refusals, the changes that would fit, and the victims.
    Headline,
}

/// An explanation with some of its parts.
struct ExplanationText<'a>(&'a Explanation, TextParts);

impl fmt::Display for ExplanationText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.written(f, self.1)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written(f, TextParts::All)
    }
}

impl Explanation {
    /// The text without the refusals, the changes that would fit, and the victims: for those who list these.
    pub fn headline(&self) -> String {
        ExplanationText(self, TextParts::Headline).to_string()
    }

    /// Returns true if the scheduler would place the task now, or once it is its turn.
    pub fn fits(&self) -> bool {
        self.waits.iter().any(|wait| matches!(wait, WaitReason::Turn { .. }))
    }

    /// The port that every node lacks, if it is the one thing that they lack. A task may have it, or had it until
    /// now, or a process outside the cell has it.
    fn port_missing(&self) -> Option<u16> {
        match self.lost.as_slice() {
            [
                FilterLoss {
                    filter: FilterStep::PortFixed { number } | FilterStep::PortCooling { number },
                    ..
                },
            ] => Some(*number),
            _ => None,
        }
    }

    fn written(&self, f: &mut fmt::Formatter<'_>, parts: TextParts) -> fmt::Result {
        listed(f, &self.waits, "; ")?;
        let asked = self.nodes > 0 || self.waits.is_empty();
        if !asked || (self.never_fits_together() && self.nodes_fit > 0) {
            return Ok(());
        }
        if !self.waits.is_empty() {
            f.write_str("; ")?;
        }
        let other = if self.elsewhere { "other " } else { "" };
        // Some of the gang fit. What follows is about those that do not.
        let next = self.waits.iter().any(|wait| matches!(wait, WaitReason::Gang { fitted: 1.., .. }));
        let next = if next { "the next one " } else { "" };
        match (self.nodes, self.nodes_fit) {
            (0, _) if self.own_nodes => f.write_str("its node is gone")?,
            (1, 0) if self.own_nodes => f.write_str("does not fit its own node, and may run on no other")?,
            (1, _) if self.own_nodes => f.write_str("fits its own node, and waits for its turn")?,
            (nodes, 0) if self.own_nodes => {
                write!(f, "fit none of their own {nodes} nodes, and may run on no others")?;
            }
            (nodes, fit) if self.own_nodes => {
                write!(f, "{fit} of {nodes} fit their own nodes, and wait for their turn")?;
            }
            (0, _) if self.elsewhere => f.write_str("the cell has no other node")?,
            (0, _) => f.write_str("the cell has no nodes")?,
            (nodes, 0) => write!(f, "{next}fits on none of {nodes} {other}{}", nodes_text(nodes))?,
            (nodes, fit) => write!(f, "{next}fits on {fit} of {nodes} {other}{}", nodes_text(nodes))?,
        }
        if !self.lost.is_empty() && parts == TextParts::All {
            f.write_str(": ")?;
            listed(f, &self.lost, ", ")?;
        }
        if !self.unknown.is_empty() {
            write!(f, "; no node has an attribute or label {}", self.unknown.join(", "))?;
        }
        match (self.nodes, self.nodes_fit, self.nodes_large, self.nodes_room) {
            (1.., 0, 0, _) => write!(f, "; can never fit any {other}node here")?,
            (_, 0, _, later @ 1..) if !self.never_fits_together() => match self.port_missing() {
                Some(port) => write!(f, "; waits for port {port} on {later} {}", nodes_text(later))?,
                None => write!(f, "; waits for tasks to end on {later} {}", nodes_text(later))?,
            },
            _ => {}
        }
        if self.nodes_fit == 0 && !self.nearest.is_empty() && parts == TextParts::All {
            f.write_str("; would fit ")?;
            listed(f, &self.nearest, ", or ")?;
        }
        match &self.evictions {
            Some(EvictionReport::Help { victims, .. })
                if !victims.is_empty() && parts == TextParts::Headline =>
            {
                Ok(())
            }
            Some(
                evictions @ (EvictionReport::Help { .. }
                | EvictionReport::FreshStart
                | EvictionReport::Guarantee { .. }),
            ) => {
                write!(f, "; {evictions}")
            }
            _ => Ok(()),
        }
    }

    /// Whether no wait helps: the empty cell has no place for the gang.
    fn never_fits_together(&self) -> bool {
        self.waits.iter().any(|wait| matches!(wait, WaitReason::GangNever { .. }))
    }
}
