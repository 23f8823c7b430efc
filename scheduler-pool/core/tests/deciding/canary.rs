//! Jobs whose rollout waits for canaries: only what surges has the new version.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::job::{PortSpec, Rollout, TaskOverride};
use borough_model::{JobId, JobRow, JobSpec, Resources};
use borough_scheduler_core::{PLAN_SEED, ScoringProfile, Snapshot, plan};

use crate::place::stored_cell;
use crate::stored::{StoredCell, name, node, spec};

const JOB: JobId = JobId(1);

fn version(cpu_millis: u64, port: &str, own: u64) -> JobSpec {
    let mut spec = spec("ann", "job", 2, cpu_millis, 64);
    spec.task.ports = vec![PortSpec { name: name(port), number: None }];
    for index in [1, 2] {
        let resources = Some(Resources { cpu_millis: own, ..spec.task.resources.clone() });
        spec.overrides.insert(index, TaskOverride { resources, ..TaskOverride::default() });
    }
    spec
}

/// The row of `row`'s job with a further version that one canary tries.
fn tried(row: &JobRow) -> JobRow {
    let rollout = Rollout::begin(row, 1, "user/ann", 0).with_surge(1);
    JobRow {
        count: row.owner_count() + 1,
        spec_version: row.spec_version + 1,
        revision: row.revision + 1,
        rollout: Some(Box::new(rollout)),
        ..row.clone()
    }
}

/// The version, the processor time and the port of each task that a plan places.
fn placed(snapshot: &Snapshot, stored: &StoredCell) -> BTreeMap<u32, (u32, u64, String)> {
    let mut snapshot = snapshot.clone();
    let queue = snapshot.pending(&|_| true, stored.now_ms, 10);
    let plan = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
    let shown = plan.placements.iter().map(|placement| {
        let port = placement.ports.first().map(|port| port.name.to_string()).unwrap_or_default();
        (placement.task.index, (placement.spec_version, placement.charge.cpu_millis, port))
    });
    shown.collect()
}

fn expected(tasks: &[(u32, u32, u64, &str)]) -> BTreeMap<u32, (u32, u64, String)> {
    tasks.iter().map(|&(index, version, cpu, port)| (index, (version, cpu, port.to_owned()))).collect()
}

#[test]
fn only_what_surges_is_placed_with_the_version_that_canaries_try() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 64, 64));
    let (one, two) = (version(100, "one", 150), version(300, "two", 350));
    stored.job_submit(JOB, &one);
    let mut snapshot: Snapshot = stored.snapshot(0);
    let first = stored.jobs.get(&JOB).expect("a job").0.clone();
    let row = Arc::new(tried(&first));
    snapshot.job_upsert(&row, Some(&two));
    let split = expected(&[(0, 1, 100, "one"), (1, 1, 150, "one"), (2, 2, 350, "two")]);
    assert_eq!(placed(&snapshot, &stored), split);
    // One that lists the cell needs both versions.
    let mut listed: Snapshot = stored_cell(ScoringProfile::BEST_FIT).snapshot(0);
    listed.node_upsert(&node(0, 64, 64));
    listed.job_upsert(&row, Some(&two));
    assert_eq!(placed(&listed, &stored), BTreeMap::new());
    listed.job_base_upsert(JOB, 2, &two);
    assert_eq!(placed(&listed, &stored), BTreeMap::new(), "that is not their version");
    listed.job_base_upsert(JOB, 1, &one);
    assert_eq!(placed(&listed, &stored), split);
    // A version that supersedes it, and one that changes only a label.
    let three = version(500, "three", 550);
    let superseded = Arc::new(tried(&row));
    snapshot.job_upsert(&superseded, Some(&three));
    let again = expected(&[(0, 1, 100, "one"), (1, 1, 150, "one"), (2, 3, 550, "three")]);
    assert_eq!(placed(&snapshot, &stored), again);
    let grown = JobRow { count: 4, revision: superseded.revision + 1, ..(*superseded).clone() };
    snapshot.job_upsert(&Arc::new(grown.clone()), None);
    let of_grown =
        expected(&[(0, 1, 100, "one"), (1, 1, 150, "one"), (2, 1, 150, "one"), (3, 3, 500, "three")]);
    assert_eq!(placed(&snapshot, &stored), of_grown);
    let promoted = grown.rollout.as_deref().expect("a rollout").promoted(5);
    let promoted = JobRow { revision: grown.revision + 1, rollout: Some(Box::new(promoted)), ..grown };
    snapshot.job_upsert(&Arc::new(promoted), None);
    // One that supersedes a rollout under way: the others begin again with what was rolled out before that.
    let mut other: Snapshot = stored.snapshot(0);
    let rollout = row.rollout.as_deref().map(|begun| begun.promoted(5).with_surge(0).into());
    let rolling = JobRow { count: 2, rollout, ..(*row).clone() };
    other.job_upsert(&Arc::new(rolling.clone()), Some(&two));
    assert_eq!(placed(&other, &stored), expected(&[(0, 2, 300, "two"), (1, 2, 350, "two")]));
    other.job_upsert(&Arc::new(tried(&rolling)), Some(&three));
    assert_eq!(placed(&other, &stored), again);
    let all = [(0, 500), (1, 550), (2, 550), (3, 500)].map(|(index, cpu)| (index, 3, cpu, "three"));
    assert_eq!(placed(&snapshot, &stored), expected(&all));
}

#[test]
fn the_version_before_a_rollout_is_kept_while_its_job_has_no_tasks() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 64, 64));
    let (one, two, three) = (version(100, "one", 150), version(300, "two", 350), version(500, "three", 550));
    stored.job_submit(JOB, &one);
    let first = stored.jobs.get(&JOB).expect("a job").0.clone();
    let rolling = Rollout::begin(&first, 0, "user/ann", 0);
    let rolling = JobRow { spec_version: 2, revision: 2, rollout: Some(Box::new(rolling)), ..first };
    let over = rolling.rollout.as_deref().map(|rollout| Box::new(rollout.without_tasks()));
    let over = JobRow { count: 0, revision: 3, rollout: over, ..rolling.clone() };
    let resumed = over.rollout_resumed(5).map(Box::new);
    let resumed = JobRow { count: 2, revision: 4, rollout: resumed, ..over.clone() };
    let split = expected(&[(0, 1, 100, "one"), (1, 1, 150, "one"), (2, 3, 550, "three")]);
    let mut followed: Snapshot = stored.snapshot(0);
    followed.job_upsert(&Arc::new(rolling), Some(&two));
    followed.job_upsert(&Arc::new(over.clone()), None);
    let mut listed: Snapshot = stored_cell(ScoringProfile::BEST_FIT).snapshot(0);
    listed.node_upsert(&node(0, 64, 64));
    listed.job_upsert(&Arc::new(over), Some(&two));
    listed.job_base_upsert(JOB, 1, &one);
    for snapshot in [&mut followed, &mut listed] {
        snapshot.job_upsert(&Arc::new(resumed.clone()), None);
        snapshot.job_upsert(&Arc::new(tried(&resumed)), Some(&three));
        assert_eq!(placed(snapshot, &stored), split);
    }
}
