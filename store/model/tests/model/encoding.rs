//! The bytes of every stored type, pinned. `golden/encoding.txt` only grows: the last line of a sample is what is
//! written today, and every line, however old, must still decode.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use crate::journal_sample::{
    endpoint_full, federated_row, journal_calls, journal_values, member_row, merged_row, node_load,
};
use borough_model::federation::{CellSilence, KeptSide, ReleasePhase};
use borough_model::id::{
    FederatedJobId, GangId, Incarnation, JobId, MemberId, MergedServiceId, NodeId, RequestId, TaskId,
};
use borough_model::job::{
    Affinity, AffinityKind, After, AfterCondition, Band, Constraint, ConstraintOperator, DaemonCounts,
    GangSpec, GangTopology, HealthCheck, HelperPhase, JobAlloc, JobKind, JobOutcome, JobRow, JobSpec,
    JobState, PortSpec, PreemptionSpec, Probe, ResizeMode, ResizeSignal, RestartMode, Role, SecretForm,
    Spread, TaskOverride, Toleration, TolerationOperator, UpdateSpec, spec_value,
};
use borough_model::journal::{Delta, JobName, JournalEntry};
use borough_model::node::{
    AgentIdentity, Card, CardSelector, DurableId, GatewayLive, NodeAlloc, NodeLive, NodeLoad, NodeRow,
    NodeSession, NodeState, NumaDomain, Taint, TaintEffect, Voucher, Within,
};
use borough_model::resource::Resources;
use borough_model::task::machine::gang_gathering;
use borough_model::task::{
    Charge, ChargeOwner, EndReason, Evicted, Exit, GangState, Health, HelperState, InAlloc, PortAssignment,
    StartFailure, StopReason, TaskRow, TaskState, Verdict,
};
use minicbor::{Decode, Encode};
use serde_json::Value;

use crate::federation::sample::{federation_full, release_full};
use crate::resize::{refusals, resize_full};
use crate::rollout::{changes_full, moves_full, rollout_full};
use crate::sample::{END_REASONS, array_of, elements, example_file, file_spec, hex, name, spec, unhex};

const TASK: TaskId = TaskId { job: JobId(0x11), index: 2 };
const ALLOC: TaskId = TaskId { job: JobId(9), index: 4 };

fn resources() -> Resources {
    Resources {
        cpu_millis: 500,
        memory_bytes: 64 << 20,
        disk_bytes: 1 << 30,
        disk_bytes_per_s: 3,
        network_bytes_per_s: 4,
        device_millis: [("gpu".to_owned(), 500)].into(),
    }
}

fn port() -> PortAssignment {
    PortAssignment { name: name("http"), number: 20_001 }
}

fn task_full() -> TaskRow {
    let exit = Exit {
        reason: EndReason::Signaled,
        code: Some(-1),
        signal: Some(9),
        message: "no such file".to_owned(),
        at_ms: 1_700_000_000_000,
        incarnation: Incarnation(6),
        node: Some(NodeId(8)),
        start_failure: Some(StartFailure::NodeFull),
    };
    TaskRow {
        id: TASK,
        state: TaskState::Stopping,
        node: Some(NodeId(7)),
        incarnation: Incarnation(7),
        ports: vec![port()],
        charge: Charge { owner: ChargeOwner::Task, resources: resources() },
        spec_version: 3,
        health: Health::Healthy,
        stop: Some(StopReason::Drained),
        exit: Some(exit.into()),
        failures: 4,
        not_before_ms: 1_700_000_000_001,
        gang: Some(GangId(5)),
        revision: 12,
        changed_ms: -1,
        started_ms: Some(1_700_000_000_002),
        restarts: 6,
        pid: Some(4242),
        crashed_on: Some(NodeId(8)),
        crashes_there: 2,
        verdict: Some(Verdict::Again),
        gang_epoch: 9,
        promised: true,
        evicted: Some(Box::new(Evicted {
            by: TaskId { job: JobId(8), index: 2 },
            notice_max_ms: Some(500),
            attempt: Incarnation(3),
        })),
        cores: vec![2, 3],
        healthy_ms: 1_700_000_000_003,
        daemon_node: Some(Box::new(NodeId(7))),
        resize: Some(Box::new(resize_full(resources()))),
        alloc: Some(Box::new(InAlloc { alloc: ALLOC, attempt: Incarnation(2), resources: resources() })),
        helpers: Some(Box::new(vec![crate::sample::helper_status()])),
        failing_since: std::num::NonZeroU32::new(2),
    }
}

fn text_map(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

fn spec_full() -> JobSpec {
    let mut full = spec(JobKind::Batch);
    full.count = 3;
    full.min_member = 2;
    full.after = vec![After { job: name("db"), condition: AfterCondition::Finished }];
    full.constraints = vec![Constraint {
        attribute: "zone".to_owned(),
        operator: ConstraintOperator::NotIn,
        values: vec!["a".to_owned()],
        preference: Some(5),
    }];
    full.spread = vec![Spread {
        max_skew: Some(1),
        tasks_max: Some(3),
        percent_max: Some(25),
        ..Spread::preferred("rack".to_owned(), 50)
    }];
    full.tolerations = vec![Toleration {
        key: "dedicated".to_owned(),
        operator: TolerationOperator::Equal,
        value: "db".to_owned(),
        effect: Some(TaintEffect::NoExecute),
        evict_after_ms: Some(5000),
    }];
    full.affinity = vec![Affinity {
        kind: AffinityKind::Apart,
        attribute: "rack".to_owned(),
        jobs: full.constraints.clone(),
        preference: Some(7),
    }];
    full.preemption = Some(PreemptionSpec { never: true, notice_max_ms: Some(250), down_max: Some(1) });
    full.task.environment = text_map("A", "b");
    full.task.working_directory = Some("/tmp".to_owned());
    full.task.resources = resources();
    let selector = CardSelector { models: vec!["A100".to_owned()], memory_bytes_min: 1 << 30 };
    full.task.device_selectors = BTreeMap::from([("gpu".to_owned(), selector)]);
    full.task.within = Some(Within::OneNumaNode);
    full.task.packages = vec!["web/1.4.2".to_owned()];
    full.task.exclusive_cores = true;
    full.task.ports =
        vec![PortSpec { name: name("http"), number: Some(8080) }, PortSpec { name: name("b"), number: None }];
    full.task.health = Some(HealthCheck::of(Probe::Http { port: name("http"), path: "/".to_owned() }));
    let own = TaskOverride {
        command: Some(vec!["x".to_owned()]),
        arguments: vec!["y".to_owned()],
        environment: text_map("C", "d"),
        resources: Some(Resources::default()),
        weight: Some(2),
    };
    full.overrides = BTreeMap::from([(1, own)]);
    full.lost_after_ms = Some(30_000);
    full.labels = text_map("team", "a");
    let mut full = with_examples(full);
    let update = full.update.unwrap();
    let update = UpdateSpec { disruptions_max: Some(4), ..update };
    let update = UpdateSpec { resize: ResizeMode::Restart, resize_signal: Some(ResizeSignal::Hup), ..update };
    full.update = Some(UpdateSpec { surge_max: Some(3), surge_percent_max: Some(20), ..update });
    full.alloc_set = Some(name("places"));
    full
}

/// The spec with the example of every field that it leaves at its default.
fn with_examples(spec: JobSpec) -> JobSpec {
    let mut file = example_file();
    file["kind"] = "batch".into();
    let [example, default] =
        [file_spec(&file).unwrap(), crate::sample::spec(spec.kind)].map(|spec| spec_value(&spec));
    let mut value = spec_value(&spec);
    fill(&mut value, &example, &default);
    fill(&mut value["task"], &example["task"], &default["task"]);
    serde_json::from_value(value).unwrap()
}

fn fill(value: &mut Value, example: &Value, default: &Value) {
    for (key, example) in example.as_object().unwrap() {
        if value[key] == default[key] {
            value[key] = example.clone();
        }
    }
}

fn spec_gang() -> JobSpec {
    let topology =
        GangTopology { attribute: "rack".to_owned(), domains_min: 1, domains_max: 2, preferred: true };
    let task = TaskOverride { weight: Some(3), ..TaskOverride::default() };
    let role = Role { name: name("worker"), count: 4, min_member: 3, task };
    let gang = Some(GangSpec { topology: Some(topology), roles: vec![role] });
    JobSpec { count: 4, min_member: 3, gang, ..spec(JobKind::Batch) }
}

fn job_row(state: JobState) -> JobRow {
    JobRow {
        id: JobId(0x11),
        user: name("ada"),
        name: name("web"),
        state,
        count: 3,
        priority: 200,
        spec_version: 1,
        revision: 4,
        submitted_ms: 1_700_000_000_000,
        changed_ms: 1_700_000_000_001,
        request: RequestId(0x0102_0304),
        succeeded: 1,
        failed: 2,
        rollout: Some(Box::new(rollout_full())),
        changes: Some(Box::new(changes_full())),
        daemon: Some(Box::new(DaemonCounts { withdrawn: 1, unadmitted: 2, steps: 7, left: 3 })),
        moves: Some(Box::new(moves_full())),
        alloc: Some(Box::new(JobAlloc::Set { members: vec![JobId(0x12)] })),
        quota_groups: Some(vec![name("web-team"), name("shop")]),
    }
}

fn node_row() -> NodeRow {
    NodeRow {
        id: NodeId(7),
        name: name("alpha"),
        state: NodeState::Recovering,
        schedulable: true,
        draining: false,
        capacity: resources(),
        port_first: 20_000,
        port_last: 29_999,
        attributes: text_map("rack", "r1"),
        labels: text_map("zone", "a"),
        host: "127.0.0.1".to_owned(),
        boot_id: "boot".to_owned(),
        agent_version: "0.1.0".to_owned(),
        revision: 5,
        changed_ms: 1_700_000_000_000,
        taints: vec![Taint {
            key: "dedicated".to_owned(),
            value: "db".to_owned(),
            effect: TaintEffect::NoExecute,
            added_ms: 1_700_000_000_001,
        }],
        cards: vec![Card {
            kind: "gpu".to_owned(),
            place: 1,
            id: "GPU-1".to_owned(),
            model: "A100".to_owned(),
            memory_bytes: 40 << 30,
        }],
        domains: vec![NumaDomain { place: 1, socket: 0, cpus: vec![2, 3], memory_bytes: 1 << 30 }],
        packages: BTreeSet::from(["web/1.4.2".to_owned()]),
        identity: Some(AgentIdentity {
            durable: DurableId(0x12),
            machine: Some("ab12".to_owned()),
            is_digest: true,
        }),
    }
}

fn node_alloc() -> NodeAlloc {
    NodeAlloc {
        epoch: 9,
        used: resources(),
        tasks: 1,
        ports: [20_001].into(),
        ports_cooling: [(20_002, 1_700_000_000_000)].into(),
        promised: resources(),
    }
}

fn journal() -> JournalEntry {
    let (user, job, task, revision) = (name("ada"), name("web"), TASK, 12);
    JournalEntry {
        request: RequestId(1 << 100),
        actor: "scheduler/1".to_owned(),
        action: "plan_commit".to_owned(),
        at_ms: 1_700_000_000_000,
        deltas: vec![
            Delta::Node { row: node_row() },
            Delta::NodeRemoved { node: NodeId(7), name: None },
            Delta::NodeRemoved { node: NodeId(7), name: Some(name("alpha-1")) },
            Delta::NodeAlloc { node: NodeId(7), alloc: node_alloc() },
            Delta::Job {
                row: job_row(JobState::Running).into(),
                spec: Some(Box::new(spec(JobKind::Service))),
            },
            Delta::Job { row: job_row(JobState::Waiting).into(), spec: None },
            Delta::JobRemoved { job: JobId(0x11), name: None },
            Delta::JobRemoved {
                job: JobId(0x11),
                name: Some(JobName { user: name("ada"), job: name("web") }),
            },
            Delta::Task { row: task_full() },
            Delta::TaskRemoved { task, revision },
            Delta::Endpoint { endpoint: endpoint_full(), revision },
            Delta::EndpointWithdrawn { user, job, task, revision },
            Delta::Gang { row: gang_gathering(GangId(5), JobId(0x11), 4, 1_700_000_000_000) },
            Delta::CellSettings { revision },
            Delta::NodeLoad { node: NodeId(7), load: node_load() },
            Delta::MergedService { row: Box::new(merged_row()) },
            Delta::MergedServiceRemoved { id: MergedServiceId(8), user: name("ada"), name: name("shop") },
            Delta::Member { row: Box::new(member_row()) },
            Delta::MemberRemoved { id: MemberId(5), cell: name("beta") },
            Delta::FederatedJob { row: Box::new(federated_row()) },
            Delta::FederatedJobRemoved { id: FederatedJobId(6), user: name("ada"), name: name("web") },
        ],
        values: None,
        calls: None,
    }
}

/// A sample with its bytes, and a decoder for others of its type.
struct Sample {
    name: &'static str,
    bytes: Vec<u8>,
    /// Decodes bytes of the type, and encodes them in today's form.
    again: fn(&[u8]) -> Result<Vec<u8>, String>,
}

fn sample<T>(name: &'static str, value: &T) -> Sample
where
    T: Encode<()> + for<'b> Decode<'b, ()> + PartialEq + Debug,
{
    let bytes = minicbor::to_vec(value).unwrap();
    assert_eq!(minicbor::decode::<T>(&bytes).unwrap(), *value, "{name} reads back");
    let again = |bytes: &[u8]| {
        let value = minicbor::decode::<T>(bytes).map_err(|error| error.to_string())?;
        minicbor::to_vec(value).map_err(|error| error.to_string())
    };
    Sample { name, bytes, again }
}

/// A job for each way to end.
fn outcomes() -> Vec<JobRow> {
    let outcomes =
        [JobOutcome::Succeeded, JobOutcome::Failed, JobOutcome::Stopped, JobOutcome::DependencyFailed];
    outcomes.map(|outcome| job_row(JobState::Ended { outcome })).to_vec()
}

fn samples() -> Vec<Sample> {
    let bands = vec![Band::BestEffort, Band::Batch, Band::Production, Band::Monitoring];
    let outcomes = outcomes();
    let probes = vec![Probe::Tcp { port: name("http") }, Probe::Command { command: vec!["x".to_owned()] }];
    let gang = gang_gathering(GangId(5), JobId(0x11), 4, 1_700_000_000_000);
    let session =
        NodeSession { session: 8, gateway: "10.0.0.1:1".to_owned(), instance: 3, superseded: vec![1, 2] };
    let address = || "10.0.0.1:1".to_owned();
    let live =
        NodeLive { beat: 3, gateway: address(), session: 8, report_revision: 9, ..NodeLive::default() };
    let vouched = NodeLive { voucher: Some(Voucher { gateway: 5, epoch: 6 }), silent_ms: 7, ..live.clone() };
    vec![
        sample("task_row.full", &task_full()),
        sample("task_row.never_placed", &TaskRow::never_placed(TASK)),
        sample("job_spec.full", &spec_full()),
        sample("job_spec.gang", &spec_gang()),
        sample("job_spec.defaults", &spec(JobKind::Service)),
        sample("job_row.running", &job_row(JobState::Running)),
        sample("job_row.stopping", &job_row(JobState::Stopping)),
        sample("job_row.ended", &outcomes),
        sample("node_row", &node_row()),
        sample("node_alloc", &node_alloc()),
        sample("node_live", &live),
        sample("node_live.vouched", &vouched),
        sample("gateway_live", &GatewayLive { epoch: 6, beat: 7, address: address() }),
        sample("node_session", &session),
        sample("node_load", &node_load()),
        sample("node_load.unjournalled", &NodeLoad { unjournalled: Some(true), ..node_load() }),
        sample("endpoint", &endpoint_full()),
        sample("gang_row", &gang),
        sample("merged_service_row", &merged_row()),
        sample("federation_spec", &federation_full()),
        sample("release_state", &release_full()),
        sample("cell_silence", &CellSilence { member: MemberId(3), observed_ms: 65_000 }),
        sample("journal_entry", &journal()),
        sample("journal_entry.values", &journal_values(journal())),
        sample("journal_entry.calls", &journal_calls(journal())),
        sample("enum.task_state", &TaskState::ALL.to_vec()),
        sample("enum.stop_reason", &StopReason::ALL.to_vec()),
        sample("enum.health", &vec![Health::Unknown, Health::Healthy, Health::Unhealthy]),
        sample("enum.charge_owner", &vec![ChargeOwner::Job, ChargeOwner::Task, ChargeOwner::Released]),
        sample("enum.end_reason", &END_REASONS.to_vec()),
        sample("enum.verdict", &vec![Verdict::Again, Verdict::Succeeded, Verdict::Failed, Verdict::Stopped]),
        sample(
            "enum.gang_state",
            &vec![GangState::Gathering, GangState::Committed, GangState::Released, GangState::Waiting],
        ),
        sample("enum.node_state", &vec![NodeState::Ready, NodeState::Recovering, NodeState::Lost]),
        sample("enum.constraint_operator", &OPERATORS.to_vec()),
        sample("enum.taint_effect", &TaintEffect::NAMES.map(|(_, effect)| effect).to_vec()),
        sample("enum.toleration_operator", &vec![TolerationOperator::Equal, TolerationOperator::Exists]),
        sample("enum.within", &Within::NAMES.map(|(_, within)| within).to_vec()),
        sample("enum.restart_mode", &vec![RestartMode::Always, RestartMode::OnFailure, RestartMode::Never]),
        sample("enum.job_kind", &vec![JobKind::Service, JobKind::Batch]),
        sample("enum.after_condition", &vec![AfterCondition::Finished, AfterCondition::Succeeded]),
        sample("enum.band", &bands),
        sample("enum.probe", &probes),
        sample("enum.resize_mode", &ResizeMode::NAMES.map(|(_, mode)| mode).to_vec()),
        sample("enum.resize_signal", &ResizeSignal::NAMES.map(|(_, signal)| signal).to_vec()),
        sample("enum.resize_refused", &refusals()),
        sample("enum.helper_phase", &HelperPhase::NAMES.map(|(_, phase)| phase).to_vec()),
        sample("enum.secret_form", &SecretForm::NAMES.map(|(_, form)| form).to_vec()),
        sample("enum.release_phase", &ReleasePhase::NAMES.map(|(_, phase)| phase).to_vec()),
        sample("enum.kept_side", &vec![KeptSide::Returned, KeptSide::Others]),
        sample("enum.helper_state", &vec![HelperState::Waiting, HelperState::Running, HelperState::Ended]),
    ]
}

const OPERATORS: [ConstraintOperator; 6] = [
    ConstraintOperator::In,
    ConstraintOperator::NotIn,
    ConstraintOperator::Exists,
    ConstraintOperator::Absent,
    ConstraintOperator::GreaterThan,
    ConstraintOperator::LessThan,
];

fn golden() -> Vec<(&'static str, Vec<u8>)> {
    let lines = include_str!("golden/encoding.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).map(|(name, bytes)| (name, unhex(bytes))).collect()
}

#[test]
fn every_stored_type_is_written_as_the_last_golden_line() {
    let golden = golden();
    let last = |name: &str| golden.iter().rev().find(|(each, _)| *each == name).map(|(_, bytes)| bytes);
    let missing: Vec<String> = samples()
        .iter()
        .filter(|sample| last(sample.name) != Some(&sample.bytes))
        .map(|sample| format!("{} {}", sample.name, hex(&sample.bytes)))
        .collect();
    let lines = missing.join("\n");
    assert!(missing.is_empty(), "append to golden/encoding.txt, and change no line of it:\n{lines}");
}

#[test]
fn every_golden_line_however_old_still_decodes() {
    let samples = samples();
    for (name, bytes) in golden() {
        let sample = samples.iter().find(|sample| sample.name == name);
        let again = sample.unwrap_or_else(|| panic!("{name} is in the golden file and has no sample")).again;
        assert!(again(&bytes).is_ok(), "{name}: {:?}", again(&bytes));
    }
}

#[test]
fn a_field_that_a_newer_version_has_added_is_skipped() {
    let structs = samples().into_iter().filter(|sample| !sample.name.starts_with("enum."));
    let without_last =
        ["job_row.ended", "journal_entry", "journal_entry.values", "node_load", "task_row.never_placed"];
    for sample in structs.filter(|sample| !without_last.contains(&sample.name)) {
        let mut fields = elements(&sample.bytes);
        fields.push(minicbor::to_vec(text_map("from", "the future")).unwrap());
        fields.push(minicbor::to_vec(7u64).unwrap());
        assert_eq!((sample.again)(&array_of(&fields)).as_ref(), Ok(&sample.bytes), "{}", sample.name);
    }
}

#[test]
fn optional_fields_that_an_older_version_did_not_write_are_absent() {
    let full = minicbor::to_vec(task_full()).unwrap();
    let row: TaskRow = minicbor::decode(&array_of(&elements(&full)[..19])).unwrap();
    let expected = TaskRow {
        crashes_there: 0,
        verdict: None,
        gang_epoch: 0,
        promised: false,
        evicted: None,
        cores: Vec::new(),
        healthy_ms: 0,
        daemon_node: None,
        resize: None,
        alloc: None,
        helpers: None,
        failing_since: None,
        ..task_full()
    };
    assert_eq!(row, expected);
}

#[test]
fn a_required_field_that_is_missing_is_an_error_and_no_bytes_panic() {
    for sample in samples() {
        let cut = |end: usize| (sample.again)(&sample.bytes[..end]).is_err();
        assert!((0..sample.bytes.len()).all(cut), "{} is read although it is cut", sample.name);
    }
    let full = minicbor::to_vec(task_full()).unwrap();
    let read = |end: usize| minicbor::decode::<TaskRow>(&array_of(&elements(&full)[..end])).is_ok();
    assert!(read(18) && !read(14));
}
