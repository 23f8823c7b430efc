//! Checks whether the tasks of a cell are placed as their rules allow. It computes this from the rows alone, by the
//! meaning of the spec and with none of the scheduler's code.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::job::{Affinity, AffinityKind, Constraint, ConstraintOperator, JobSpec};
use borough_model::node::{Taint, TaintEffect};
use borough_model::{JobId, JobRow, NodeRow, TaskRow, TaskState};
use borough_store::mirror::MirrorState;

/// Violations whose text is reported.
const TEXTS_MAX: usize = 10;

/// A task that is placed.
struct CheckedPlacement<'a> {
    row: &'a TaskRow,
    job: &'a CheckedJob,
    node: &'a NodeRow,
}

/// A job with the spec in force.
struct CheckedJob {
    row: Arc<JobRow>,
    spec: Arc<JobSpec>,
}

/// The violations.
#[derive(Default)]
pub(super) struct BrokenRules {
    pub count: usize,
    /// The first of them.
    pub texts: Vec<String>,
}

impl BrokenRules {
    fn add(&mut self, text: String) {
        self.count += 1;
        if self.texts.len() < TEXTS_MAX {
            self.texts.push(text);
        }
    }
}

/// Finds every task that is placed where it must not be.
pub(super) fn rules_check(state: &MirrorState) -> BrokenRules {
    let mut found = BrokenRules::default();
    let jobs: BTreeMap<JobId, CheckedJob> = state
        .jobs()
        .values()
        .filter_map(|row| Some((row.id, CheckedJob { row: Arc::clone(row), spec: state.spec_of(row)? })))
        .collect();
    let placed: Vec<CheckedPlacement<'_>> = state
        .tasks()
        .values()
        // A task that has ended, or waits for its next attempt, keeps the name of its last node.
        .filter(|row| !matches!(row.state, TaskState::Dead | TaskState::Pending))
        .filter_map(|row| {
            let (job, node) = (jobs.get(&row.id.job)?, state.nodes().get(&row.node?)?);
            Some(CheckedPlacement { row, job, node })
        })
        .collect();
    resources_check(&placed, &mut found);
    for task in &placed {
        let hard = task.job.spec.constraints.iter().filter(|one| one.preference.is_none());
        for constraint in hard.filter(|one| !is_met(one, attribute(task.node, &one.attribute))) {
            found.add(format!("{} is on {} against {constraint:?}", task.row.id, task.node.name));
        }
        if !is_tolerated(task.node, &task.job.spec) {
            found.add(format!("{} is on {} against its taints", task.row.id, task.node.name));
        }
        if !task.job.spec.after.is_empty() {
            found.add(format!("{} was placed though its job waits for another", task.row.id));
        }
    }
    for job in jobs.values() {
        for affinity in job.spec.affinity.iter().filter(|one| one.preference.is_none()) {
            affinity_check(job, affinity, &placed, &mut found);
        }
        skew_check(job, state, &placed, &mut found);
    }
    found
}

fn resources_check(placed: &[CheckedPlacement<'_>], found: &mut BrokenRules) {
    let mut used: BTreeMap<&str, (u64, u64, &NodeRow)> = BTreeMap::new();
    for task in placed {
        let asked = &task.job.spec.task.resources;
        let node = used.entry(task.node.name.as_str()).or_insert((0, 0, task.node));
        node.0 += asked.cpu_millis;
        node.1 += asked.memory_bytes;
    }
    for (name, (cpu_millis, memory_bytes, node)) in used {
        if cpu_millis > node.capacity.cpu_millis || memory_bytes > node.capacity.memory_bytes {
            found.add(format!("node {name} has {cpu_millis} thousandths and {memory_bytes} bytes on it"));
        }
    }
}

/// The value of a node's label, attribute or name.
fn attribute<'a>(node: &'a NodeRow, key: &str) -> Option<&'a str> {
    match key {
        "node.name" => Some(node.name.as_str()),
        _ => node.labels.get(key).or_else(|| node.attributes.get(key)).map(String::as_str),
    }
}

/// Returns true if a node's taints allow the tasks of a spec without tolerations. Specs with any toleration are not
/// checked.
fn is_tolerated(node: &NodeRow, spec: &JobSpec) -> bool {
    let keeps_away = |taint: &Taint| taint.effect != TaintEffect::PreferNoSchedule;
    !spec.tolerations.is_empty() || !node.taints.iter().any(keeps_away)
}

fn is_met(constraint: &Constraint, value: Option<&str>) -> bool {
    let listed = value.is_some_and(|value| constraint.values.iter().any(|one| one == value));
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let compared = value.and_then(number).zip(constraint.values.first().and_then(|bound| number(bound)));
    match constraint.operator {
        ConstraintOperator::In => listed,
        ConstraintOperator::NotIn => !listed,
        ConstraintOperator::Exists => value.is_some(),
        ConstraintOperator::Absent => value.is_none(),
        ConstraintOperator::GreaterThan => compared.is_some_and(|(have, bound)| have > bound),
        ConstraintOperator::LessThan => compared.is_some_and(|(have, bound)| have < bound),
    }
}

/// Returns true if an affinity of `owner` selects the tasks of `other`.
fn means(affinity: &Affinity, owner: &CheckedJob, other: &CheckedJob) -> bool {
    let value = |key: &str| match key {
        "job.user" => Some(other.row.user.as_str()),
        "job.name" => Some(other.row.name.as_str()),
        _ => other.spec.labels.get(key).map(String::as_str),
    };
    let names_user = affinity.jobs.iter().any(|one| one.attribute == "job.user");
    (names_user || other.row.user == owner.row.user)
        && affinity.jobs.iter().all(|one| is_met(one, value(&one.attribute)))
}

fn affinity_check(
    job: &CheckedJob,
    affinity: &Affinity,
    placed: &[CheckedPlacement<'_>],
    found: &mut BrokenRules,
) {
    let mut meant: BTreeMap<JobId, bool> = BTreeMap::new();
    let mut by_domain: BTreeMap<&str, usize> = BTreeMap::new();
    let mut total = 0_usize;
    for task in placed {
        let id = task.row.id.job;
        if *meant.entry(id).or_insert_with(|| means(affinity, job, task.job)) {
            total += 1;
            if let Some(domain) = attribute(task.node, &affinity.attribute) {
                *by_domain.entry(domain).or_default() += 1;
            }
        }
    }
    let is_meant = meant.get(&job.row.id).copied().unwrap_or(false);
    for task in placed.iter().filter(|task| task.row.id.job == job.row.id) {
        let domain = attribute(task.node, &affinity.attribute);
        let others =
            domain.and_then(|domain| by_domain.get(domain)).map_or(0, |count| count - usize::from(is_meant));
        let well = match affinity.kind {
            AffinityKind::Apart => others == 0,
            // The first task of its kind may be anywhere.
            AffinityKind::Near => domain.is_some() && (others > 0 || (is_meant && total == 1)),
        };
        if !well {
            found.add(format!(
                "{} is on {} with {others} that it is {:?} to",
                task.row.id, task.node.name, affinity.kind
            ));
        }
    }
}

/// Checks the limits of a spread. No domain may exceed its cap, or have more of the job's tasks than the skew allows
/// above the emptiest domain with a ready node.
fn skew_check(
    job: &CheckedJob,
    state: &MirrorState,
    placed: &[CheckedPlacement<'_>],
    found: &mut BrokenRules,
) {
    for spread in job.spec.spread.iter().filter(|spread| spread.is_hard()) {
        let own = placed.iter().filter(|task| task.row.id.job == job.row.id);
        let mut counts: BTreeMap<&str, u32> = state
            .nodes()
            .values()
            .filter(|node| node.schedulable && is_tolerated(node, &job.spec))
            .filter_map(|node| Some((attribute(node, &spread.attribute)?, 0)))
            .collect();
        for task in own {
            match attribute(task.node, &spread.attribute) {
                Some(domain) => *counts.entry(domain).or_default() += 1,
                None => found.add(format!("{} stands in no {}", task.row.id, spread.attribute)),
            }
        }
        let least = counts.values().copied().min().unwrap_or(0);
        let most = counts.values().copied().max().unwrap_or(0);
        if spread.max_skew.is_some_and(|skew| most - least > skew) {
            found.add(format!("job {} has {least} to {most} tasks over {}", job.row.name, spread.attribute));
        }
        if spread.cap(job.row.count).is_some_and(|cap| most > cap) {
            found.add(format!("job {} has {most} tasks in one {}", job.row.name, spread.attribute));
        }
    }
}
