//! Commitments of nodes, assigned ports, the lifecycle of a node, and the order of deltas.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::id::{Incarnation, JobId, NodeId, TaskId};
use borough_model::job::{Band, taint_tolerated, tolerations_in_force};
use borough_model::node::{
    NodeAlloc, NodeAllocBroken, NodeAllocError, NodeClosed, NodeEvent, NodeFacts, NodeRow, NodeState,
    Pressure, is_host, node_alloc_add, node_alloc_check, node_alloc_cooled, node_alloc_forgo,
    node_alloc_fulfil, node_alloc_promise, node_alloc_release, node_alloc_retake, node_facts_check,
    node_free, node_new, node_open, node_transition,
};
use borough_model::resource::Resources;
use borough_model::task::{
    Evicted, Placement, TaskEvent, TaskRow, holds_ready, node_alloc_sum, task_transition,
};

use crate::sample::{NOW, name, placement, row_from};

fn facts() -> NodeFacts {
    NodeFacts {
        capacity: Resources { cpu_millis: 1000, memory_bytes: 1 << 30, ..Resources::default() },
        port_first: 20_000,
        port_last: 20_003,
        attributes: BTreeMap::from([("rack".to_owned(), "r1".to_owned())]),
        host: "127.0.0.1".to_owned(),
        boot_id: "boot-1".to_owned(),
        agent_version: "0.1.0".to_owned(),
        cards: Vec::new(),
        domains: Vec::new(),
    }
}

fn ready() -> NodeRow {
    let row = node_new(NodeId(7), name("alpha"), facts(), NOW);
    node_transition(&row, &NodeEvent::Reported { lost_tasks: 0, stale_attempts: 0 }, NOW).row
}

fn cpu(cpu_millis: u64) -> Resources {
    Resources { cpu_millis, ..Resources::default() }
}

fn add(alloc: &NodeAlloc, cpu_millis: u64, ports: &[u16]) -> Result<NodeAlloc, NodeAllocError> {
    node_alloc_add(alloc, &facts().capacity, &cpu(cpu_millis), ports, NOW)
}

#[test]
fn what_is_added_is_used_and_what_does_not_fit_is_refused_with_the_shortfall() {
    let alloc = add(&NodeAlloc::default(), 700, &[20_001]).unwrap();
    assert_eq!((alloc.epoch, alloc.tasks, alloc.used.cpu_millis), (1, 1, 700));
    assert_eq!(node_free(&facts().capacity, &alloc).cpu_millis, 300);
    let refused = add(&alloc, 301, &[]).unwrap_err();
    assert_eq!(refused.to_string(), "it does not fit: cpu: 301m needed, 300m free");
    assert_eq!(add(&alloc, 1, &[20_001]), Err(NodeAllocError::PortInUse { port: 20_001 }));
}

#[test]
fn a_released_port_cools_down_before_it_is_given_again() {
    let alloc = add(&NodeAlloc::default(), 700, &[20_001]).unwrap();
    let until_ms = NOW + 50;
    let released = node_alloc_release(&alloc, &cpu(700), &[20_001], Some(until_ms)).unwrap();
    assert!(released.used.is_zero() && released.tasks == 0 && released.epoch == 2);
    assert_eq!(add(&released, 1, &[20_001]), Err(NodeAllocError::PortCooling { port: 20_001, until_ms }));
    let later = node_alloc_add(&released, &facts().capacity, &cpu(1), &[20_001], until_ms).unwrap();
    assert!(later.ports.contains(&20_001) && later.ports_cooling.is_empty());
    assert_eq!(node_alloc_cooled(&released, until_ms - 1).ports_cooling.len(), 1);
    let unused = node_alloc_release(&alloc, &cpu(700), &[20_001], None).unwrap();
    assert!(add(&unused, 1, &[20_001]).is_ok());
}

#[test]
fn a_returning_share_is_counted_whether_it_fits_or_not() {
    let alloc = add(&NodeAlloc::default(), 700, &[20_001]).unwrap();
    let lost = node_alloc_release(&alloc, &cpu(700), &[20_001], Some(NOW + 50)).unwrap();
    let back = node_alloc_retake(&lost, &cpu(1700), &[20_001], NOW).unwrap();
    assert!(back.ports_cooling.is_empty() && back.ports.contains(&20_001));
    assert!(matches!(node_alloc_check(&ready(), &back), Err(NodeAllocBroken::OverCapacity { .. })));
    assert!(node_free(&facts().capacity, &back).cpu_millis == 0);
}

#[test]
fn giving_back_what_was_never_taken_is_refused() {
    let alloc = add(&NodeAlloc::default(), 700, &[20_001]).unwrap();
    let release = |cpu_millis, port| node_alloc_release(&alloc, &cpu(cpu_millis), &[port], None);
    assert!(matches!(release(701, 20_001), Err(NodeAllocError::NotHeld { .. })));
    assert_eq!(release(700, 20_002), Err(NodeAllocError::NotKnown { port: Some(20_002) }));
    let none = node_alloc_release(&NodeAlloc::default(), &cpu(0), &[], None);
    assert_eq!(none, Err(NodeAllocError::NotKnown { port: None }));
}

/// A task of 700 runs. One of 600 preempts it, and one of 300 would fit besides it.
#[test]
fn a_promised_share_is_neither_used_nor_free_until_the_victim_is_gone() {
    let capacity = facts().capacity;
    let victim = add(&NodeAlloc::default(), 700, &[20_001]).unwrap();
    let promised = node_alloc_promise(&victim, &capacity, &cpu(600), &[20_002], NOW).unwrap();
    assert_eq!(node_alloc_check(&ready(), &promised), Ok(()));
    assert_eq!((promised.used.cpu_millis, promised.promised.cpu_millis, promised.tasks), (700, 600, 2));
    assert_eq!(node_free(&capacity, &promised).cpu_millis, 0);
    assert!(matches!(add(&promised, 300, &[]), Err(NodeAllocError::DoesNotFit { .. })));
    let early = node_alloc_fulfil(&promised, &capacity, &cpu(600));
    assert!(matches!(early, Err(NodeAllocError::DoesNotFit { .. })));

    let gone = node_alloc_release(&promised, &cpu(700), &[20_001], None).unwrap();
    assert_eq!(node_free(&capacity, &gone).cpu_millis, 400, "what was promised is not free");
    let taken = node_alloc_fulfil(&gone, &capacity, &cpu(600)).unwrap();
    assert_eq!((taken.used.cpu_millis, taken.promised.cpu_millis, taken.tasks), (600, 0, 1));
    assert!(matches!(node_alloc_fulfil(&taken, &capacity, &cpu(600)), Err(NodeAllocError::NotHeld { .. })));

    let forgone = node_alloc_forgo(&promised, &cpu(600), &[20_002]).unwrap();
    assert_eq!((forgone.used.cpu_millis, node_free(&capacity, &forgone).cpu_millis), (700, 300));
    assert!(add(&forgone, 1, &[20_002]).is_ok(), "its port was never used");
    let too_much = node_alloc_promise(&promised, &capacity, &cpu(401), &[], NOW);
    assert!(matches!(too_much, Err(NodeAllocError::DoesNotFit { .. })));
}

#[test]
fn promises_are_kept_in_order_while_capacity_lasts() {
    let held = |index, cpu_millis| {
        let placement = Placement { resources: cpu(cpu_millis), ports: vec![], ..placement(1) };
        let row = TaskRow::never_placed(TaskId { job: JobId(1), index });
        row_from(row, &[TaskEvent::HoldPromised(placement)])
    };
    let rows = [held(0, 200), held(1, 600), held(2, 100)];
    let used = |cpu_millis| NodeAlloc { used: cpu(cpu_millis), ..node_alloc_sum(&rows).unwrap() };
    let ready = |cpu_millis| {
        let ready = holds_ready(&facts().capacity, &used(cpu_millis), &rows);
        ready.into_iter().map(|task| task.index).collect::<Vec<_>>()
    };
    assert_eq!(
        [ready(900), ready(700), ready(200), ready(100)],
        [vec![], vec![0], vec![0, 1], vec![0, 1, 2]]
    );
}

#[test]
fn a_promise_waits_for_its_victims_even_if_the_node_has_space() {
    let row = |index, event: TaskEvent| {
        let row = TaskRow::never_placed(TaskId { job: JobId(1), index });
        row_from(row, &[event])
    };
    let share = |cpu_millis| Placement { resources: cpu(cpu_millis), ports: vec![], ..placement(1) };
    let held = [row(0, TaskEvent::HoldPromised(share(200))), row(1, TaskEvent::HoldPromised(share(100)))];
    let ready = |attempt, there: bool, used| {
        let evicted = Evicted { by: held[0].id, notice_max_ms: None, attempt: Incarnation(attempt) };
        let victim = task_transition(&row(2, TaskEvent::Place(share(0))), &TaskEvent::Evict(evicted), NOW);
        let victim = Some(victim.unwrap().row).filter(|_| there);
        let rows: Vec<TaskRow> = held.iter().cloned().chain(victim).collect();
        let alloc = NodeAlloc { used: cpu(used), ..node_alloc_sum(&rows).unwrap() };
        let ready = holds_ready(&facts().capacity, &alloc, &rows);
        ready.into_iter().map(|task| task.index).collect::<Vec<_>>()
    };
    // The other task has room besides both, but not in the place of the waiting one.
    assert_eq!(
        [ready(1, true, 700), ready(1, true, 800), ready(1, false, 700)],
        [vec![1], vec![], vec![0, 1]]
    );
    assert_eq!(ready(2, true, 700), [0, 1], "another attempt evicted it");
}

#[test]
fn broken_commitments_are_found() {
    let row = ready();
    assert_eq!(node_alloc_check(&row, &NodeAlloc::default()), Ok(()));
    let nobody = NodeAlloc { used: cpu(1), ..NodeAlloc::default() };
    assert_eq!(node_alloc_check(&row, &nobody), Err(NodeAllocBroken::UsedByNobody));
    let twice =
        NodeAlloc { tasks: 1, ports: [1].into(), ports_cooling: [(1, 5)].into(), ..NodeAlloc::default() };
    assert_eq!(node_alloc_check(&row, &twice), Err(NodeAllocBroken::PortTwice { port: 1 }));
}

#[test]
fn a_new_node_takes_tasks_once_it_has_reported() {
    let row = node_new(NodeId(7), name("alpha"), facts(), NOW);
    assert_eq!(node_open(&row), Err(NodeClosed::Recovering));
    assert_eq!(node_open(&ready()), Ok(()));
    assert_eq!(ready().revision, 2);
}

#[test]
fn a_lost_node_is_ready_only_when_nothing_old_is_left() {
    let step = |row: &NodeRow, event| node_transition(row, &event, NOW).row;
    let lost = step(&ready(), NodeEvent::DeclaredLost);
    assert_eq!(node_open(&lost), Err(NodeClosed::Lost));
    let reported = |lost_tasks, stale_attempts| NodeEvent::Reported { lost_tasks, stale_attempts };
    assert_eq!(step(&lost, reported(0, 0)).state, NodeState::Lost);
    let back = step(&lost, NodeEvent::Registered(Box::new(facts())));
    assert_eq!(back.state, NodeState::Recovering);
    assert_eq!(step(&back, reported(1, 0)).state, NodeState::Recovering);
    assert_eq!(step(&back, reported(0, 1)).state, NodeState::Recovering);
    assert_eq!(step(&back, reported(0, 0)).state, NodeState::Ready);
}

#[test]
fn operators_close_and_open_a_node_and_repeats_change_nothing() {
    let row = ready();
    let step = |row: &NodeRow, event| node_transition(row, &event, NOW);
    let cordoned = step(&row, NodeEvent::Cordon).row;
    assert_eq!(node_open(&cordoned), Err(NodeClosed::Cordoned));
    assert!(!step(&cordoned, NodeEvent::Cordon).changed);
    let draining = step(&cordoned, NodeEvent::Drain).row;
    assert_eq!(node_open(&draining), Err(NodeClosed::Draining));
    assert_eq!(node_open(&step(&draining, NodeEvent::Uncordon).row), Ok(()));
    assert!(!step(&row, NodeEvent::Registered(Box::new(facts()))).changed);
    let ports = step(&row, NodeEvent::PortsSet { first: 7_000, last: 7_099 });
    assert_eq!((ports.row.port_first, ports.row.port_last, ports.changed), (7_000, 7_099, true));
    assert!(!step(&ports.row, NodeEvent::PortsSet { first: 7_000, last: 7_099 }).changed);
    let rebooted = NodeFacts { boot_id: "boot-2".to_owned(), ..facts() };
    let transition = step(&row, NodeEvent::Registered(Box::new(rebooted)));
    assert!(transition.changed && transition.rebooted && transition.row.state == NodeState::Ready);
}

#[test]
fn the_facts_of_a_node_are_bounded() {
    assert_eq!(node_facts_check(&facts()), Ok(()));
    let attribute = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let many = |count: u32| (0..count).map(|each| (format!("a{each}"), String::new())).collect();
    let large = (0..10).map(|each| (format!("a{each}"), "x".repeat(4000))).collect();
    let refused: [(&str, NodeFacts); 8] = [
        ("attributes", NodeFacts { attributes: large, ..facts() }),
        ("ports", NodeFacts { port_first: 80, ..facts() }),
        ("ports", NodeFacts { port_first: 20_004, ..facts() }),
        ("host", NodeFacts { host: String::new(), ..facts() }),
        ("boot_id", NodeFacts { boot_id: "x".repeat(257), ..facts() }),
        ("attributes[\"a b\"]", NodeFacts { attributes: attribute("a b", ""), ..facts() }),
        ("attributes[\"a\"]", NodeFacts { attributes: attribute("a", &"x".repeat(4097)), ..facts() }),
        ("attributes", NodeFacts { attributes: many(129), ..facts() }),
    ];
    for (path, facts) in refused {
        assert_eq!(node_facts_check(&facts).unwrap_err()[0].path, path);
    }
}

/// What a load balancer cannot connect to never becomes an endpoint.
#[test]
fn the_host_of_a_node_is_an_address_or_a_host_name() {
    let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
    for host in
        ["10.0.0.5", "127.0.0.1", "fd00::5", "::1", "n1", "N1.rack-2.example.org", "3com.com", &longest]
    {
        assert!(is_host(host), "{host}");
    }
    let label = format!("{}.org", "a".repeat(64));
    let long = format!("{longest}b");
    let refused = [
        "",
        "[::1]",
        "fe80::1%eth0",
        "fe80::1",
        "169.254.1.1",
        "224.0.0.1",
        "ff02::1",
        "255.255.255.255",
        "::ffff:10.0.0.5",
        "0.0.0.0",
        "::",
        "10.0.0.300",
        "10.0.0",
        "n1.",
        ".n1",
        "a..b",
        "a b",
        "-a",
        "a-",
        "a_b",
        "n1:80",
        "http://n1",
        "n1/",
        "ä.org",
        "a\nb",
        &label,
        &long,
    ];
    for host in refused {
        assert!(!is_host(host), "{host}");
        let errors = node_facts_check(&NodeFacts { host: host.to_owned(), ..facts() }).unwrap_err();
        assert_eq!(errors[0].path, "host", "{host}");
    }
}

#[test]
fn memory_is_kept_for_the_upper_bands_and_other_resources_are_not() {
    let all: BTreeSet<Pressure> = Pressure::NAMES.iter().map(|&(_, kind)| kind).collect();
    let taints = node_transition(&ready(), &NodeEvent::PressureSet(all), NOW).row.taints;
    let kept_away = |band: Band| -> Vec<String> {
        let tolerations = tolerations_in_force(&[], band);
        let met = taints.iter().filter(|taint| !taint_tolerated(&tolerations, taint));
        met.map(ToString::to_string).collect()
    };
    let upper =
        ["pressure/disk:no_schedule", "pressure/memory:prefer_no_schedule", "pressure/pids:no_schedule"];
    assert_eq!(kept_away(Band::Production), upper);
    assert_eq!(kept_away(Band::Monitoring), upper);
    assert_eq!(kept_away(Band::Batch).len(), 4);
    assert_eq!(kept_away(Band::BestEffort).len(), 4);
}

#[test]
fn failure_domains_are_labels_before_attributes_and_its_name() {
    let mut row = ready();
    row.attributes =
        [("rack", "r1"), ("zone", "z1")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    row.labels = [("rack".to_owned(), "r2".to_owned())].into();
    let keys = ["zone", "room", "rack", "node.name"].map(str::to_owned);
    assert_eq!(row.domain_values(&keys), ["z1", "", "r2", row.name.as_str()]);
}
