//! The stored bytes of a value of each kind. Stores contain the lines of the file: lines are added, never changed, and
//! every line, however old, must still be readable. `store/model` keeps the encodings of the rows, field by field.

use std::collections::BTreeMap;

use borough_kv::Versionstamp;
use borough_model::access::{AccessRole, Right};
use borough_model::federation::{
    AdmittedJob, CellsReason, FederatedAnswer, FederatedJob, FederatedJobRow, FederatedPart,
    FederatedQuestion, FederatedState, FederatedStatus, FederatedVersion, FederationSpec, KeptSide,
    PartProblem, PartRollout, PartSeen, RebalanceOrder, RebalancedTasks, ReleaseOrder, ReleaseOrderKind,
    ReleaseState,
};
use borough_model::job::{Band, job_new};
use borough_model::member::{MemberProblem, MemberReport, MemberRow, MemberSeen, ProblemKind};
use borough_model::merged::{LabelCondition, LabelOperator, MergedServiceRow};
use borough_model::node::{
    GatewayLive, LoadMeasured, NodeAlloc, NodeFacts, NodeLive, NodeLoad, NodeSession, Voucher, node_new,
};
use borough_model::quota::{OversellFactors, QuotaGrant};
use borough_model::task::machine::gang_gathering;
use borough_model::task::{Endpoint, Health, TaskRow};
use borough_model::{
    FederatedJobId, GangId, Incarnation, JobId, MemberId, MergedServiceId, NodeId, RequestId, Resources,
    TaskId,
};

use crate::keys::*;
use crate::row::{
    AccessGrantRow, AuditChunk, AuditHead, CellGate, CellMeta, CellState, ConstraintToken, Cursor,
    EndpointRow, FederationCell, ImportRow, JobGate, JoinToken, JoinTokenUse, JournalFloor, JournalPart,
    LeaseBeat, LeaseRow, NodeIdentity, NodeJoin, QuotaRow, QuotaUsed, RequestExpiry, RequestRow,
    SchedulerPool, SecretDigest, StoreGeneration, WorkerStatus, WorkloadKey, WorkloadSigner,
};
use crate::testing::{job_spec, name};

macro_rules! rows {
    ($($kind:ident: $key:expr => $value:expr;)*) => {
        vec![$(StoredRow::$kind($key, Box::new($value))),*]
    };
}

fn resources() -> Resources {
    Resources { cpu_millis: 1_500, memory_bytes: 1 << 30, ..Resources::default() }
}

fn cells_and_nodes() -> Vec<StoredRow> {
    let node = NodeId(1);
    let facts = NodeFacts {
        capacity: resources(),
        port_first: 20_000,
        port_last: 20_999,
        attributes: BTreeMap::from([("rack".to_owned(), "r1".to_owned())]),
        host: "127.0.0.1".to_owned(),
        boot_id: "boot-1".to_owned(),
        agent_version: "0.1.0".to_owned(),
        cards: Vec::new(),
        domains: Vec::new(),
    };
    let voucher = Some(Voucher { gateway: 5, epoch: 6 });
    let live =
        NodeLive { beat: 1, gateway: "g1".to_owned(), session: 2, report_revision: 3, voucher, silent_ms: 4 };
    let session = NodeSession { session: 2, gateway: "g1".to_owned(), instance: 4, superseded: vec![3] };
    let gateway = GatewayLive { epoch: 6, beat: 7, address: "g1".to_owned() };
    let stamp = Versionstamp::new(0x0102_0304, 5);
    let measured = LoadMeasured {
        cpu_millis: 700,
        memory_bytes: 1 << 20,
        covered_cpu_millis: 1_000,
        covered_memory_bytes: 1 << 30,
    };
    let load = NodeLoad { revision: 1, changed_ms: 5, measured: Some(measured), unjournalled: None };
    let gate = CellGate { store_epoch: 1, state: CellState::Draining, revision: 2, changed_ms: 3 };
    let schedulers = Some(BTreeMap::from([("batch".to_owned(), name("fast"))]));
    let meta = CellMeta {
        profile: "best-fit".to_owned(),
        schedulers,
        fresh_start_ms: Some(60_000),
        reclaim: Some(true),
        oversell: Some(OversellFactors { production_percent: Some(90), batch_percent: Some(150) }),
        quotas_indexed: Some(true),
        ..CellMeta::default()
    };
    rows! {
        CellMeta: CellMetaKey {} => meta;
        CellGate: CellGateKey {} => gate;
        Import: ImportKey {} => ImportRow { export: [7; 16], blocks: 1, rows: 2, began_ms: 3 };
        Node: NodeKey { node } => node_new(node, name("n1"), facts, 5);
        NodeAlloc: NodeAllocKey { node } => NodeAlloc { epoch: 3, used: resources(), ..NodeAlloc::default() };
        NodeTask: NodeTaskKey { node, job: JobId(2), index: 3 } => ();
        NodeLive: NodeLiveKey { node } => live;
        NodeReserved: NodeReservedKey { node } => resources();
        NodeName: NodeNameKey { name: name("n1") } => node;
        NodeLoad: NodeLoadKey { node } => load;
        NodeSession: NodeSessionKey { node } => session;
        GatewayLive: GatewayLiveKey { gateway: 5 } => gateway;
        NodeLiveAt: NodeLiveAtKey { node } => StampValue(stamp);
        NodeLiveChange: NodeLiveChangeKey { stamp, node } => ();
    }
}

fn members() -> Vec<StoredRow> {
    let member = MemberRow {
        id: MemberId(5),
        cell: name("beta"),
        gateways: vec!["cell7:7400".to_owned()],
        labels: BTreeMap::from([("region".to_owned(), "eu".to_owned())]),
        cordoned: true,
        revision: 3,
        joined_ms: 4,
        changed_ms: 5,
        changed_by: "user/ada".to_owned(),
        draining: true,
    };
    let problem = MemberProblem { kind: ProblemKind::Silent, since_ms: 8, message: "refused".to_owned() };
    let report = MemberReport {
        store_epoch: 2,
        nodes: 3,
        nodes_ready: 2,
        capacity: Resources { cpu_millis: 4_000, ..Resources::default() },
        used: Resources { cpu_millis: 500, ..Resources::default() },
        jobs: 1,
        running: 5,
        pending: 6,
    };
    let seen = MemberSeen {
        member: MemberId(5),
        looked_ms: 9,
        reported_ms: 7,
        report: Some(report),
        problem: Some(problem),
        gateways: vec!["beta.example:7400".to_owned()],
    };
    rows! {
        Member: MemberKey { cell: name("beta") } => member;
        MemberSeen: MemberSeenKey { cell: name("beta") } => seen;
    }
}

fn federated_part() -> FederatedPart {
    let seen = PartSeen {
        at_ms: 13,
        running: 3,
        healthy: 2,
        pending: 1,
        succeeded: 4,
        failed: 5,
        rollout: PartRollout::Rolling,
        finished: true,
    };
    FederatedPart {
        cell: name("beta"),
        count: 7,
        target: 6,
        version: 2,
        promise: 9,
        arrived: 8,
        promised_ms: 10,
        admitted: Some(AdmittedJob { id: "j1".to_owned(), changed_revision: 11, version: 2 }),
        seen: Some(seen),
        problem: Some(PartProblem { since_ms: 12, message: "refused".to_owned() }),
        failed_over_ms: Some(14),
        own: Some(5),
        admitted_version: 3,
    }
}

fn federated() -> Vec<StoredRow> {
    let (user, job_name, job) = (name("ada"), name("web"), FederatedJobId(3));
    let federation = FederationSpec { cells: vec![name("beta")], ..FederationSpec::default() };
    let spec = FederatedJob { job: job_spec(user.clone(), job_name.clone()), federation };
    let row = FederatedJobRow {
        id: job,
        spec: spec.clone(),
        version: 2,
        state: FederatedState::Stopping,
        revision: 4,
        submitted_ms: 5,
        changed_ms: 6,
        changed_by: "user/ada".to_owned(),
        order: Some(ReleaseOrder { number: 1, kind: ReleaseOrderKind::Approve { stage: 2 } }),
        rebalance: Some(RebalanceOrder { number: 3, which: RebalancedTasks::Stuck }),
    };
    let part = federated_part();
    let reason = CellsReason { words: "full".to_owned(), cells: vec![name("beta")] };
    let (question, answered) = (spec.clone(), part.clone());
    let status = FederatedStatus {
        divided: 4,
        members_mark: 15,
        at_ms: 16,
        unplaced: 17,
        shortfall: Some("few".to_owned()),
        holds: vec![reason.clone()],
        reasons: vec![reason],
        release: Some(ReleaseState::first(2)),
        release_wait: Some("paused".to_owned()),
        ordered: 1,
        kept: Some(KeptSide::Others),
        rebalanced: 2,
    };
    rows! {
        FederatedJob: FederatedJobKey { user, name: job_name } => row;
        FederatedVersion: FederatedVersionKey { job, version: 2 } => FederatedVersion {
            spec,
            at_ms: 6,
            by: "user/ada".to_owned(),
        };
        FederatedPart: FederatedPartKey { job, cell: name("beta") } => part;
        FederatedStatus: FederatedStatusKey { job } => status.clone();
        FederatedQuestion: FederatedQuestionKey { question: job } => FederatedQuestion {
            spec: question,
            asked_ms: 18,
            answer: Some(FederatedAnswer { parts: vec![answered], status }),
            rebalance: Some(RebalancedTasks::All),
        };
        FederatedQuestionHead: FederatedQuestionHeadKey {} => Counter(3);
    }
}

fn node_join() -> NodeJoin {
    let digest = |byte| SecretDigest([byte; 32]);
    NodeJoin {
        token: Some(JoinToken {
            digest: digest(1),
            expires_ms: 5,
            identity_lasts_ms: 6,
            made_ms: 7,
            by: "user/ada".to_owned(),
            used: Some(JoinTokenUse { identity: digest(2), at_ms: 8 }),
        }),
        identity: Some(NodeIdentity {
            digest: digest(3),
            previous: Some(digest(2)),
            line: digest(2),
            lasts_ms: 9,
            renewed_ms: 10,
        }),
    }
}

fn jobs_and_tasks() -> Vec<StoredRow> {
    let (user, job_name, job) = (name("ada"), name("web"), JobId(2));
    let task = TaskId { job, index: 3 };
    let spec = job_spec(user.clone(), job_name.clone());
    let endpoint = Endpoint {
        task,
        user: user.clone(),
        job: job_name.clone(),
        incarnation: Incarnation(4),
        host: "127.0.0.1".to_owned(),
        ports: Vec::new(),
        health: Health::Healthy,
        weight: 1,
        node: name("n1"),
        healthy_since_ms: 1_700_000_000_006,
        domains: vec!["eu1".to_owned(), String::new()],
    };
    let past = JobPastKey { user: user.clone(), name: job_name.clone(), submitted_ms: 5, job };
    let term = ConstraintKey { term: "t".to_owned(), domain: "d".to_owned() };
    let at = EndpointKey { user: user.clone(), job: job_name.clone(), index: 3 };
    let condition =
        LabelCondition { key: "app".to_owned(), value: "shop".to_owned(), operator: LabelOperator::Is };
    let merged = MergedServiceRow {
        id: MergedServiceId(8),
        user: user.clone(),
        name: name("shop"),
        selector: vec![condition],
        shares: BTreeMap::from([(job_name.clone(), 5)]),
        revision: 2,
        changed_ms: 5,
        changed_by: "user/ada".to_owned(),
    };
    rows! {
        JobName: JobNameKey { user: user.clone(), name: job_name.clone() } => job;
        JobGate: JobGateKey { job } => JobGate { revision: 7 };
        JobRow: JobRowKey { job } => job_new(job, &spec, RequestId(9), 5);
        JobSpec: JobSpecKey { job, version: 1 } => spec;
        JobPast: past => ();
        Task: TaskKey::of(task) => TaskRow::never_placed(task);
        Constraint: term => ConstraintToken { change: 8 };
        Gang: GangKey { gang: GangId(6) } => gang_gathering(GangId(6), job, 2, 5);
        Name: at => EndpointRow { endpoint, revision: 4 };
        NameRevision: NameRevisionKey { user: user.clone(), job: job_name } => StampValue(Versionstamp::new(10, 1));
        MergedService: MergedServiceKey { user, name: name("shop") } => merged;
    }
}

fn the_others() -> Vec<StoredRow> {
    let (user, band) = (name("ada"), Band::Production);
    let released = QuotaReleasedKey { holder: (&user).into(), band, dimension: "cpu_millis".to_owned() };
    let below = QuotaBelowKey { band, parent: "shop".to_owned(), holder: (&user).into() };
    let quota = QuotaRow { limit: resources(), tasks_max: Some(5), ..QuotaRow::default() };
    let grant = AccessGrantRow {
        roles: vec![AccessRole::Runner],
        deny: vec![Right::Read],
        ..AccessGrantRow::default()
    };
    let stamp = Versionstamp::new(10, 1);
    let floor = JournalFloor { trimmed_to: Cursor { store_epoch: 1, stamp }, at_ms: 5 };
    let lease = LeaseRow { epoch: 1, holder: "w1".to_owned(), generation: 2, duration_ms: 10_000 };
    let (role, id) = ("scheduler".to_owned(), RequestId(9));
    let request =
        RequestRow { digest: vec![1, 2], result: vec![3], expires_ms: 5, entry: Some(RequestId(7)) };
    let status = WorkerStatus { epoch: 1, holder: "w1".to_owned(), placed: 7, ..WorkerStatus::default() };
    let position = Cursor { store_epoch: 1, stamp };
    let audit_head = AuditHead { position, number: 3, hash: [2; 32], oldest: 1, bytes: 900 };
    let chunk = AuditChunk { previous: [1; 32], hash: [2; 32], last_ms: 5, body: "{}\n".to_owned() };
    let cell = FederationCell { store: "fdb:/one".to_owned(), revision: 1, changed_ms: 5 };
    rows! {
        Quota: QuotaKey { holder: (&user).into(), band } => quota;
        QuotaUsed: QuotaUsedKey { holder: (&user).into(), band } => QuotaUsed { used: resources(), tasks: 2 };
        QuotaReleased: released => Counter(-3);
        QuotaBelow: below => QuotaGrant { resources: resources(), from_ms: Some(5), until_ms: None };
        Journal: JournalKey { store_epoch: 1, stamp, part: 0 } => JournalPart { parts: 2, bytes: vec![1, 2, 3] };
        JournalHead: JournalHeadKey {} => StampValue(stamp);
        JournalFloor: JournalFloorKey {} => floor;
        Lease: LeaseKey { role: role.clone(), shard: 4 } => lease;
        LeaseBeat: LeaseBeatKey { role: role.clone(), shard: 4 } => LeaseBeat { epoch: 1, beat: 7 };
        LeaseStatus: LeaseStatusKey { role: role.clone(), shard: 4 } => status;
        LeaseHead: LeaseHeadKey { role: role.clone() } => Counter(6);
        SchedulerPool: SchedulerPoolKey { role } => SchedulerPool { shards: 4 };
        Request: RequestKey { id } => request;
        RequestExpiry: RequestExpiryKey { expires_ms: 5, id } => RequestExpiry { requests: Some(vec![id]) };
        FederationCell: FederationCellKey { cell: name("alpha") } => cell;
        StoreGeneration: StoreGenerationKey {} => StoreGeneration { generation: 3, opened_ms: 5 };
        AccessGrant: AccessGrantKey { subject: "user/ada".to_owned() } => grant;
        AccessHead: AccessHeadKey {} => Counter(2);
        AuditHead: AuditHeadKey {} => audit_head;
        AuditChunk: AuditChunkKey { number: 3 } => chunk;
        WorkloadKey: WorkloadKeyKey { number: 2 } => WorkloadKey { jwk: "{}".to_owned(), signs_from_ms: 5 };
        WorkloadSigner: WorkloadSignerKey { number: 2 } => WorkloadSigner { secret: vec![7; 3] };
        NodeJoin: NodeJoinKey { name: name("n1") } => node_join();
        NodeJoinHead: NodeJoinHeadKey {} => Counter(2);
    }
}

/// Every kind has a line. The last line of a kind is what is written today.
#[test]
fn stored_values_are_golden() {
    let space = CellSpace::new(name("alpha"));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut rows = cells_and_nodes();
    rows.extend(jobs_and_tasks());
    rows.extend(members());
    rows.extend(federated());
    rows.extend(the_others());
    let mut written = BTreeMap::new();
    for row in &rows {
        let (key, value) = row.encode(&space).unwrap();
        assert_eq!(&StoredRow::decode(&space, &key, &value).unwrap(), row);
        written.insert(super::super::key::kind_of(&space, &key).unwrap(), (hex(&key), hex(&value)));
    }
    assert_eq!(written.keys().copied().collect::<Vec<_>>(), KeyKind::ALL, "a sample of every kind");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/keys/golden_values.txt");
    let mut golden = std::fs::read_to_string(path).unwrap_or_default();
    let mut last = BTreeMap::new();
    for line in golden.lines() {
        let [kind, key, value] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
        let bytes = |text: &str| hex_bytes(text);
        let read = StoredRow::decode(&space, &bytes(key), &bytes(value));
        assert!(read.is_ok(), "what was once written must be read for ever: {line}: {read:?}");
        last.insert(kind.to_owned(), (key.to_owned(), value.to_owned()));
    }
    let mut added = String::new();
    for (kind, (key, value)) in written {
        if last.get(kind.name()) != Some(&(key.clone(), value.clone())) {
            added.push_str(&format!("{} {key} {value}\n", kind.name()));
        }
    }
    if !added.is_empty() && std::env::var_os("UPDATE_EXPECT").is_some() {
        golden.push_str(&added);
        std::fs::write(path, golden).unwrap();
        return;
    }
    assert!(
        added.is_empty(),
        "values are written otherwise now; UPDATE_EXPECT=1 appends these lines:\n{added}"
    );
}

pub(super) fn hex_bytes(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).unwrap()).collect()
}
