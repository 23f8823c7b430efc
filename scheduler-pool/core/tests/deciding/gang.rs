//! Gangs with roles, and gangs within few failure domains, checked against a slow reference.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::job::{GangSpec, GangTopology, Role, TaskOverride};
use borough_model::task::{StopReason, Verdict};
use borough_model::{Incarnation, JobId, JobSpec, NodeId, Resources, TaskId, TaskRow, TaskState};
use borough_scheduler_core::{PLAN_SEED, Plan, explain, plan};
use proptest::prelude::*;

use crate::preempt::may_evict;
use crate::reference;
use crate::stored::{StoredCell, name, node, spec};

/// A gang with a minimum of members, within a number of racks.
fn gang(job: &str, (count, least): (u32, u32), cpu_millis: u64, domains: (u32, u32)) -> JobSpec {
    let mut spec = spec("ann", job, count, cpu_millis, 1);
    spec.min_member = least;
    spec.gang = Some(GangSpec { topology: Some(racks(domains.0, domains.1)), roles: Vec::new() });
    spec
}

fn racks(domains_min: u32, domains_max: u32) -> GangTopology {
    GangTopology { attribute: "rack".to_owned(), domains_min, domains_max, preferred: false }
}

fn racked(stored: &mut StoredCell, number: u64, cores: u64, rack: Option<u64>) {
    let mut row = node(number, cores, 64);
    row.attributes.extend(rack.map(|rack| ("rack".to_owned(), format!("r{rack}"))));
    stored.node_put(row);
}

fn planned(stored: &StoredCell) -> Plan {
    let mut snapshot = stored.snapshot(3);
    let queue = snapshot.pending(&|_| true, stored.now_ms, usize::MAX);
    plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED)
}

fn rack_of(stored: &StoredCell, node: NodeId) -> Option<String> {
    stored.nodes.get(&node).and_then(|(row, _)| row.attributes.get("rack").cloned())
}

/// The free processor time of a node, ignoring its gate, after all leaving tasks and all possible victims of `task`
/// have gone.
fn free(stored: &StoredCell, node: NodeId, task: TaskId) -> u64 {
    let (row, _) = stored.nodes.get(&node).expect("a known node");
    let goes = |row: &&TaskRow| {
        let priority = stored.jobs.get(&row.id.job).map_or(0, |(job, _)| job.priority);
        matches!(row.state, TaskState::Stopping | TaskState::Releasing) || may_evict(stored, task, priority)
    };
    let there = stored.tasks.values().filter(|row| row.charged_node() == Some(node));
    let stays = there.filter(|row| !goes(row)).map(|row| row.charge.resources.cpu_millis);
    row.capacity.cpu_millis - stays.sum::<u64>()
}

/// The racks with placed tasks of a job.
fn resident(stored: &StoredCell, job: JobId) -> BTreeSet<String> {
    stored.resident(job).filter_map(|row| rack_of(stored, row.node?)).collect()
}

/// Returns true if some choice of `least` to `most` racks, with those of placed members, fits `need` tasks that ask
/// only for processor time.
fn fits_any(stored: &StoredCell, job: JobId, cpu_millis: u64, need: u64, topology: &GangTopology) -> bool {
    let &GangTopology { domains_min: least, domains_max: most, .. } = topology;
    let mut capacity: BTreeMap<String, u64> = BTreeMap::new();
    for (&id, (row, _)) in stored.nodes.iter().filter(|(_, (row, _))| row.schedulable) {
        let Some(rack) = row.attributes.get("rack") else { continue };
        *capacity.entry(rack.clone()).or_default() +=
            free(stored, id, TaskId { job, index: u32::MAX }) / cpu_millis;
    }
    let resident = resident(stored, job);
    let names: Vec<&String> = capacity.keys().collect();
    (0..1u32 << names.len()).any(|choice| {
        let chosen: Vec<&String> = names
            .iter()
            .enumerate()
            .filter(|(at, _)| choice & (1 << at) != 0)
            .map(|(_, name)| *name)
            .collect();
        let fresh = chosen.iter().filter(|name| !resident.contains(**name));
        let used = resident.len() + fresh.clone().count();
        let free_of = |name: &&String| capacity.get(*name).copied().unwrap_or(0);
        // With at least two domains each of them has a member.
        let each = least <= 1 || fresh.clone().all(|name| free_of(name) > 0);
        let members = least <= 1 || fresh.count() as u64 <= need;
        let includes_placed =
            resident.iter().all(|name| !capacity.contains_key(name) || chosen.contains(&name));
        let within = used <= most.max(u32::try_from(resident.len()).expect("few racks")) as usize
            && used >= least as usize;
        within && each && members && includes_placed && chosen.iter().map(free_of).sum::<u64>() >= need
    })
}

/// What must be true of every gang at any moment, by rows alone.
fn gangs_complete(stored: &StoredCell, before: &StoredCell) {
    for (&job, (row, spec)) in &stored.jobs {
        let index = |task: &TaskId| task.index;
        let placed_before: BTreeSet<u32> = before.resident(job).map(|row| index(&row.id)).collect();
        let placed: BTreeSet<u32> = stored.resident(job).map(|row| index(&row.id)).collect();
        if placed.difference(&placed_before).next().is_none() {
            continue;
        }
        for (range, least) in spec.minimums(row.count) {
            let ended = stored.tasks.values().filter(|row| row.id.job == job && row.state == TaskState::Dead);
            let ended = ended.filter(|row| range.contains(&row.id.index)).count();
            let of_part = placed.iter().filter(|index| range.contains(index)).count() + ended;
            assert!(
                of_part >= least as usize,
                "{}: {of_part} of {range:?} are placed, {least} must be",
                spec.name
            );
        }
        let Some(topology) = spec.gang_topology().filter(|topology| !topology.preferred) else { continue };
        assert!(stored.resident(job).all(|row| row.node.is_some_and(|node| rack_of(stored, node).is_some())));
        let racks = resident(stored, job);
        let allowed = (topology.domains_max as usize).max(resident(before, job).len());
        assert!(racks.len() <= allowed, "{}: is placed in {racks:?}", spec.name);
    }
}

#[test]
fn a_gang_is_placed_in_one_rack_and_takes_the_fullest_that_fits() {
    let mut stored = StoredCell::default();
    for number in 0..4 {
        racked(&mut stored, number, 4, Some(0));
    }
    racked(&mut stored, 10, 6, Some(1));
    racked(&mut stored, 11, 5, Some(1));
    racked(&mut stored, 20, 64, None);
    racked(&mut stored, 30, 3, Some(2));
    stored.job_submit(JobId(1), &gang("tight", (8, 8), 1_000, (1, 1)));
    let plan = planned(&stored);
    assert_eq!(plan.placements.len(), 8);
    assert!(plan.placements.iter().all(|placed| rack_of(&stored, placed.node).as_deref() == Some("r1")));
    // A member that is lost later joins the others, or waits.
    stored.commit(&plan);
    stored.task_end(TaskId { job: JobId(1), index: 2 }, None, |row| {
        (row.state, row.node) = (TaskState::Pending, None);
    });
    let again = planned(&stored);
    assert_eq!(again.placements.len(), 1);
    assert_eq!(rack_of(&stored, again.placements[0].node).as_deref(), Some("r1"));
    for number in [10, 11] {
        stored.node_change(node(number, 1, 1).id, |row| row.schedulable = false);
    }
    let waits = planned(&stored);
    assert_eq!(waits.placements, []);
    let explanation = explain(&stored.snapshot(1), JobId(1), 2, stored.now_ms).to_string();
    assert!(explanation.starts_with("the domains of the other tasks of its gang are full"), "{explanation}");
}

#[test]
fn a_gang_that_fits_no_domain_names_the_nearest() {
    let mut stored = StoredCell::default();
    for number in 0..6 {
        racked(&mut stored, number, 4, Some(number / 2));
    }
    stored.job_submit(JobId(1), &gang("wide", (9, 9), 1_000, (1, 1)));
    let explanation =
        |stored: &StoredCell| explain(&stored.snapshot(1), JobId(1), 0, stored.now_ms).to_string();
    let said = explanation(&stored);
    assert!(said.contains("9 tasks must be placed together in one rack; of 3 racks r"), "{said}");
    assert!(said.contains("can take most: 8"), "{said}");
    let never = "can never fit: 9 are needed together, and within its gang_topology the empty cell takes 8; accepted: \
                 fewer tasks, a larger at_most, or prefer: true";
    assert!(said.ends_with(never), "{said}");
    stored.job_change(JobId(1), |row| row.state = borough_model::job::JobState::Stopping);
    stored.job_submit(JobId(2), &gang("two", (9, 9), 1_000, (1, 2)));
    assert_eq!(planned(&stored).placements.len(), 9);
    // A gang that is larger than the cell does not delay others.
    let mut vast = spec("ann", "vast", 30, 1_000, 1);
    vast.min_member = 30;
    stored.job_submit(JobId(3), &vast);
    stored.job_submit(JobId(4), &spec("ann", "small", 2, 1_000, 1));
    let plan = planned(&stored);
    assert_eq!(plan.placements.iter().filter(|placed| placed.task.job == JobId(4)).count(), 2);
    let vast = explain(&stored.snapshot(1), JobId(3), 0, stored.now_ms).to_string();
    assert!(vast.contains("can never fit: 30 are needed together"), "{vast}");
    assert!(vast.contains("can take 24"), "{vast}");
}

#[test]
fn a_preferred_topology_gives_way() {
    let mut stored = StoredCell::default();
    for number in 0..4 {
        racked(&mut stored, number, 4, Some(number));
    }
    let mut wish = gang("wish", (6, 6), 1_000, (1, 1));
    if let Some(topology) = wish.gang.as_mut().and_then(|gang| gang.topology.as_mut()) {
        topology.preferred = true;
    }
    stored.job_submit(JobId(1), &wish);
    assert_eq!(planned(&stored).placements.len(), 6);
}

#[test]
fn roles_are_placed_together_or_not_at_all() {
    let mut stored = StoredCell::default();
    racked(&mut stored, 0, 4, None);
    let job = of_roles("train", (1, 1, 3_000), (4, 2, 1_000));
    stored.job_submit(JobId(1), &job);
    // The server leaves capacity for one worker.
    assert_eq!(planned(&stored).placements, []);
    racked(&mut stored, 1, 1, None);
    let plan = planned(&stored);
    let placed: Vec<u32> = plan.placements.iter().map(|placed| placed.task.index).collect();
    assert_eq!(placed, [0, 1, 2], "the server and as many workers as must be");
    stored.commit(&plan);
    racked(&mut stored, 2, 2, None);
    assert_eq!(planned(&stored).placements.len(), 2, "the others come once they fit");
}

/// Each role fits a rack alone, and both together do not.
#[test]
fn roles_that_share_a_rack_are_not_counted_twice() {
    let mut stored = StoredCell::default();
    for number in 0..2 {
        racked(&mut stored, number, 4, Some(number));
    }
    let of = |servers: u32, workers: u32| {
        let mut spec = of_roles("train", (servers, servers, 1_000), (workers, workers, 1_000));
        spec.gang.as_mut().unwrap().topology = Some(racks(1, 1));
        spec
    };
    stored.job_submit(JobId(1), &of(3, 3));
    let said = explain(&stored.snapshot(1), JobId(1), 0, stored.now_ms).to_string();
    assert!(said.contains("6 tasks must be placed together in one rack; of 2 racks r"), "{said}");
    assert!(said.contains("can take most: 4"), "{said}");
    stored.job_change(JobId(1), |row| row.state = borough_model::job::JobState::Stopping);
    // Here one role alone is too large.
    stored.job_submit(JobId(2), &of(2, 5));
    let said = explain(&stored.snapshot(1), JobId(2), 0, stored.now_ms).to_string();
    assert!(said.contains("can take most: 4"), "{said}");
}

fn of_roles(job: &str, first: (u32, u32, u64), second: (u32, u32, u64)) -> JobSpec {
    let role = |role: &str, (count, min_member, cpu_millis)| {
        let resources = Some(Resources { cpu_millis, memory_bytes: 1 << 20, ..Resources::default() });
        Role {
            name: name(role),
            count,
            min_member,
            task: TaskOverride { resources, ..TaskOverride::default() },
        }
    };
    let mut spec = spec("bob", job, first.0 + second.0, 100, 1);
    let roles = vec![role("server", first), role("worker", second)];
    spec.gang = Some(GangSpec { topology: None, roles });
    spec.min_member = spec.min_member_default();
    spec
}

/// If no rack fits a gang, it evicts in the rack with the fewest victims. A lost member frees capacity next to the
/// others.
#[test]
fn a_gang_evicts_in_the_rack_with_the_fewest_victims() {
    let mut stored = StoredCell::default();
    for number in 0..4 {
        racked(&mut stored, number, 4, Some(0));
        racked(&mut stored, 10 + number, 4, Some(1));
    }
    let mut low = spec("bob", "low", 27, 1_000, 1);
    low.priority = 1;
    stored.job_submit(JobId(1), &low);
    stored.commit(&planned(&stored));
    for index in 0..27 {
        let task = TaskId { job: JobId(1), index };
        let in_second =
            stored.tasks[&task].node.and_then(|node| rack_of(&stored, node)).as_deref() == Some("r1");
        if in_second && stored.resident(JobId(1)).count() > 22 {
            stored.task_end(task, None, |row| (row.state, row.node) = (TaskState::Dead, None));
        }
    }
    stored.job_submit(JobId(2), &gang("tight", (12, 12), 1_000, (1, 1)));
    let plan = planned(&stored);
    assert_eq!(plan.placements.len(), 12);
    assert!(plan.placements.iter().all(|placed| rack_of(&stored, placed.node).as_deref() == Some("r1")));
    let victims = plan.placements.iter().map(|placed| placed.victims.len()).sum::<usize>();
    let before =
        stored.resident(JobId(1)).filter(|row| rack_of(&stored, row.node.unwrap()).as_deref() == Some("r1"));
    assert_eq!(victims, before.count() - 4, "as few as can be");
    stored.commit(&plan);
    gangs_complete(&stored, &StoredCell::default());
    // An equally large gang of the same priority finds nobody to evict in that rack, and takes the other.
    stored.job_submit(JobId(3), &gang("next", (12, 12), 1_000, (1, 1)));
    let plan = planned(&stored);
    assert!(plan.placements.iter().all(|placed| rack_of(&stored, placed.node).as_deref() == Some("r0")));
    assert_eq!(plan.placements.len(), 12);
    stored.commit(&plan);
    stored.job_submit(JobId(4), &gang("last", (12, 12), 1_000, (1, 1)));
    assert_eq!(planned(&stored).placements, []);
}

#[derive(Clone, Debug)]
enum Step {
    Gang {
        count: u32,
        least: u32,
        cores: u64,
        domains: (u32, u32),
    },
    Roles {
        first: (u32, u32, u64),
        second: (u32, u32, u64),
        domains: Option<(u32, u32)>,
    },
    End {
        pick: usize,
        dead: bool,
    },
    Cordon {
        node: u64,
        open: bool,
    },
    Node {
        cores: u64,
        rack: Option<u64>,
    },
    /// Tasks that gangs may evict.
    Low {
        count: u32,
        cores: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let domains = (1..3u32, 0..2u32).prop_map(|(least, more)| (least, least + more));
    let domains = prop_oneof![3 => Just((1, 1)), 2 => domains];
    let role = || {
        (1..4u32, 0..4u32, 1..4u64).prop_map(|(count, least, cores)| (count, least.min(count), cores * 500))
    };
    prop_oneof![
        3 => (2..9u32, 2..9u32, 1..4u64, domains.clone())
            .prop_map(|(count, least, cores, domains)| Step::Gang { count: count.max(least), least, cores, domains }),
        1 => (role(), role(), proptest::option::of(domains))
            .prop_map(|(first, second, domains)| Step::Roles { first, second, domains }),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(pick, dead)| Step::End { pick, dead }),
        1 => (0..6u64, any::<bool>()).prop_map(|(node, open)| Step::Cordon { node, open }),
        1 => (1..7u64, proptest::option::of(0..3u64)).prop_map(|(cores, rack)| Step::Node { cores, rack }),
        2 => (1..9u32, 1..4u64).prop_map(|(count, cores)| Step::Low { count, cores }),
    ]
}

fn step_done(stored: &mut StoredCell, number: usize, step: &Step) {
    let id = JobId(number as u64 + 1);
    let job = format!("job-{number}");
    match *step {
        Step::Gang { count, least, cores, domains } => {
            let domains = (domains.0.min(least), domains.1);
            stored.job_submit(id, &gang(&job, (count, least), cores * 500, domains));
        }
        Step::Roles { first, second, domains } => {
            let mut spec = of_roles(&job, first, second);
            if let Some(gang) = spec.gang.as_mut().filter(|_| spec.min_member > 1) {
                gang.topology = domains.map(|(_, most)| racks(1, most));
            }
            stored.job_submit(id, &spec);
        }
        Step::End { pick, dead } => {
            let tasks: Vec<TaskId> =
                stored.tasks.values().filter(|row| row.charged_node().is_some()).map(|row| row.id).collect();
            let Some(&task) = tasks.get(pick % tasks.len().max(1)) else { return };
            stored.task_end(task, None, |row| {
                row.state = if dead { TaskState::Dead } else { TaskState::Pending };
                row.node = None;
            });
        }
        Step::Cordon { node: number, open } => {
            stored.node_change(node(number, 1, 1).id, |row| row.schedulable = open);
        }
        Step::Node { cores, rack } => racked(stored, 100 + number as u64, cores, rack),
        Step::Low { count, cores } => {
            let mut low = spec("bob", &job, count, cores * 500, 1);
            low.priority = 1;
            stored.job_submit(id, &low);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    /// After every event, placed gangs are complete and within their domains. An unplaced gang fits no choice of racks,
    /// even alone in the cell. A snapshot that followed all events finds the same as a rebuilt one.
    #[test]
    fn gangs_are_complete_and_within_their_domains_whatever_happens(
        nodes in proptest::collection::vec((1..7u64, proptest::option::of(0..4u64)), 1..6),
        steps in proptest::collection::vec(step(), 1..14),
    ) {
        let mut stored = StoredCell::default();
        for (number, &(cores, rack)) in nodes.iter().enumerate() {
            racked(&mut stored, number as u64, cores, rack);
        }
        let mut followed = stored.snapshot(1);
        stored.journal.clear();
        for (number, step) in steps.iter().enumerate() {
            step_done(&mut stored, number, step);
            stored.journal_apply(&mut followed);
            for _ in 0..2 {
                let before = stored.clone();
                let queue = followed.pending(&|_| true, stored.now_ms, usize::MAX);
                let outcome = plan(followed.tables(), &queue, stored.now_ms, PLAN_SEED);
                stored.commit(&outcome);
                stored.journal_apply(&mut followed);
                followed.remember(&outcome, stored.now_ms);
                gangs_complete(&stored, &before);
            }
            alone_as_reference(&stored);
        }
    }
}

/// Checks that each waiting gang, alone in the cell, is placed exactly if some choice of racks fits it.
fn alone_as_reference(stored: &StoredCell) {
    for (&job, (row, spec)) in &stored.jobs {
        let need = reference::gang_need(stored, job);
        let wanted = reference::wanted(stored, job).len();
        let plain = spec.roles().is_empty();
        let Some(topology) = spec.gang_topology().filter(|_| plain && need > 0 && wanted >= need) else {
            continue;
        };
        let mut alone = stored.clone();
        for (other, _) in stored.jobs.iter().filter(|(other, _)| **other != job) {
            alone.job_change(*other, |row| row.state = borough_model::job::JobState::Stopping);
        }
        let domains = (topology.domains_min, topology.domains_max);
        let cpu_millis = spec.task.resources.cpu_millis;
        let fits = fits_any(&alone, job, cpu_millis, need as u64, topology);
        let placed = planned(&alone).placements.len();
        assert_eq!(placed > 0, fits, "{} of {} tasks needs {need}, {domains:?}", spec.name, row.count);
    }
}

/// The controller revives members of a grown job in steps. No other member is placed before all are revived.
#[test]
fn a_gang_waits_for_members_that_are_to_be_revived() {
    let mut stored = StoredCell { now_ms: 1_000_000, ..StoredCell::default() };
    racked(&mut stored, 1, 8, None);
    let mut spec = spec("ann", "all", 3, 1_000, 1);
    spec.min_member = 2;
    stored.job_submit(JobId(1), &spec);
    let revived = |stored: &mut StoredCell, state: TaskState| {
        for index in 0..2 {
            let mut row = TaskRow::never_placed(TaskId { job: JobId(1), index });
            (row.state, row.incarnation) = (state, Incarnation(1));
            if state == TaskState::Dead {
                (row.stop, row.verdict) = (Some(StopReason::JobShrunk), Some(Verdict::Stopped));
            }
            stored.task_put(row);
        }
    };
    revived(&mut stored, TaskState::Dead);
    assert_eq!(planned(&stored).placements, []);
    revived(&mut stored, TaskState::Pending);
    assert_eq!(planned(&stored).placements.len(), 2);
}
