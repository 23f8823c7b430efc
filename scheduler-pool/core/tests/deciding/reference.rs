//! The reference scheduler: slow and obvious. It answers every question from the rows, with the model's own functions.

use std::collections::BTreeMap;

use borough_model::job::{
    Affinity, AffinityKind, Constraint, ConstraintOperator, JobState, Spread, band, taint_tolerated,
    tolerations_in_force,
};
use borough_model::node::{
    Within, confinement, core_speed, node_alloc_add, node_alloc_promise, node_free, node_open,
    package_attribute,
};
use borough_model::resource::shortfall;
use borough_model::task::task_transition;
use borough_model::{
    JobId, JobRow, JobSpec, Name, NodeAlloc, NodeId, NodeRow, Resources, TaskId, TaskRow, TaskState,
};
use borough_scheduler_core::{PendingQueue, Plan};

use crate::preempt;
use crate::stored::StoredCell;

/// The value that a constraint compares: `node.name`, else a label, else an installed package, else an attribute.
fn node_attribute<'a>(row: &'a NodeRow, key: &str) -> Option<&'a str> {
    if key == "node.name" {
        return Some(row.name.as_str());
    }
    let of_package =
        || row.packages.iter().any(|package| package_attribute(package) == key).then_some("installed");
    let label = row.labels.get(key).map(String::as_str);
    label.or_else(of_package).or_else(|| row.attributes.get(key).map(String::as_str))
}

/// Returns true if a node has free ports for a spec.
fn ports_fit(stored: &StoredCell, spec: &JobSpec, row: &NodeRow, alloc: &NodeAlloc) -> bool {
    let cooling =
        |port: &u16| alloc.ports_cooling.get(port).is_some_and(|&until_ms| until_ms > stored.now_ms);
    let free = |port: &u16| !alloc.ports.contains(port) && !cooling(port);
    let fixed: Vec<u16> = spec.task.ports.iter().filter_map(|port| port.number).collect();
    let open = (row.port_first..=row.port_last).filter(|port| free(port) && !fixed.contains(port));
    fixed.iter().all(free) && open.count() >= spec.task.ports.len() - fixed.len()
}

/// Returns true if a node meets a constraint.
pub(crate) fn met(row: &NodeRow, constraint: &Constraint) -> bool {
    let value = node_attribute(row, &constraint.attribute);
    let listed = |value: &str| constraint.values.iter().any(|listed| listed == value);
    let number = |text: &str| text.parse::<f64>().ok();
    let bound = constraint.values.first().and_then(|bound| number(bound));
    let compared = |holds: fn(f64, f64) -> bool| {
        value.and_then(number).zip(bound).is_some_and(|(value, bound)| holds(value, bound))
    };
    match constraint.operator {
        ConstraintOperator::In => value.is_some_and(listed),
        ConstraintOperator::NotIn => !value.is_some_and(listed),
        ConstraintOperator::Exists => value.is_some(),
        ConstraintOperator::Absent => value.is_none(),
        ConstraintOperator::GreaterThan => compared(|value, bound| value > bound),
        ConstraintOperator::LessThan => compared(|value, bound| value < bound),
    }
}

/// Returns true if a selector of `owner` selects a job.
fn selected(stored: &StoredCell, affinity: &Affinity, owner: &Name, job: JobId) -> bool {
    let Some((row, spec)) = stored.jobs.get(&job) else { return false };
    let value = |key: &str| match key {
        "job.name" => Some(spec.name.to_string()),
        "job.user" => Some(spec.user.to_string()),
        key => spec.labels.get(key).cloned(),
    };
    let own_only = affinity.jobs.iter().all(|one| one.attribute != "job.user");
    let holds = |one: &Constraint| match (one.operator, value(&one.attribute)) {
        (ConstraintOperator::In, Some(value)) => one.values.contains(&value),
        (ConstraintOperator::NotIn, Some(value)) => !one.values.contains(&value),
        (ConstraintOperator::Exists, value) => value.is_some(),
        (ConstraintOperator::NotIn | ConstraintOperator::Absent, None) => true,
        _ => false,
    };
    (!own_only || row.user == *owner) && affinity.jobs.iter().all(holds)
}

/// The domains of the tasks of the jobs that `counts` selects, one entry per task.
fn domains(stored: &StoredCell, attribute: &str, counts: impl Fn(JobId) -> bool) -> Vec<String> {
    let jobs = stored.jobs.keys().filter(|&&job| counts(job));
    let nodes = jobs.flat_map(|&job| stored.resident(job)).filter_map(|row| stored.nodes.get(&row.node?));
    nodes.filter_map(|(row, _)| node_attribute(row, attribute).map(str::to_owned)).collect()
}

/// Returns true if every rule between tasks allows a job's task on a node.
pub(crate) fn constrained(stored: &StoredCell, spec: &JobSpec, row: &NodeRow) -> bool {
    let of_name = |(_, (known, _)): &(&JobId, &(JobRow, JobSpec))| known.name == spec.name;
    let Some((&job, _)) = stored.jobs.iter().find(of_name) else { return true };
    let own = spec.affinity.iter().filter(|affinity| affinity.preference.is_none()).all(|affinity| {
        let Some(here) = node_attribute(row, &affinity.attribute) else { return false };
        let counts = |other| selected(stored, affinity, &spec.user, other);
        let there = domains(stored, &affinity.attribute, counts);
        match affinity.kind {
            AffinityKind::Near => {
                there.iter().any(|there| there == here) || (there.is_empty() && counts(job))
            }
            AffinityKind::Apart => !there.iter().any(|there| there == here),
        }
    });
    let repelled = stored.jobs.iter().any(|(&other, (_, theirs))| {
        theirs.affinity.iter().any(|affinity| {
            affinity.kind == AffinityKind::Apart
                && affinity.preference.is_none()
                && selected(stored, affinity, &theirs.user, job)
                && node_attribute(row, &affinity.attribute).is_some_and(|here| {
                    domains(stored, &affinity.attribute, |job| job == other).iter().any(|there| there == here)
                })
        })
    });
    own && !repelled && spec.spread.iter().all(|spread| limited(stored, spec, job, spread, row))
}

fn limited(stored: &StoredCell, spec: &JobSpec, job: JobId, spread: &Spread, row: &NodeRow) -> bool {
    if !spread.is_hard() {
        return true;
    }
    let count = stored.jobs.get(&job).map_or(0, |(row, _)| row.count);
    let Some(here) = node_attribute(row, &spread.attribute) else { return false };
    let resident = domains(stored, &spread.attribute, |other| other == job);
    let of = |domain: &str| resident.iter().filter(|there| *there == domain).count();
    let most_of_percent = spread.percent_max.map(|percent| (f64::from(count * percent) / 100.0).ceil());
    let capped = spread.tasks_max.is_some_and(|most| of(here) >= most as usize)
        || most_of_percent.is_some_and(|most| of(here) as f64 >= most);
    let could = stored.nodes.values().filter(|(row, _)| {
        let mut hard = spec.constraints.iter().filter(|constraint| constraint.preference.is_none());
        node_open(row).is_ok() && tolerated(stored, spec, row) && hard.all(|hard| met(row, hard))
    });
    let least = could.filter_map(|(row, _)| node_attribute(row, &spread.attribute)).map(of).min();
    let skewed = spread.max_skew.is_some_and(|most| of(here) + 1 > least.unwrap_or(0) + most as usize);
    !capped && !skewed
}

/// Returns true if no taint refuses a job's tasks.
fn tolerated(stored: &StoredCell, spec: &JobSpec, row: &NodeRow) -> bool {
    // The job's row has the priority in force.
    let of_name = |(known, _): &&(JobRow, JobSpec)| known.user == spec.user && known.name == spec.name;
    let priority = stored.jobs.values().find(of_name).map_or(spec.priority, |(row, _)| row.priority);
    let mut refusing = row.taints.iter().filter(|taint| taint.effect.refuses());
    let tolerations = tolerations_in_force(&spec.tolerations, band(priority));
    refusing.all(|taint| taint_tolerated(&tolerations, taint))
}

/// Returns true if the free cards of a node fit a job's task: a share on one card, otherwise complete cards.
fn cards_fit(spec: &JobSpec, index: u32, row: &NodeRow, free: &Resources) -> bool {
    spec.resources_for(index).device_millis.iter().filter(|&(_, &millis)| millis > 0).all(
        |(kind, &millis)| {
            let selector = spec.task.device_selectors.get(kind);
            let of_kind = || row.cards.iter().filter(|card| card.kind == *kind);
            if of_kind().next().is_none() {
                return selector.is_none();
            }
            let (count, each) = if millis <= 1000 { (1, millis) } else { (millis.div_ceil(1000), 1000) };
            let fitting = of_kind().filter(|card| {
                let free = free.device_millis.get(&format!("{kind}/{}", card.place)).copied().unwrap_or(0);
                selector.is_none_or(|selector| selector.models.contains(&card.model)) && free >= each
            });
            fitting.count() as u64 >= count
        },
    )
}

/// Returns true if one socket or NUMA domain of a node fits all that a job's task asks for.
fn domain_fits(spec: &JobSpec, index: u32, row: &NodeRow, free: &Resources) -> bool {
    let asked = spec.resources_for(index);
    let free_of = |dimension: &str| free.device_millis.get(dimension).copied().unwrap_or(0);
    let enough = |(cpu, memory): &(String, String)| {
        free_of(cpu) >= asked.cpu_millis && free_of(memory) >= asked.memory_bytes
    };
    let dimensions = || row.domains.iter().map(|domain| domain.dimensions());
    let speed = core_speed(&row.attributes);
    let complete = asked.cpu_millis > 0 && asked.cpu_millis.is_multiple_of(speed);
    if spec.task.exclusive_cores && !complete {
        return false;
    }
    match spec.task.within_in_force() {
        None => true,
        Some(Within::OneSocket) => dimensions().any(|[_, socket]| enough(&socket)),
        Some(Within::OneNumaNode) => dimensions().any(|[own, socket]| enough(&own) && enough(&socket)),
    }
}

/// Checks the socket or NUMA domain of a placement against the request.
fn within_checked(spec: &JobSpec, index: u32, row: &NodeRow, charge: &Resources) {
    let asked = spec.resources_for(index);
    let (cpus, places) = confinement(charge, &row.domains);
    let sockets: std::collections::BTreeSet<u32> = row
        .domains
        .iter()
        .filter(|domain| places.contains(&domain.place))
        .map(|domain| domain.socket)
        .collect();
    match spec.task.within_in_force() {
        None => assert!(cpus.is_empty() && places.is_empty(), "{charge}"),
        Some(Within::OneSocket) => assert_eq!(sockets.len(), 1, "{charge}"),
        Some(Within::OneNumaNode) => assert_eq!(places.len(), 1, "{charge}"),
    }
    let speed = core_speed(&row.attributes);
    let enough = cpus.len() as u64 * speed >= asked.cpu_millis;
    assert!(spec.task.within_in_force().is_none() || enough, "{cpus:?}");
}

/// Checks the cards of a placement against the request.
fn cards_checked(spec: &JobSpec, index: u32, row: &NodeRow, charge: &Resources) {
    assert_eq!(charge.without_cards(), *spec.resources_for(index));
    for (kind, &millis) in &spec.resources_for(index).device_millis {
        let given: Vec<_> = charge.cards().into_iter().filter(|(of, ..)| of == kind).collect();
        if !row.cards.iter().any(|card| card.kind == *kind) {
            assert!(given.is_empty(), "{charge}");
            continue;
        }
        assert_eq!(given.iter().map(|(.., millis)| millis).sum::<u64>(), millis, "{charge}");
        assert!(given.len() == 1 || given.iter().all(|&(.., millis)| millis == 1000), "{charge}");
        for (_, place, _) in given {
            let card =
                row.cards.iter().find(|card| card.kind == *kind && card.place == place).expect("a card");
            let selector = spec.task.device_selectors.get(kind);
            assert!(selector.is_none_or(|selector| selector.models.contains(&card.model)), "{card:?}");
        }
    }
}

/// Returns true if a task of a job fits a node with this allocation.
pub(crate) fn fits(
    stored: &StoredCell,
    spec: &JobSpec,
    index: u32,
    row: &NodeRow,
    alloc: &NodeAlloc,
) -> bool {
    let free = node_free(&stored.limits(row), alloc);
    node_open(row).is_ok()
        && tolerated(stored, spec, row)
        && spec
            .constraints
            .iter()
            .filter(|constraint| constraint.preference.is_none())
            .all(|hard| met(row, hard))
        && constrained(stored, spec, row)
        && ports_fit(stored, spec, row, alloc)
        && shortfall(&spec.resources_for(index), &free).is_empty()
        && cards_fit(spec, index, row, &free)
        && domain_fits(spec, index, row, &free)
}

/// The number of nodes that are large enough for a task when they are empty.
pub(crate) fn large_count(stored: &StoredCell, spec: &JobSpec, index: u32) -> usize {
    let large = |(row, _): &&(NodeRow, NodeAlloc)| {
        let limits = stored.limits(row);
        shortfall(&spec.resources_for(index), &limits).is_empty()
            && cards_fit(spec, index, row, &limits)
            && domain_fits(spec, index, row, &limits)
    };
    stored.nodes.values().filter(large).count()
}

/// The number of nodes that fit a task now.
pub(crate) fn fit_count(stored: &StoredCell, spec: &JobSpec, index: u32) -> usize {
    stored.nodes.values().filter(|(row, alloc)| fits(stored, spec, index, row, alloc)).count()
}

/// The tasks of a job that want a node now.
pub(crate) fn wanted(stored: &StoredCell, job: JobId) -> Vec<TaskId> {
    let Some((row, _)) = stored.jobs.get(&job).filter(|(row, _)| row.state == JobState::Running) else {
        return Vec::new();
    };
    let ready = |task: &TaskId| match stored.tasks.get(task) {
        None => true,
        Some(row) => row.state == TaskState::Pending && row.not_before_ms <= stored.now_ms,
    };
    (0..row.count).map(|index| TaskId { job, index }).filter(ready).collect()
}

/// The number of members that a gang still needs.
pub(crate) fn gang_need(stored: &StoredCell, job: JobId) -> usize {
    let Some((row, spec)) = stored.jobs.get(&job).filter(|(_, spec)| spec.min_member > 1) else { return 0 };
    let dead = stored.tasks.values().filter(|task| task.id.job == job && task.state == TaskState::Dead);
    let dead = dead.filter(|task| task.id.index < row.count).count();
    let resident = stored.resident(job).filter(|task| task.id.index < row.count).count();
    (spec.min_member as usize).saturating_sub(dead + resident)
}

/// Checks the placements of a plan against every rule, one after another, and those with victims against the reference
/// preemptor.
pub(crate) fn placements_checked(stored: &StoredCell, plan: &Plan) {
    let mut after = stored.clone();
    let mut allocs: BTreeMap<NodeId, NodeAlloc> =
        stored.nodes.iter().map(|(&id, (_, alloc))| (id, alloc.clone())).collect();
    let mut seen = std::collections::BTreeSet::new();
    for placement in &plan.placements {
        let (task, job) = (placement.task, placement.task.job);
        assert!(seen.insert(task), "{task} is placed once");
        assert!(wanted(stored, job).contains(&task), "{task} wants a node");
        let (job_row, spec) = stored.jobs.get(&job).expect("a known job");
        let (row, _) = stored.nodes.get(&placement.node).expect("a known node");
        if placement.held || !placement.victims.is_empty() {
            preempt::checked(&mut after, &mut allocs, placement);
        } else {
            let alloc = allocs.get(&placement.node).expect("a known node");
            assert!(fits(&after, spec, task.index, row, alloc), "{task} fits {}", row.name);
        }
        let alloc = allocs.get_mut(&placement.node).expect("a known node");
        let before = after.tasks.get(&task).cloned().unwrap_or_else(|| TaskRow::never_placed(task));
        let placed =
            task_transition(&before, &placement.event(None), stored.now_ms).expect("it may be placed");
        after.tasks.insert(task, placed.row);
        let ports: Vec<u16> = placement.ports.iter().map(|port| port.number).collect();
        for (port, asked) in placement.ports.iter().zip(&spec.task.ports) {
            let own = (row.port_first..=row.port_last).contains(&port.number);
            assert!(asked.number == Some(port.number) || (asked.number.is_none() && own), "{port:?}");
        }
        assert_eq!(ports.len(), spec.task.ports.len());
        cards_checked(spec, task.index, row, &placement.charge);
        within_checked(spec, task.index, row, &placement.charge);
        assert_eq!(placement.spec_version, job_row.spec_version);
        let add = if placement.held { node_alloc_promise } else { node_alloc_add };
        *alloc = add(alloc, &stored.limits(row), &placement.charge, &ports, stored.now_ms)
            .expect("the model agrees that it fits");
    }
}

/// The tasks that a plan places or refuses.
pub(crate) fn answered(plan: &Plan) -> Vec<TaskId> {
    let refused = plan
        .unplaced
        .iter()
        .flat_map(|unplaced| unplaced.tasks.iter().map(|&index| TaskId { job: unplaced.job, index }));
    plan.placements.iter().map(|placement| placement.task).chain(refused).collect()
}

/// Checks every placement and every answer of a plan.
pub(crate) fn plan_checked(stored: &StoredCell, queue: &PendingQueue, plan: &Plan) {
    placements_checked(stored, plan);
    gangs_checked(stored, queue, plan);
    singles_checked(queue, plan);
}

/// Checks that a plan places or refuses each task of its queue that belongs to no gang, once.
pub(crate) fn singles_checked(queue: &PendingQueue, plan: &Plan) {
    let of_gang = |job: JobId| queue.gangs.iter().any(|gang| gang.job == job);
    let asked = queue.tasks.iter().filter(|pending| pending.gang.is_none());
    let mut asked: Vec<TaskId> = asked.map(|pending| pending.task).collect();
    let mut answered = answered(plan);
    answered.retain(|task| !of_gang(task.job));
    asked.sort_unstable();
    answered.sort_unstable();
    assert_eq!(answered, asked);
}

/// Checks that a plan places exactly as many members of each gang of its queue as the gang needs, or refuses all its
/// candidates.
pub(crate) fn gangs_checked(stored: &StoredCell, queue: &PendingQueue, plan: &Plan) {
    for (gang, number) in queue.gangs.iter().zip(0u32..) {
        let candidates = queue.tasks.iter().filter(|pending| pending.gang == Some(number));
        let mut candidates: Vec<TaskId> = candidates.map(|pending| pending.task).collect();
        let mut answered: Vec<TaskId> =
            answered(plan).into_iter().filter(|task| task.job == gang.job).collect();
        let placed = plan.placements.iter().filter(|placement| placement.gang == Some(number)).count();
        if placed > 0 {
            assert_eq!((placed, answered.len()), (gang_need(stored, gang.job), placed), "{gang:?}");
            continue;
        }
        candidates.sort_unstable();
        answered.sort_unstable();
        assert_eq!(answered, candidates, "{gang:?}");
    }
}
