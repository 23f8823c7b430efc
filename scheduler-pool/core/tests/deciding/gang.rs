//! Gangs of roles, and gangs that stand within few failure domains, held against a slow and obvious placer.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::job::{GangSpec, GangTopology, Role, TaskOverride};
use borough_model::task::{StopReason, Verdict};
use borough_model::{Incarnation, JobId, JobSpec, NodeId, Resources, TaskId, TaskRow, TaskState};
use borough_scheduler_core::{PLAN_SEED, Plan, explain, plan};
use proptest::prelude::*;

use crate::naive;
use crate::preempt::may_evict;
use crate::world::{World, name, node, spec};

/// A gang of so many tasks of which `least` stand in so many racks.
fn gang(job: &str, (count, least): (u32, u32), cpu_millis: u64, domains: (u32, u32)) -> JobSpec {
    let mut spec = spec("ann", job, count, cpu_millis, 1);
    spec.min_member = least;
    spec.gang = Some(GangSpec { topology: Some(racks(domains)), roles: Vec::new() });
    spec
}

fn racks((domains_min, domains_max): (u32, u32)) -> GangTopology {
    GangTopology { attribute: "rack".to_owned(), domains_min, domains_max, preferred: false }
}

fn racked(world: &mut World, number: u64, cores: u64, rack: Option<u64>) {
    let mut row = node(number, cores, 64);
    row.attributes.extend(rack.map(|rack| ("rack".to_owned(), format!("r{rack}"))));
    world.node_put(row);
}

fn planned(world: &World) -> Plan {
    let mut snapshot = world.snapshot(3);
    let queue = snapshot.pending(&|_| true, world.now_ms, usize::MAX);
    plan(snapshot.tables(), &queue, world.now_ms, PLAN_SEED)
}

fn rack_of(world: &World, node: NodeId) -> Option<String> {
    world.nodes.get(&node).and_then(|(row, _)| row.attributes.get("rack").cloned())
}

/// What of a node is free, in thousandths of a core, were it not for its gate, once all have gone that leave anyway or
/// may be made to by `task`.
fn free(world: &World, node: NodeId, task: TaskId) -> u64 {
    let (row, _) = world.nodes.get(&node).expect("a known node");
    let goes = |row: &&TaskRow| {
        let priority = world.jobs.get(&row.id.job).map_or(0, |(job, _)| job.priority);
        matches!(row.state, TaskState::Stopping | TaskState::Releasing) || may_evict(world, task, priority)
    };
    let there = world.tasks.values().filter(|row| row.charged_node() == Some(node));
    let stays = there.filter(|row| !goes(row)).map(|row| row.charge.resources.cpu_millis);
    row.capacity.cpu_millis - stays.sum::<u64>()
}

/// The racks in which tasks of a job stand.
fn resident(world: &World, job: JobId) -> BTreeSet<String> {
    world.resident(job).filter_map(|row| rack_of(world, row.node?)).collect()
}

/// Whether any choice of at least and at most so many racks, those of standing members among them, has room for `need`
/// tasks that ask for nothing but processor time, by evictions if need be. Tries every choice.
fn fits_any(world: &World, job: JobId, cpu_millis: u64, need: u64, (least, most): (u32, u32)) -> bool {
    let mut rooms: BTreeMap<String, u64> = BTreeMap::new();
    for (&id, (row, _)) in world.nodes.iter().filter(|(_, (row, _))| row.schedulable) {
        let Some(rack) = row.attributes.get("rack") else { continue };
        *rooms.entry(rack.clone()).or_default() +=
            free(world, id, TaskId { job, index: u32::MAX }) / cpu_millis;
    }
    let resident = resident(world, job);
    let names: Vec<&String> = rooms.keys().collect();
    (0..1u32 << names.len()).any(|choice| {
        let chosen: Vec<&String> = names
            .iter()
            .enumerate()
            .filter(|(at, _)| choice & (1 << at) != 0)
            .map(|(_, name)| *name)
            .collect();
        let fresh = chosen.iter().filter(|name| !resident.contains(**name));
        let used = resident.len() + fresh.clone().count();
        let room = |name: &&String| rooms.get(*name).copied().unwrap_or(0);
        // With at least two domains each of them has a member.
        let each = least <= 1 || fresh.clone().all(|name| room(name) > 0);
        let members = least <= 1 || fresh.count() as u64 <= need;
        let stands = resident.iter().all(|name| !rooms.contains_key(name) || chosen.contains(&name));
        let within = used <= most.max(u32::try_from(resident.len()).expect("few racks")) as usize
            && used >= least as usize;
        within && each && members && stands && chosen.iter().map(room).sum::<u64>() >= need
    })
}

/// What must be true of every gang at any moment, by rows alone.
fn whole(world: &World, before: &World) {
    for (&job, (row, spec)) in &world.jobs {
        let index = |task: &TaskId| task.index;
        let stood: BTreeSet<u32> = before.resident(job).map(|row| index(&row.id)).collect();
        let stands: BTreeSet<u32> = world.resident(job).map(|row| index(&row.id)).collect();
        if stands.difference(&stood).next().is_none() {
            continue;
        }
        for (range, least) in spec.minimums(row.count) {
            let ended = world.tasks.values().filter(|row| row.id.job == job && row.state == TaskState::Dead);
            let ended = ended.filter(|row| range.contains(&row.id.index)).count();
            let of_part = stands.iter().filter(|index| range.contains(index)).count() + ended;
            assert!(of_part >= least as usize, "{}: {of_part} of {range:?} stand, {least} must", spec.name);
        }
        let Some(topology) = spec.gang_topology().filter(|topology| !topology.preferred) else { continue };
        assert!(world.resident(job).all(|row| row.node.is_some_and(|node| rack_of(world, node).is_some())));
        let racks = resident(world, job);
        let allowed = (topology.domains_max as usize).max(resident(before, job).len());
        assert!(racks.len() <= allowed, "{}: stands in {racks:?}", spec.name);
    }
}

#[test]
fn a_gang_stands_in_one_rack_and_takes_the_one_with_the_least_room() {
    let mut world = World::default();
    for number in 0..4 {
        racked(&mut world, number, 4, Some(0));
    }
    racked(&mut world, 10, 6, Some(1));
    racked(&mut world, 11, 5, Some(1));
    racked(&mut world, 20, 64, None);
    racked(&mut world, 30, 3, Some(2));
    world.job_submit(JobId(1), &gang("tight", (8, 8), 1_000, (1, 1)));
    let plan = planned(&world);
    assert_eq!(plan.placements.len(), 8);
    assert!(plan.placements.iter().all(|placed| rack_of(&world, placed.node).as_deref() == Some("r1")));
    // A member that is lost later joins the others, or waits.
    world.commit(&plan);
    world.task_end(TaskId { job: JobId(1), index: 2 }, None, |row| {
        (row.state, row.node) = (TaskState::Pending, None);
    });
    let again = planned(&world);
    assert_eq!(again.placements.len(), 1);
    assert_eq!(rack_of(&world, again.placements[0].node).as_deref(), Some("r1"));
    for number in [10, 11] {
        world.node_change(node(number, 1, 1).id, |row| row.schedulable = false);
    }
    let waits = planned(&world);
    assert_eq!(waits.placements, []);
    let told = explain(&world.snapshot(1), JobId(1), 2, world.now_ms).to_string();
    assert!(told.starts_with("where the other tasks of its gang stand there is no room"), "{told}");
}

#[test]
fn what_has_no_room_together_says_where_most_is() {
    let mut world = World::default();
    for number in 0..6 {
        racked(&mut world, number, 4, Some(number / 2));
    }
    world.job_submit(JobId(1), &gang("wide", (9, 9), 1_000, (1, 1)));
    let told = |world: &World| explain(&world.snapshot(1), JobId(1), 0, world.now_ms).to_string();
    let said = told(&world);
    assert!(said.contains("9 tasks must be placed together in one rack; of 3 racks r"), "{said}");
    assert!(said.contains("has most room, for 8"), "{said}");
    assert!(
        said.contains("can never fit: 9 are needed together, and the empty cell has room for 8"),
        "{said}"
    );
    world.job_change(JobId(1), |row| row.state = borough_model::job::JobState::Stopping);
    world.job_submit(JobId(2), &gang("two", (9, 9), 1_000, (1, 2)));
    assert_eq!(planned(&world).placements.len(), 9);
    // A gang that is larger than the cell does not keep others waiting.
    let mut vast = spec("ann", "vast", 30, 1_000, 1);
    vast.min_member = 30;
    world.job_submit(JobId(3), &vast);
    world.job_submit(JobId(4), &spec("ann", "small", 2, 1_000, 1));
    let plan = planned(&world);
    assert_eq!(plan.placements.iter().filter(|placed| placed.task.job == JobId(4)).count(), 2);
    let vast = explain(&world.snapshot(1), JobId(3), 0, world.now_ms).to_string();
    assert!(vast.contains("can never fit: 30 are needed together"), "{vast}");
    assert!(vast.contains("room for 24"), "{vast}");
}

#[test]
fn a_wish_to_stand_together_gives_way() {
    let mut world = World::default();
    for number in 0..4 {
        racked(&mut world, number, 4, Some(number));
    }
    let mut wish = gang("wish", (6, 6), 1_000, (1, 1));
    if let Some(topology) = wish.gang.as_mut().and_then(|gang| gang.topology.as_mut()) {
        topology.preferred = true;
    }
    world.job_submit(JobId(1), &wish);
    assert_eq!(planned(&world).placements.len(), 6);
}

#[test]
fn roles_are_placed_together_or_not_at_all() {
    let mut world = World::default();
    racked(&mut world, 0, 4, None);
    let job = of_roles("train", (1, 1, 3_000), (4, 2, 1_000));
    world.job_submit(JobId(1), &job);
    // Three thousandths for the server leave room for one worker.
    assert_eq!(planned(&world).placements, []);
    racked(&mut world, 1, 1, None);
    let plan = planned(&world);
    let placed: Vec<u32> = plan.placements.iter().map(|placed| placed.task.index).collect();
    assert_eq!(placed, [0, 1, 2], "the server and as many workers as must be");
    world.commit(&plan);
    racked(&mut world, 2, 2, None);
    assert_eq!(planned(&world).placements.len(), 2, "the others come when there is room");
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

/// One thing that happens. Where no rack has room a gang makes it in one, where it costs fewest; a member that is lost
/// makes room beside the others.
#[test]
fn a_gang_makes_room_in_one_rack_where_fewest_have_to_go() {
    let mut world = World::default();
    for number in 0..4 {
        racked(&mut world, number, 4, Some(0));
        racked(&mut world, 10 + number, 4, Some(1));
    }
    let mut low = spec("bob", "low", 27, 1_000, 1);
    low.priority = 1;
    world.job_submit(JobId(1), &low);
    world.commit(&planned(&world));
    for index in 0..27 {
        let task = TaskId { job: JobId(1), index };
        let in_second =
            world.tasks[&task].node.and_then(|node| rack_of(&world, node)).as_deref() == Some("r1");
        if in_second && world.resident(JobId(1)).count() > 22 {
            world.task_end(task, None, |row| (row.state, row.node) = (TaskState::Dead, None));
        }
    }
    world.job_submit(JobId(2), &gang("tight", (12, 12), 1_000, (1, 1)));
    let plan = planned(&world);
    assert_eq!(plan.placements.len(), 12);
    assert!(plan.placements.iter().all(|placed| rack_of(&world, placed.node).as_deref() == Some("r1")));
    let victims = plan.placements.iter().map(|placed| placed.victims.len()).sum::<usize>();
    let before =
        world.resident(JobId(1)).filter(|row| rack_of(&world, row.node.unwrap()).as_deref() == Some("r1"));
    assert_eq!(victims, before.count() - 4, "as few as can be");
    world.commit(&plan);
    whole(&world, &World::default());
    // As large a one of the same priority finds nobody to evict in that rack, and takes the other.
    world.job_submit(JobId(3), &gang("next", (12, 12), 1_000, (1, 1)));
    let plan = planned(&world);
    assert!(plan.placements.iter().all(|placed| rack_of(&world, placed.node).as_deref() == Some("r0")));
    assert_eq!(plan.placements.len(), 12);
    world.commit(&plan);
    world.job_submit(JobId(4), &gang("last", (12, 12), 1_000, (1, 1)));
    assert_eq!(planned(&world).placements, []);
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
    /// Tasks that give way to gangs.
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

fn step_done(world: &mut World, number: usize, step: &Step) {
    let id = JobId(number as u64 + 1);
    let job = format!("job-{number}");
    match *step {
        Step::Gang { count, least, cores, domains } => {
            let domains = (domains.0.min(least), domains.1);
            world.job_submit(id, &gang(&job, (count, least), cores * 500, domains));
        }
        Step::Roles { first, second, domains } => {
            let mut spec = of_roles(&job, first, second);
            if let Some(gang) = spec.gang.as_mut().filter(|_| spec.min_member > 1) {
                gang.topology = domains.map(|(_, most)| racks((1, most)));
            }
            world.job_submit(id, &spec);
        }
        Step::End { pick, dead } => {
            let tasks: Vec<TaskId> =
                world.tasks.values().filter(|row| row.charged_node().is_some()).map(|row| row.id).collect();
            let Some(&task) = tasks.get(pick % tasks.len().max(1)) else { return };
            world.task_end(task, None, |row| {
                row.state = if dead { TaskState::Dead } else { TaskState::Pending };
                row.node = None;
            });
        }
        Step::Cordon { node: number, open } => {
            world.node_change(node(number, 1, 1).id, |row| row.schedulable = open);
        }
        Step::Node { cores, rack } => racked(world, 100 + number as u64, cores, rack),
        Step::Low { count, cores } => {
            let mut low = spec("bob", &job, count, cores * 500, 1);
            low.priority = 1;
            world.job_submit(id, &low);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    /// After every event: what is placed is whole and together, what is not could not be (one gang alone is held
    /// against every choice of racks), and a snapshot that slept through it all finds what one made again finds.
    #[test]
    fn gangs_are_whole_and_together_whatever_happens(
        nodes in proptest::collection::vec((1..7u64, proptest::option::of(0..4u64)), 1..6),
        steps in proptest::collection::vec(step(), 1..14),
    ) {
        let mut world = World::default();
        for (number, &(cores, rack)) in nodes.iter().enumerate() {
            racked(&mut world, number as u64, cores, rack);
        }
        let mut kept = world.snapshot(1);
        world.journal.clear();
        for (number, step) in steps.iter().enumerate() {
            step_done(&mut world, number, step);
            world.journal_apply(&mut kept);
            for _ in 0..2 {
                let before = world.clone();
                let queue = kept.pending(&|_| true, world.now_ms, usize::MAX);
                let outcome = plan(kept.tables(), &queue, world.now_ms, PLAN_SEED);
                world.commit(&outcome);
                world.journal_apply(&mut kept);
                kept.remember(&outcome, world.now_ms);
                whole(&world, &before);
            }
            alone_as_obvious(&world);
        }
    }
}

/// Each gang that waits, alone with the cell as it is: placed exactly where some choice of racks has room.
fn alone_as_obvious(world: &World) {
    for (&job, (row, spec)) in &world.jobs {
        let need = naive::gang_need(world, job);
        let wanted = naive::wanted(world, job).len();
        let plain = spec.roles().is_empty();
        let Some(topology) = spec.gang_topology().filter(|_| plain && need > 0 && wanted >= need) else {
            continue;
        };
        let mut alone = world.clone();
        for (other, _) in world.jobs.iter().filter(|(other, _)| **other != job) {
            alone.job_change(*other, |row| row.state = borough_model::job::JobState::Stopping);
        }
        let domains = (topology.domains_min, topology.domains_max);
        let cpu_millis = spec.task.resources.cpu_millis;
        let fits = fits_any(&alone, job, cpu_millis, need as u64, domains);
        let placed = planned(&alone).placements.len();
        assert_eq!(placed > 0, fits, "{} of {} tasks needs {need}, {domains:?}", spec.name, row.count);
    }
}

/// Members that were shrunk away and are wanted again come back in steps of the controller. None of the others goes
/// ahead.
#[test]
fn a_gang_waits_for_members_that_are_to_be_revived() {
    let mut world = World { now_ms: 1_000_000, ..World::default() };
    racked(&mut world, 1, 8, None);
    let mut spec = spec("ann", "all", 3, 1_000, 1);
    spec.min_member = 2;
    world.job_submit(JobId(1), &spec);
    let revived = |world: &mut World, state: TaskState| {
        for index in 0..2 {
            let mut row = TaskRow::never_placed(TaskId { job: JobId(1), index });
            (row.state, row.incarnation) = (state, Incarnation(1));
            if state == TaskState::Dead {
                (row.stop, row.verdict) = (Some(StopReason::JobShrunk), Some(Verdict::Stopped));
            }
            world.task_put(row);
        }
    };
    revived(&mut world, TaskState::Dead);
    assert_eq!(planned(&world).placements, []);
    revived(&mut world, TaskState::Pending);
    assert_eq!(planned(&world).placements.len(), 2);
}
