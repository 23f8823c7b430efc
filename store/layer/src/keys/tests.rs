//! The guarantees of the registry: bijection, order, disjoint ranges, and bytes that never change.

use std::collections::BTreeSet;

use borough_kv::Versionstamp;
use borough_model::access::AccessSubject;
use borough_model::job::Band;
use borough_model::{FederatedJobId, GangId, JobId, Name, NodeId, RequestId};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

mod contract;
mod values;

use super::table::each_key_type;
use super::{CellSpace, Key, KeyKind, Prefix};

/// A type whose values tests can generate.
pub(crate) trait Sample: Sized + std::fmt::Debug {
    /// Any value, edges included.
    fn strategy() -> BoxedStrategy<Self>;
}

/// An operation on every key type.
pub(crate) trait KeyVisitor {
    fn visit<K: Key + Sample + 'static>(&mut self, name: &'static str);
}

macro_rules! samples {
    ($($type:ty => $strategy:expr;)*) => {$(
        impl Sample for $type {
            fn strategy() -> BoxedStrategy<Self> {
                $strategy.boxed()
            }
        }
    )*};
}

samples! {
    u32 => prop_oneof![any::<u32>(), 0..3_u32, Just(u32::MAX)];
    u64 => prop_oneof![any::<u64>(), 0..3_u64, Just(u64::MAX)];
    i64 => prop_oneof![any::<i64>(), -2..2_i64, Just(i64::MIN), Just(i64::MAX)];
    String => prop_oneof!["[ab\u{0}ÿ/]{0,4}", any::<String>()];
    Name => "[a-c]([a-z0-9-]{0,4}[a-z0-9])?".prop_map(|text| Name::new(text).unwrap());
    FederatedJobId => u64::strategy().prop_map(FederatedJobId);
    JobId => u64::strategy().prop_map(JobId);
    NodeId => u64::strategy().prop_map(NodeId);
    GangId => u64::strategy().prop_map(GangId);
    RequestId => prop_oneof![any::<u128>(), 0..3_u128, Just(u128::MAX)].prop_map(RequestId);
    AccessSubject => (any::<bool>(), Name::strategy()).prop_map(|(group, name)| {
        let subject = if group { AccessSubject::Group } else { AccessSubject::User };
        subject(name)
    });
    Band => prop_oneof![
        Just(Band::BestEffort), Just(Band::Batch), Just(Band::Production), Just(Band::Monitoring)
    ];
    Versionstamp => any::<[u8; 10]>().prop_map(Versionstamp);
}

fn space(name: &str) -> CellSpace {
    CellSpace::new(Name::new(name).unwrap())
}

/// Generates the same values in every run.
fn draws<S: Strategy>(count: usize, strategy: &S) -> Vec<S::Value> {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

#[test]
fn kinds_and_codes_are_a_bijection() {
    let mut codes = BTreeSet::new();
    let mut names = BTreeSet::new();
    for kind in KeyKind::ALL {
        assert_eq!(KeyKind::from_code(kind.code()), Some(*kind));
        assert!(codes.insert(kind.code()), "{kind} shares its code");
        assert!(names.insert(kind.name()), "{kind} shares its name");
        assert!(!KeyKind::RETIRED.contains(&kind.code()), "{kind} has a retired code");
    }
    for code in 0..=u8::MAX {
        assert_eq!(KeyKind::from_code(code).is_some(), codes.contains(&code));
    }
}

#[test]
fn every_kind_has_one_key_type() {
    struct Kinds(Vec<KeyKind>);
    impl KeyVisitor for Kinds {
        fn visit<K: Key + Sample + 'static>(&mut self, _: &'static str) {
            self.0.push(K::KIND);
        }
    }
    let mut kinds = Kinds(Vec::new());
    each_key_type(&mut kinds);
    assert_eq!(kinds.0, KeyKind::ALL, "one key type per kind, in the order of codes");
}

struct RoundTrips;

impl KeyVisitor for RoundTrips {
    fn visit<K: Key + Sample + 'static>(&mut self, name: &'static str) {
        let (alpha, beta) = (space("alpha"), space("beta"));
        let mut keys = draws(256, &K::strategy());
        for key in &keys {
            let bytes = key.encode(&alpha);
            assert_eq!(&K::decode(&alpha, &bytes).unwrap(), key, "{name}");
            assert!(K::decode(&beta, &bytes).is_err(), "{name} {key:?} decodes in another cell");
            assert!(K::decode(&alpha, &[&bytes[..], &[0x15, 1]].concat()).is_err(), "{name} with a rest");
            let range = Prefix::<K>::all().range(&alpha);
            assert!(range.contains(&bytes), "{name} {key:?} outside its kind's range");
            assert!(alpha.range().contains(&bytes) && !beta.range().contains(&bytes));
        }
        keys.sort();
        for pair in keys.windows(2) {
            let (left, right) = (pair[0].encode(&alpha), pair[1].encode(&alpha));
            assert_eq!(left.cmp(&right), pair[0].cmp(&pair[1]), "{name}: order of {pair:?}");
        }
    }
}

#[test]
fn keys_round_trip_and_keep_their_order() {
    each_key_type(&mut RoundTrips);
}

#[test]
fn no_two_kinds_overlap() {
    struct Ranges(Vec<(std::ops::Range<Vec<u8>>, &'static str)>);
    impl KeyVisitor for Ranges {
        fn visit<K: Key + Sample + 'static>(&mut self, name: &'static str) {
            for cell in [CellSpace::federation(), space("a"), space("ab"), space("b")] {
                self.0.push((Prefix::<K>::all().range(&cell), name));
            }
        }
    }
    let mut ranges = Ranges(Vec::new());
    each_key_type(&mut ranges);
    ranges.0.sort_by(|left, right| left.0.start.cmp(&right.0.start));
    for pair in ranges.0.windows(2) {
        assert!(pair[0].0.end <= pair[1].0.start, "{} and {} overlap", pair[0].1, pair[1].1);
    }
}

#[test]
fn prefixes_hold_exactly_their_keys() {
    use super::{NodeTaskKey, TaskKey};
    let cell = space("alpha");
    let of_job = Prefix::<TaskKey>::of(&JobId(255)).range(&cell);
    let task = |job, index| TaskKey { job: JobId(job), index }.encode(&cell);
    assert!(of_job.contains(&task(255, 0)) && of_job.contains(&task(255, u32::MAX)));
    assert!(!of_job.contains(&task(254, u32::MAX)) && !of_job.contains(&task(256, 0)));
    let of_both = Prefix::<NodeTaskKey>::of_two(&NodeId(1), &JobId(2)).range(&cell);
    let charged = |node, job| NodeTaskKey { node: NodeId(node), job: JobId(job), index: 7 }.encode(&cell);
    assert!(of_both.contains(&charged(1, 2)));
    assert!(!of_both.contains(&charged(1, 3)) && !of_both.contains(&charged(2, 2)));
}

fn golden_line(kind: KeyKind, bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{:>3} {:<16} {hex}\n", kind.code(), kind.name())
}

/// One key of each kind. Stores contain these bytes: a difference here changes the stored format.
#[test]
fn bytes_are_golden() {
    use super::table::*;
    let (cell, mut lines, name) = (space("alpha"), String::new(), |text: &str| Name::new(text).unwrap());
    macro_rules! golden {
        ($($key:ident { $($field:ident: $value:expr),* };)*) => {$(
            lines.push_str(&golden_line($key::KIND, &$key { $($field: $value),* }.encode(&cell)));
        )*};
    }
    golden! {
        CellMetaKey {};
        CellGateKey {};
        ImportKey {};
        NodeKey { node: NodeId(0x1234) };
        NodeAllocKey { node: NodeId(u64::MAX) };
        NodeTaskKey { node: NodeId(1), job: JobId(2), index: 3 };
        NodeLiveKey { node: NodeId(1) };
        NodeLoadKey { node: NodeId(1) };
        NodeSessionKey { node: NodeId(1) };
        GatewayLiveKey { gateway: 5 };
        NodeLiveAtKey { node: NodeId(1) };
        NodeLiveChangeKey { stamp: Versionstamp::new(0x0102_0304, 5), node: NodeId(1) };
        NodeReservedKey { node: NodeId(0) };
        NodeNameKey { name: name("n1") };
        JobNameKey { user: name("ada"), name: name("web") };
        JobSpecKey { job: JobId(2), version: 1 };
        JobGateKey { job: JobId(2) };
        JobRowKey { job: JobId(2) };
        JobPastKey { user: name("ada"), name: name("web"), submitted_ms: 5, job: JobId(2) };
        TaskKey { job: JobId(2), index: 0 };
        ConstraintKey { term: "one\0per".to_owned(), domain: String::new() };
        GangKey { gang: GangId(9) };
        QuotaKey { holder: AccessSubject::User(name("ada")), band: Band::Production };
        QuotaUsedKey { holder: AccessSubject::User(name("ada")), band: Band::BestEffort };
        QuotaReleasedKey { holder: AccessSubject::User(name("ada")), band: Band::Monitoring, dimension: "cpu_millis".to_owned() };
        QuotaBelowKey { band: Band::Batch, parent: "web-team".to_owned(), holder: AccessSubject::User(name("ada")) };
        EndpointKey { user: name("ada"), job: name("web"), index: 2 };
        NameRevisionKey { user: name("ada"), job: name("web") };
        MergedServiceKey { user: name("ada"), name: name("shop") };
        MemberKey { cell: name("beta") };
        MemberSeenKey { cell: name("beta") };
        FederatedJobKey { user: name("ada"), name: name("web") };
        FederatedVersionKey { job: FederatedJobId(3), version: 2 };
        FederatedPartKey { job: FederatedJobId(3), cell: name("beta") };
        FederatedStatusKey { job: FederatedJobId(3) };
        FederatedQuestionKey { question: FederatedJobId(3) };
        FederatedQuestionHeadKey {};
        JournalKey { store_epoch: 1, stamp: Versionstamp::new(0x0102_0304, 5), part: 0 };
        JournalHeadKey {};
        JournalFloorKey {};
        LeaseKey { role: "scheduler".to_owned(), shard: 4 };
        LeaseBeatKey { role: "scheduler".to_owned(), shard: 4 };
        LeaseStatusKey { role: "scheduler".to_owned(), shard: 4 };
        LeaseHeadKey { role: "scheduler".to_owned() };
        SchedulerPoolKey { role: "scheduler".to_owned() };
        RequestKey { id: RequestId(u128::MAX) };
        RequestExpiryKey { expires_ms: -1, id: RequestId(1) };
        FederationCellKey { cell: name("alpha") };
        StoreGenerationKey {};
        AccessGrantKey { subject: "group/web".to_owned() };
        AccessHeadKey {};
        AuditHeadKey {};
        AuditChunkKey { number: 258 };
        WorkloadKeyKey { number: 2 };
        WorkloadSignerKey { number: 2 };
        NodeJoinKey { name: name("n1") };
        NodeJoinHeadKey {};
    }
    assert_eq!(lines.lines().count(), KeyKind::ALL.len(), "a golden key for every kind");
    expect_test::expect_file!["golden.txt"].assert_eq(&lines);
}
