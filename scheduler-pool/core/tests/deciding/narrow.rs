//! Narrow generators: jobs, nodes and events of histories for which a property holds without exceptions.

use borough_model::job::{Affinity, AffinityKind, Constraint, ConstraintOperator, PreemptionSpec};
use borough_model::node::Within;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::generators::{Event, RandomJob, RandomNode, random_job};

/// Gangs that end, or crash and back off. Half of them have a small member, the others evict nobody.
pub(crate) fn gangs() -> impl Strategy<Value = Event> {
    let at = 0..8usize;
    let submitted = |random| Event::Submitted(Box::new(random));
    prop_oneof![
        1 => random_job().prop_map(uneven_gang).prop_map(submitted),
        1 => random_job().prop_map(peaceful_gang).prop_map(submitted),
        3 => (at.clone(), 0..3_000u16).prop_map(|(at, pause_ms)| Event::TaskCrashed(at, pause_ms)),
        2 => at.prop_map(Event::TaskDone),
        1 => (0..3_000u16).prop_map(Event::TimePassed),
    ]
}

/// A gang of two with one small member.
fn uneven_gang(random: RandomJob) -> RandomJob {
    RandomJob { own: Some((0, 100)), ..gang_of_two(random) }
}

/// A gang of two equal members that evict nobody.
fn peaceful_gang(random: RandomJob) -> RandomJob {
    peaceful(gang_of_two(random))
}

fn gang_of_two(random: RandomJob) -> RandomJob {
    let (count, cpu_millis) = (2 + random.count % 3, 500 + random.cpu_millis / 2);
    RandomJob { count, min_member: 2, cpu_millis, ..plain(random) }
}

/// Single tasks without rules that ask for processor time, and end. Each plan has several jobs to compare.
pub(crate) fn contended() -> impl Strategy<Value = Event> {
    let at = 0..16usize;
    let job = || random_job().prop_map(plain);
    prop_oneof![
        4 => vec(job(), 1..3).prop_map(Event::SubmittedTogether),
        2 => at.clone().prop_map(Event::TaskDone),
        2 => at.prop_map(Event::TaskGone),
    ]
}

/// A single task that asks for nothing but processor time.
fn plain(random: RandomJob) -> RandomJob {
    let cpu_millis = 300 + random.cpu_millis / 2;
    let (constraints, tolerations, preemption) = (Vec::new(), Vec::new(), None);
    let rest = RandomJob { constraints, tolerations, preemption, ..single(unruled(random)) };
    let rest = RandomJob { mib: 0, gpu_millis: 0, within: None, exclusive_cores: false, own: None, ..rest };
    RandomJob { cpu_millis, ports_fixed: None, ports_dynamic: 0, ..rest }
}

/// A single task that goes only where a task of the label `a` is. It evicts nobody: a change of a rule makes whoever
/// evicts try again in any case.
pub(crate) fn drawn(random: RandomJob) -> RandomJob {
    let jobs = vec![
        Constraint {
            attribute: "app".to_owned(),
            operator: ConstraintOperator::In,
            values: vec!["a".to_owned()],
            preference: None,
        },
        Constraint {
            attribute: "job.user".to_owned(),
            operator: ConstraintOperator::Exists,
            values: Vec::new(),
            preference: None,
        },
    ];
    let near =
        Affinity { kind: AffinityKind::Near, attribute: "node.name".to_owned(), jobs, preference: None };
    let affinity = if random.app == Some("a") { Vec::new() } else { vec![near] };
    RandomJob { affinity, cpu_millis: 100, ..peaceful(plain(random)) }
}

/// A single task that stays within a socket or NUMA domain, every second one with cores of its own.
pub(crate) fn confined(random: RandomJob) -> RandomJob {
    let within = random.within.or(Some(Within::OneNumaNode));
    let exclusive_cores = random.count.is_multiple_of(2);
    RandomJob { within, exclusive_cores, ..single(unruled(random)) }
}

/// A node with NUMA domains.
pub(crate) fn with_domains(node: RandomNode) -> RandomNode {
    let domains = if node.domains.is_empty() { vec![(1, 1), (node.cores as u32, 2)] } else { node.domains };
    RandomNode { domains, ..node }
}

/// Any job.
pub(crate) fn any_job(random: RandomJob) -> RandomJob {
    random
}

/// A job to which no placement of another task is a help: nothing draws it to other tasks, and no skew limits it.
pub(crate) fn alone(mut random: RandomJob) -> RandomJob {
    random.limits.0 = None;
    random.affinity.retain(|one| one.preference.is_some() || one.kind == AffinityKind::Apart);
    random
}

/// A job that is no gang.
pub(crate) fn single(random: RandomJob) -> RandomJob {
    RandomJob { min_member: 1, ..random }
}

/// A job that evicts nobody.
pub(crate) fn peaceful(random: RandomJob) -> RandomJob {
    let preemption = Some(PreemptionSpec { never: true, notice_max_ms: None, down_max: None });
    RandomJob { preemption, ..random }
}

/// A job without rules between tasks.
pub(crate) fn unruled(random: RandomJob) -> RandomJob {
    RandomJob { limits: (None, None, None), affinity: Vec::new(), ..random }
}

/// A gang with equal members.
pub(crate) fn even(random: RandomJob) -> RandomJob {
    let own = random.own.filter(|_| random.min_member == 1);
    RandomJob { own, ..random }
}

/// Makes a job so large that few of its tasks fit next to others.
pub(crate) fn large(mut random: RandomJob) -> RandomJob {
    random.cpu_millis = 300 + random.cpu_millis / 2;
    random.gpu_millis = 0;
    random.constraints.truncate(1);
    random.constraints.retain(|one| one.preference.is_some());
    random.within = None;
    random.limits = (None, random.limits.1, None);
    random.affinity.truncate(1);
    random
}
