//! Every readable version answers as it was, whatever is trimmed, checkpointed and evicted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use prometheus_client::registry::Registry;
use proptest::prelude::*;

use super::*;
use crate::contract::AtomicOp;

type Model = BTreeMap<Bytes, Bytes>;

fn mutation() -> impl Strategy<Value = Mutation> {
    let key = || (0..12u8).prop_map(|key| Bytes::from(vec![key]));
    let value = || prop::collection::vec(any::<u8>(), 0..3).prop_map(Bytes::from);
    prop_oneof![
        4 => (key(), value()).prop_map(|(key, value)| Mutation::Set(key, value)),
        2 => key().prop_map(Mutation::Clear),
        1 => (key(), key()).prop_map(|(one, other)| {
            Mutation::ClearRange(one.clone().min(other.clone()), one.max(other))
        }),
        2 => (key(), value()).prop_map(|(key, value)| Mutation::Atomic(AtomicOp::Add, key, value)),
        1 => (key(), value()).prop_map(|(key, value)| Mutation::Atomic(AtomicOp::CompareAndClear, key, value)),
    ]
}

fn apply(model: &mut BTreeMap<Bytes, Bytes>, mutation: &Mutation) {
    match mutation {
        Mutation::ClearRange(begin, end) => model.retain(|key, _| !(begin <= key && key < end)),
        Mutation::Clear(key) => drop(model.remove(key)),
        Mutation::Atomic(operation, key, operand) => {
            match atomic_apply(*operation, model.get(key), operand) {
                Some(value) => model.insert(key.clone(), value),
                None => model.remove(key),
            };
        }
        Mutation::Set(key, value) | Mutation::StampedKey(key, value) | Mutation::StampedValue(key, value) => {
            model.insert(key.clone(), value.clone());
        }
    }
}

/// The rows of a checkpoint. Once it is replaced, they are overwritten.
struct ModelCheckpoint {
    rows: Model,
    overwritten: AtomicBool,
}

impl ModelCheckpoint {
    fn value(&self, value: &Bytes) -> Bytes {
        let overwritten = self.overwritten.load(Ordering::SeqCst);
        if overwritten { Bytes::from_static(b"overwritten") } else { value.clone() }
    }
}

impl ColdRows for ModelCheckpoint {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.rows.get(key).map(|value| self.value(value))
    }

    fn range<'a>(&'a self, begin: &[u8], end: &[u8], order: Order) -> Box<dyn Iterator<Item = ColdRow> + 'a> {
        let rows = self.rows.range(Bytes::copy_from_slice(begin)..Bytes::copy_from_slice(end));
        let rows = rows.map(|(key, value)| (key.clone(), self.value(value)));
        match order {
            Order::Forward => Box::new(rows),
            Order::Reverse => Box::new(rows.rev()),
        }
    }

    fn failure(&self) -> Option<KvError> {
        None
    }
}

/// What happens after a batch.
#[derive(Clone, Copy, Debug)]
enum After {
    Nothing,
    /// A checkpoint of the present version begins.
    Begin,
    /// It ends.
    End,
    /// It fails.
    Fail,
}

/// A memory with its checkpoints, and what it should answer.
struct World {
    memory: Memory,
    /// The rows at each version.
    history: Vec<(Version, Model)>,
    version: Version,
    running: Option<(Version, Vec<MemoryKey>)>,
    cold: Option<Arc<ModelCheckpoint>>,
}

impl World {
    fn new(bytes_max: usize) -> Self {
        let memory = Memory::opened(OpenedRows::default(), bytes_max);
        Self { memory, history: vec![(0, Model::new())], version: 0, running: None, cold: None }
    }

    fn rows_at(&self, version: Version) -> &Model {
        let at = self.history.partition_point(|(at, _)| *at <= version);
        &self.history[at - 1].1
    }

    fn batch(&mut self, mutations: &[Mutation]) {
        self.version += 10;
        self.memory.apply(self.version, mutations);
        let mut rows = self.rows_at(self.version).clone();
        mutations.iter().for_each(|mutation| apply(&mut rows, mutation));
        self.history.push((self.version, rows));
    }

    fn checkpoint(&mut self, after: After) {
        let known = self.version % 20 == 0;
        match (after, self.running.take()) {
            (After::Begin, None) => {
                self.memory.pin(self.version);
                self.running = Some((self.version, self.memory.dirty_take()));
            }
            (After::End, Some((version, dirty))) => {
                for key in &dirty {
                    let found = self.memory.read().get(key, version);
                    assert_eq!(
                        found.as_ref(),
                        self.rows_at(version).get(key.as_slice()),
                        "{key:?} for a checkpoint"
                    );
                }
                let (mut whole, mut from) = (Model::new(), Vec::new());
                loop {
                    let part = self.memory.part_at(&from, version);
                    let Some((last, _)) = part.last() else { break };
                    from = crate::database::key_after(last);
                    whole.extend(part.into_iter().map(|(key, value)| (Bytes::copy_from_slice(&key), value)));
                }
                let rows = self.rows_at(version).clone();
                assert_eq!(whole, rows, "the rows of a whole checkpoint");
                let cold = Arc::new(ModelCheckpoint { rows, overwritten: AtomicBool::new(false) });
                self.memory.cold_set(
                    version,
                    Arc::clone(&cold) as Arc<dyn ColdRows>,
                    known.then_some(&dirty),
                );
                if let Some(before) = self.cold.replace(cold) {
                    before.overwritten.store(true, Ordering::SeqCst);
                }
                self.memory.unpin();
            }
            (After::Fail, Some((_, dirty))) => {
                self.memory.unpin();
                self.memory.dirty_return(dirty);
            }
            (_, running) => self.running = running,
        }
    }

    /// Every version that can be read reads as it was.
    fn check(&self) {
        let rows = self.memory.read();
        for (at, expected) in self.history.iter().filter(|(at, _)| *at >= rows.oldest()) {
            let forward: Vec<_> = rows
                .range(b"", b"\xff", *at, Order::Forward)
                .map(|(key, value)| (Bytes::copy_from_slice(&key), value))
                .collect();
            let mut reverse: Vec<_> = rows
                .range(b"", b"\xff", *at, Order::Reverse)
                .map(|(key, value)| (Bytes::copy_from_slice(&key), value))
                .collect();
            reverse.reverse();
            assert_eq!(forward, reverse, "both orders at {at}");
            assert_eq!(&forward.into_iter().collect::<Model>(), expected, "at {at}");
            for key in 0..12_u8 {
                assert_eq!(rows.get(&[key], *at).as_ref(), expected.get(&[key][..]), "key {key} at {at}");
            }
        }
        let bytes: usize = rows.chains.iter().map(|(key, chain)| chain.bytes(key)).sum();
        assert_eq!(rows.bytes, bytes, "the bytes of the chains");
    }
}

fn after() -> impl Strategy<Value = After> {
    prop_oneof![
        2 => Just(After::Nothing),
        2 => Just(After::Begin),
        2 => Just(After::End),
        1 => Just(After::Fail),
    ]
}

/// A journal: rows are added at its end and cleared at its beginning, for ever. Other rows stay in memory all the time.
#[test]
fn the_ranges_of_cold_rows_do_not_grow_with_time() {
    let mut world = World::new(6_000);
    let key = |number: u32| Bytes::from(vec![1, number.to_be_bytes()[2], number.to_be_bytes()[3]]);
    let set = |key: Bytes| Mutation::Set(key, Bytes::from_static(b"entry"));
    let mut most = 0;
    for round in 0..200_u32 {
        let mut batch: Vec<Mutation> = (0..20).map(|row| set(key(round * 20 + row))).collect();
        batch.extend([set(Bytes::from_static(&[0])), set(Bytes::from_static(&[2]))]);
        batch.push(Mutation::ClearRange(key(0), key((round * 20).saturating_sub(100))));
        world.batch(&batch);
        world.checkpoint(After::Begin);
        world.checkpoint(After::End);
        world.memory.trim(world.version);
        world.memory.balance();
        // Some are read now and then, so that they stay a while longer.
        (0..5).for_each(|row| drop(world.memory.read().get(&key(round * 20 + row * 3), world.version)));
        let rows = world.memory.read();
        most = most.max(rows.cold.as_ref().map_or(0, |cold| cold.ranges.iter().count()));
        assert!(rows.bytes < 12_000, "{} bytes in memory in round {round}", rows.bytes);
    }
    world.check();
    assert!((1..30).contains(&most), "{most} ranges");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Rows come and go between memory and checkpoints, which overwrite the ones before.
    #[test]
    fn cold_rows_read_as_they_were(
        batches in prop::collection::vec((prop::collection::vec(mutation(), 0..6), 0..6usize, after()), 1..60),
        bytes_max in prop_oneof![Just(0_usize), Just(1_000)],
    ) {
        let mut world = World::new(bytes_max);
        for (mutations, keep, after) in batches {
            world.batch(&mutations);
            world.check();
            world.checkpoint(after);
            world.check();
            let oldest = world.history[world.history.len().saturating_sub(keep + 1)].0;
            world.memory.trim(oldest);
            world.memory.balance();
            world.check();
        }
        // In the end, nothing stays in memory that needs not: not even what was read. Twice, since kept absences go
        // with the second checkpoint.
        if bytes_max == 0 {
            world.checkpoint(After::Fail);
            for _ in 0..2 {
                world.batch(&[]);
                world.checkpoint(After::Begin);
                world.checkpoint(After::End);
                world.memory.trim(world.version);
            }
            (0..3).for_each(|_| world.memory.balance());
            prop_assert_eq!(world.memory.read().chains.len(), 0, "chains in memory");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every version from the oldest on reads as before, through trims and pins. The oldest versions are dropped.
    #[test]
    fn every_version_in_the_window_reads_as_it_was(
        batches in prop::collection::vec((prop::collection::vec(mutation(), 0..6), 0..6usize, any::<bool>()), 1..40)
    ) {
        let memory = Memory::opened(OpenedRows::default(), usize::MAX);
        let mut history = vec![(0, BTreeMap::new())];
        let (mut version, mut forgotten, mut pinned) = (0, 0, None);
        for (mutations, keep, toggle) in batches {
            version += 10;
            memory.apply(version, &mutations);
            let mut rows = history.last().map(|(_, rows)| rows.clone()).unwrap_or_default();
            mutations.iter().for_each(|mutation| apply(&mut rows, mutation));
            history.push((version, rows));
            if toggle {
                pinned = match pinned {
                    None => { memory.pin(version); Some(version) }
                    Some(_) => { memory.unpin(); None }
                };
            }
            let oldest = history[history.len().saturating_sub(keep + 1)].0;
            memory.trim(oldest);
            // Never less than what must be kept, and never readable again after it was not.
            let readable = memory.read().oldest();
            prop_assert!(readable <= oldest.max(pinned.unwrap_or(0)) || readable <= forgotten);
            prop_assert!(pinned.is_none_or(|pinned| readable <= pinned));
            forgotten = readable;
            for (at, expected) in history.iter().filter(|(at, _)| *at >= readable) {
                let found: BTreeMap<Bytes, Bytes> =
                    memory.read().range(b"", b"\xff", *at, Order::Forward).map(|(key, value)| (Bytes::copy_from_slice(&key), value)).collect();
                prop_assert_eq!(&found, expected, "at {}", at);
            }
        }
        memory.unpin();
        memory.trim(version);
        let live = history.last().map_or(0, |(_, rows)| rows.len());
        prop_assert_eq!(memory.read().versions_kept(), live, "only what is there now");
    }
}

/// The metrics say what is in memory, and what was read from the checkpoint, row by row and in a range.
#[test]
fn what_is_in_memory_and_what_was_read_from_the_disk_is_counted() {
    let mut world = World::new(0);
    let rows: Vec<Mutation> =
        [b"a", b"b", b"c"].map(|key| Mutation::Set(key[..].into(), vec![7; 100].into())).into();
    world.batch(&rows);
    let usage = world.memory.usage();
    assert_eq!((usage.rows, usage.cold_reads, usage.bytes_max), (3, 0, 0));
    assert!(usage.bytes >= 300, "{usage:?}");
    for _ in 0..2 {
        world.batch(&[]);
        world.checkpoint(After::Begin);
        world.checkpoint(After::End);
        world.memory.trim(world.version);
    }
    (0..3).for_each(|_| world.memory.balance());
    let before = world.memory.usage();
    assert_eq!((before.rows, before.bytes), (0, 0));
    assert_eq!(world.memory.read().get(b"b", world.version), Some(vec![7; 100].into()));
    assert_eq!(world.memory.read().get(b"d", world.version), None);
    assert_eq!(world.memory.read().range(b"a", b"c", world.version, Order::Forward).count(), 2);
    let reads = world.memory.usage().cold_reads - before.cold_reads;
    assert!((3..=4).contains(&reads), "three rows, and a look for one that is not there: {reads}");
    let memory = Arc::new(world.memory);
    let (mut registry, mut text) = (Registry::default(), String::new());
    usage_register(&mut registry, &memory);
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in
        ["store_embedded_rows 0\n", "store_embedded_memory_max_bytes 0\n", "store_embedded_cold_reads_total "]
    {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
}
