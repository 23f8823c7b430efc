//! Small differences that the formulas of the scoring policies tell apart. The property over all policies rarely meets
//! them, because its random nodes differ by much.

use borough_model::node::{Card, card_dimension};
use borough_model::resource::resources_add;
use borough_model::{JobId, JobSpec, NodeAlloc, Resources};
use borough_scheduler_core::ScoringProfile;

use crate::place::{planned, stored_cell};
use crate::stored::{node, spec};

/// A node: its capacity, the free part of each card, what else is taken, and its tasks.
struct RandomNode<'d> {
    cores: u64,
    gib: u64,
    cards_free: &'d [u64],
    taken: (u64, u64),
    tasks: u32,
}

const PLAIN: RandomNode<'_> = RandomNode { cores: 10, gib: 1_000, cards_free: &[], taken: (0, 0), tasks: 0 };

/// Which of the nodes a task gets; they are numbered in this order, which decides between equal ones.
fn chosen(profile: &str, task: &JobSpec, random_nodes: &[&RandomNode<'_>]) -> usize {
    chosen_beside(profile, task, None, random_nodes)
}

/// The same in a cell that also has a job whose tasks are not placed.
fn chosen_beside(
    profile: &str,
    task: &JobSpec,
    other: Option<&JobSpec>,
    random_nodes: &[&RandomNode<'_>],
) -> usize {
    let mut stored = stored_cell(profile.parse::<ScoringProfile>().expect("it is listed"));
    for (number, random) in (0..).zip(random_nodes) {
        let mut row = node(number, random.cores, random.gib);
        let (cores, gib) = random.taken;
        let mut used =
            Resources { cpu_millis: cores * 1_000, memory_bytes: gib << 30, ..Resources::default() };
        for (place, free) in (0..).zip(random.cards_free) {
            let (kind, id, model) = ("gpu".to_owned(), place.to_string(), String::new());
            row.cards.push(Card { kind, place, id, model, memory_bytes: 0 });
            for dimension in ["gpu".to_owned(), card_dimension("gpu", place)] {
                *row.capacity.device_millis.entry(dimension.clone()).or_default() += 1_000;
                *used.device_millis.entry(dimension).or_default() += 1_000 - free;
            }
        }
        let id = row.id;
        stored.node_put(row);
        let (_, alloc) = stored.nodes.get_mut(&id).expect("it was put");
        let used = resources_add(&alloc.used, &used).expect("in range");
        *alloc = NodeAlloc { used, tasks: random.tasks, epoch: alloc.epoch + 1, ..alloc.clone() };
        stored.journal.push(borough_model::Delta::NodeAlloc { node: id, alloc: alloc.clone() });
    }
    if let Some(other) = other {
        let job = stored.job_submit(JobId(2), other);
        stored.job_change(job, |row| row.state = borough_model::job::JobState::Waiting);
    }
    stored.job_submit(JobId(1), task);
    let place = planned(&stored).placements.first().expect("it fits").node;
    random_nodes.iter().zip(0..).position(|(_, number)| node(number, 1, 1).id == place).expect("one of them")
}

/// Whichever comes first, the better one is chosen.
fn better(profile: &str, task: &JobSpec, better: &RandomNode<'_>, other: &RandomNode<'_>) {
    assert_eq!(chosen(profile, task, &[better, other]), 0, "{profile}");
    assert_eq!(chosen(profile, task, &[other, better]), 1, "{profile}");
}

fn share(gpu_millis: u64) -> JobSpec {
    let mut task = spec("ann", "one", 1, 1, 1);
    task.task.resources.device_millis.insert("gpu".to_owned(), gpu_millis);
    task
}

#[test]
fn e_pvm_weighs_how_much_a_node_fills_and_not_how_full_it_is() {
    let large = RandomNode { cores: 100, taken: (60, 0), ..PLAIN };
    let small = RandomNode { cores: 10, taken: (3, 0), ..PLAIN };
    better("worst-fit", &spec("ann", "one", 1, 1_000, 1), &large, &small);
}

#[test]
fn fahp_weighs_demands_by_what_is_free_in_the_cell_and_slots_by_the_tasks_on_a_node() {
    let task = spec("ann", "one", 1, 1_000, 1_024);
    // A core is a large part of the free cores. A GiB is almost nothing of the free memory, whatever the units.
    let (idle, busy) = (RandomNode { taken: (1, 500), ..PLAIN }, RandomNode { taken: (5, 100), ..PLAIN });
    better("fahp", &task, &idle, &busy);
    better("fahp", &task, &PLAIN, &RandomNode { tasks: 100, ..PLAIN });
}

#[test]
fn fgd_counts_what_of_a_card_is_left_of_no_use_and_what_processors_keep_from_use() {
    let spare = RandomNode { cards_free: &[600, 1_000], ..PLAIN };
    better("fgd", &share(500), &RandomNode { cards_free: &[500, 0], ..PLAIN }, &spare);
    let (less, more) =
        (RandomNode { cards_free: &[530], ..PLAIN }, RandomNode { cards_free: &[580], ..PLAIN });
    better("fgd", &share(500), &less, &more);
    // Ten cores suffice for all four cards. Three do not, and the task would take one of them.
    let mut task = share(250);
    task.task.resources.cpu_millis = 1_000;
    let enough = RandomNode { cards_free: &[1_000; 4], ..PLAIN };
    better("fgd", &task, &enough, &RandomNode { taken: (7, 0), ..enough });
}

#[test]
fn best_fit_takes_a_small_node_before_a_large_one_that_is_fuller() {
    let (small, large) = (PLAIN, RandomNode { cores: 100, taken: (60, 0), ..PLAIN });
    better("best-fit", &spec("ann", "one", 1, 1_000, 1), &small, &large);
}

#[test]
fn borg_hybrid_strands_least_of_what_the_cells_tasks_ask_for() {
    // In the mean the two tasks ask for two cores and two GiB.
    let (task, other) = (spec("ann", "one", 1, 1_000, 3 << 10), spec("bob", "two", 1, 3_000, 1 << 10));
    let free =
        |cores: u64, gib: u64| RandomNode { cores: 20, gib: 20, taken: (20 - cores, 20 - gib), ..PLAIN };
    let (better, worse) = (free(10, 20), free(20, 10));
    let both = [[&better, &worse], [&worse, &better]];
    assert_eq!(both.map(|nodes| chosen_beside("borg-hybrid", &task, Some(&other), &nodes)), [0, 1]);
}
