//! The edges of each read's dependence, under every kind of own write. Another transaction's write just inside an edge
//! makes the reader's commit fail and name exactly the range. A write just outside does not.
//!
//! The cases combine a table of own writes with a table of reads. The model says what a read depends on. The other
//! transaction only adds write conflicts, so that only the conflict is tested.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};

use super::super::{Check, CheckFailure, Wrong};
use super::machine::{ProgramMachine, ProgramOutcome};
use super::model::ProgramModel;
use super::step::{Frame, ProgramAction, ProgramStep, Range, Selector, SlotName, Switch};
use borough_kv::contract::{AtomicOp, ConflictKind, Engine, ErrorCode, Isolation, StreamingMode};
use borough_kv::database::key_after;
use borough_kv::env::SystemClock;

/// Rows of every case; the letters between are gaps.
const ROWS: [&str; 7] = ["b", "d", "f", "h", "j", "l", "n"];
/// Above any row there is.
const ALL: usize = 1000;
/// Cases that run at once if each has a part of the store for itself.
const ABREAST: usize = 16;

/// A case takes milliseconds, and no transaction is too old before five seconds. The margin allows for a store whose
/// version clock runs a little ahead.
const STANDSTILL: Duration = Duration::from_secs(4);
/// The most standstills of one case.
const STANDSTILLS_MAX: usize = 3;

/// The reader, the transaction that writes the rows, and the other transaction.
const READER: usize = 0;
const FILLER: usize = 1;
const OTHER: usize = 2;

fn name(text: &str) -> SlotName {
    SlotName(text.as_bytes().to_vec())
}

fn after(name: &SlotName) -> SlotName {
    SlotName(key_after(&name.0))
}

fn at(key: &str, or_equal: bool, offset: i32) -> Selector {
    Selector { key: name(key), or_equal, offset }
}

fn first_at(key: &str) -> Selector {
    at(key, false, 1)
}

fn first_after(key: &str) -> Selector {
    at(key, true, 1)
}

fn last_at(key: &str) -> Selector {
    at(key, true, 0)
}

fn last_before(key: &str) -> Selector {
    at(key, false, 0)
}

fn range((begin, end): (&Selector, &Selector), limit: usize, mode: StreamingMode, reverse: bool) -> Range {
    Range { begin: begin.clone(), end: end.clone(), limit, mode, reverse, isolation: Isolation::Serializable }
}

/// Every pair of `begins` and `ends`, with each limit, both ways.
fn ranges(begins: &[Selector], ends: &[Selector], limits: &[usize]) -> Vec<ProgramAction> {
    let mut reads = Vec::new();
    for begin in begins {
        for end in ends {
            for limit in limits {
                let one = |reverse| {
                    ProgramAction::GetRange(range((begin, end), *limit, StreamingMode::Exact, reverse))
                };
                reads.extend([one(false), one(true)]);
            }
        }
    }
    reads
}

/// The reader's actions before it reads.
fn own_writes() -> Vec<Vec<ProgramAction>> {
    let set = |key| ProgramAction::Set(name(key), name("1"));
    let clear = |key| ProgramAction::Clear(name(key));
    let add = |key| ProgramAction::Atomic(AtomicOp::Add, name(key), name("1"));
    let clear_range = || ProgramAction::ClearRange(name("e"), name("i"));
    let empty = |key| ProgramAction::Atomic(AtomicOp::CompareAndClear, name(key), name("1"));
    vec![
        vec![set("f")],
        vec![set("g")],
        vec![clear("f")],
        vec![clear("g")],
        vec![clear_range()],
        vec![clear_range(), set("g")],
        vec![add("f")],
        vec![add("g")],
        vec![set("f"), add("f")],
        vec![clear("f"), add("f")],
        vec![empty("f")],
        vec![ProgramAction::StampedValue(name("f"), name(""), name(""))],
        vec![ProgramAction::Conflict(ConflictKind::Write, name("f"), name("g"))],
        vec![ProgramAction::Switch(Switch::NextWriteNoConflict), set("f")],
        vec![ProgramAction::Switch(Switch::SnapshotOwnWritesDisable), set("f")],
        vec![
            ProgramAction::Switch(Switch::BypassUnreadable),
            ProgramAction::StampedValue(name("f"), name(""), name("")),
        ],
        vec![ProgramAction::Switch(Switch::OwnWritesDisable)],
        vec![ProgramAction::Switch(Switch::OwnWritesDisable), set("f"), clear("h")],
    ]
}

/// Reads that are tested with every own write.
fn reads_of_each() -> Vec<ProgramAction> {
    let mut reads = Vec::new();
    for key in ["f", "g"] {
        reads.extend(
            [Isolation::Serializable, Isolation::Snapshot]
                .map(|isolation| ProgramAction::Get(name(key), isolation)),
        );
        let selectors = [first_at(key), first_after(key), last_at(key), last_before(key), at(key, false, 2)];
        reads.extend(selectors.map(|selector| ProgramAction::GetKey(selector, Isolation::Serializable)));
    }
    reads.push(ProgramAction::GetKey(at("h", true, -1), Isolation::Serializable));
    reads.push(ProgramAction::GetKey(last_at("g"), Isolation::Snapshot));
    let begins = [first_at("e"), first_after("f"), last_at("g")];
    reads.extend(ranges(&begins, &[first_at("h"), first_after("j")], &[ALL, 1, 2]));
    let snapshot = range((&first_at("d"), &first_at("l")), ALL, StreamingMode::Exact, false);
    reads.push(ProgramAction::GetRange(Range { isolation: Isolation::Snapshot, ..snapshot }));
    reads.push(ProgramAction::Conflict(ConflictKind::Read, name("f"), name("j")));
    reads.push(ProgramAction::Conflict(ConflictKind::Read, name("f"), after(&name("f"))));
    reads
}

/// Reads in every shape, without own writes.
fn reads_in_every_shape() -> Vec<ProgramAction> {
    let mut reads = reads_of_each();
    for key in ["h", "i"] {
        for offset in -1..=2 {
            reads.extend(
                [false, true].map(|or_equal| {
                    ProgramAction::GetKey(at(key, or_equal, offset), Isolation::Serializable)
                }),
            );
        }
    }
    let begins =
        [first_at("f"), first_at("g"), first_after("f"), last_at("f"), last_before("f"), at("f", false, 2)];
    let ends =
        [first_at("j"), first_at("k"), first_after("j"), last_at("j"), last_before("j"), at("j", false, 2)];
    reads.extend(ranges(&begins, &ends, &[ALL, 1, 2]));
    // Crossed, and empty.
    reads.extend(ranges(
        &[first_at("j"), first_after("h"), last_at("j")],
        &[first_at("h"), last_before("h")],
        &[ALL],
    ));
    reads.extend(ranges(&[first_at("g"), first_after("f")], &[first_at("h"), first_at("g\0")], &[ALL, 1]));
    for mode in [StreamingMode::WantAll, StreamingMode::Iterator, StreamingMode::Small, StreamingMode::Serial]
    {
        for (limit, reverse) in [(0, false), (0, true), (2, false), (2, true)] {
            reads.push(ProgramAction::GetRange(range(
                (&first_at("e"), &first_at("k")),
                limit,
                mode,
                reverse,
            )));
        }
    }
    reads
}

/// Reads that leave the keyspace at its ends.
fn reads_at_the_ends() -> Vec<ProgramAction> {
    let (begins, ends) = (["", "b"], ["n", "o"]);
    let mut reads = Vec::new();
    for offset in -2..=3 {
        let selectors = begins.iter().chain(&ends).map(|key| at(key, false, offset));
        reads.extend(selectors.map(|selector| ProgramAction::GetKey(selector, Isolation::Serializable)));
    }
    let far = Selector { key: SlotName(vec![0xff]), or_equal: false, offset: 1 };
    reads.push(ProgramAction::GetKey(far.clone(), Isolation::Serializable));
    let low = [first_at(""), last_before("b"), at("b", false, -1), first_at("b")];
    let high = [far, first_after("n"), at("n", false, 2), at("n", false, 3), first_at("n")];
    reads.extend(ranges(&low, &high, &[ALL, 2]));
    reads.extend(ranges(&high[1..], &high[..3], &[ALL, 1]));
    reads
}

/// One read under one transaction's own writes.
struct Case {
    own: Vec<ProgramAction>,
    read: ProgramAction,
}

fn cases() -> Vec<Case> {
    let case = |own: &Vec<ProgramAction>, read| Case { own: own.clone(), read };
    let plain = reads_in_every_shape().into_iter().map(|read| case(&Vec::new(), read));
    let own = own_writes();
    let each = own.iter().flat_map(|own| reads_of_each().into_iter().map(move |read| case(own, read)));
    plain.chain(each).collect()
}

fn cases_at_the_ends() -> Vec<Case> {
    let own = [
        Vec::new(),
        vec![ProgramAction::Clear(name("n"))],
        vec![ProgramAction::Switch(Switch::OwnWritesDisable)],
    ];
    let case = |own: &Vec<ProgramAction>, read| Case { own: own.clone(), read };
    own.iter().flat_map(|own| reads_at_the_ends().into_iter().map(move |read| case(own, read))).collect()
}

/// The engine and the model.
struct Pair {
    machine: ProgramMachine,
    model: ProgramModel,
}

impl Pair {
    async fn step(&mut self, slot: usize, action: &ProgramAction) -> Result<ProgramOutcome, Wrong> {
        let step = ProgramStep { slot, action: action.clone() };
        let outcome = self.machine.step(&step).await;
        let verdict = self.model.step(&step, &outcome);
        let aged = outcome == ProgramOutcome::Error(ErrorCode::TransactionTooOld);
        let wrong = if aged { Wrong::Aged } else { Wrong::Differs };
        verdict.map_err(|why| wrong(format!("{step:?}: {why}")))?;
        Ok(outcome)
    }

    /// Writes the rows, and lets the reader read.
    async fn read(&mut self, case: &Case) -> Check {
        self.step(FILLER, &ProgramAction::ClearRange(name(""), SlotName(vec![0xff]))).await?;
        for row in ROWS {
            self.step(FILLER, &ProgramAction::Set(name(row), name("1"))).await?;
        }
        for action in [ProgramAction::Commit, ProgramAction::Reset] {
            self.step(FILLER, &action).await?;
        }
        for action in &case.own {
            self.step(READER, action).await?;
        }
        self.step(READER, &ProgramAction::ReadVersion).await?;
        self.step(READER, &case.read).await?;
        Ok(())
    }

    /// Lets the other transaction write `keys` and the reader commit. Returns true if the commit was refused. The model
    /// has checked whether it had to be, and which ranges it had to name.
    async fn probe(&mut self, keys: &[SlotName]) -> Result<bool, Wrong> {
        for key in keys {
            self.step(OTHER, &ProgramAction::Conflict(ConflictKind::Write, key.clone(), after(key))).await?;
        }
        for action in [ProgramAction::Commit, ProgramAction::Reset] {
            self.step(OTHER, &action).await?;
        }
        self.step(READER, &ProgramAction::Conflict(ConflictKind::Write, name("w"), name("x"))).await?;
        let outcome = self.step(READER, &ProgramAction::Commit).await?;
        self.step(READER, &ProgramAction::Reset).await?;
        Ok(matches!(outcome, ProgramOutcome::Refused(_)))
    }
}

/// The last key before `key`, or a key that is before all of a case.
fn before(key: &SlotName) -> Option<SlotName> {
    let (last, front) = key.0.split_last()?;
    let mut before = front.to_vec();
    if let Some(less) = last.checked_sub(1) {
        before.push(less);
        before.extend([0xff; 6]);
    }
    Some(SlotName(before))
}

/// Counts over all cases, so that a table that tries nothing is noticed.
#[derive(Debug, Default)]
struct EdgeCases {
    inside: usize,
    outside: usize,
    /// Cases that the contract leaves open.
    open_ended: usize,
}

async fn case_run(engine: Arc<dyn Engine>, frame: &Frame, case: &Case) -> Result<EdgeCases, Wrong> {
    let machine = ProgramMachine::new(engine, frame.clone()).await?;
    let mut pair = Pair { machine, model: ProgramModel::new(frame.clone()) };
    let mut tried = EdgeCases::default();
    pair.read(case).await?;
    if pair.model.open_ended {
        return Ok(EdgeCases { open_ended: 1, ..tried });
    }
    let spans = pair.model.dependence(READER);
    pair.step(READER, &ProgramAction::Reset).await?;
    let covered = |key: &SlotName| spans.iter().any(|(begin, end)| begin <= key && key < end);
    let writable = |key: &SlotName| frame.key(key) < frame.bounds().1;
    let edges = spans.iter().flat_map(|(begin, end)| [Some(begin.clone()), before(end)]).flatten();
    let mut edges: Vec<SlotName> = edges.filter(|key| covered(key) && writable(key)).collect();
    edges.dedup();
    for edge in edges {
        pair.read(case).await?;
        let refused = pair.probe(std::slice::from_ref(&edge)).await?;
        super::super::ensure!(refused, "a write of {edge:?} is not seen, of {spans:?}");
        tried.inside += 1;
    }
    let sides = spans.iter().flat_map(|(begin, end)| [before(begin), Some(end.clone())]).flatten();
    let mut outside: Vec<SlotName> = sides.filter(|key| !covered(key) && writable(key)).collect();
    if spans.is_empty() {
        outside = ROWS.map(name).into_iter().chain([name("g"), name("i")]).collect();
    }
    pair.read(case).await?;
    let refused = pair.probe(&outside).await?;
    super::super::ensure!(!refused, "writes of {outside:?} are seen, of {spans:?}");
    tried.outside += outside.len();
    Ok(tried)
}

/// Runs a case. Repeats it if a transaction in it was too old after a time that allows this, since a busy machine may
/// stall for as long as a store remembers. A transaction that is too old at once is an error.
async fn case_run_in_time(engine: Arc<dyn Engine>, frame: &Frame, case: &Case) -> Result<EdgeCases, Wrong> {
    let clock = SystemClock::shared();
    for _ in 0..STANDSTILLS_MAX {
        let from = clock.monotonic();
        let run = case_run(Arc::clone(&engine), frame, case).await;
        if !matches!(run, Err(Wrong::Aged(_))) || clock.monotonic().saturating_sub(from) < STANDSTILL {
            return run;
        }
    }
    case_run(engine, frame, case).await
}

async fn cases_run(
    engine: &Arc<dyn Engine>,
    cases: Vec<Case>,
    prefix: Option<&str>,
) -> Result<EdgeCases, Wrong> {
    let abreast = if prefix.is_some() { ABREAST } else { 1 };
    let runs = cases.into_iter().enumerate().map(|(index, case)| {
        let engine = Arc::clone(engine);
        let frame =
            prefix.map_or_else(Frame::whole, |prefix| Frame::under(format!("{prefix}/{index}/").as_bytes()));
        async move {
            let run = case_run_in_time(engine, &frame, &case).await;
            run.map_err(|wrong| Wrong::Differs(format!("{:?} over {:?}: {wrong}", case.read, case.own)))
        }
    });
    let all: Vec<EdgeCases> = futures::stream::iter(runs).buffer_unordered(abreast).try_collect().await?;
    Ok(all.into_iter().fold(EdgeCases::default(), |sum, one| EdgeCases {
        inside: sum.inside + one.inside,
        outside: sum.outside + one.outside,
        open_ended: sum.open_ended + one.open_ended,
    }))
}

/// Runs every case on `engine`. With `whole` also those at the ends of the keyspace, which **clear the store**.
pub async fn run_edges(engine: &Arc<dyn Engine>, whole: bool) -> Result<(), CheckFailure> {
    let run = async {
        let count = cases().len();
        let tried = cases_run(engine, cases(), Some("conformance/edges")).await?;
        super::super::ensure!(tried.inside > count && tried.outside > count, "{count} cases tried {tried:?}");
        super::super::ensure!(tried.open_ended < count / 10, "{count} cases tried {tried:?}");
        if whole {
            cases_run(engine, cases_at_the_ends(), None).await?;
        }
        Ok::<_, Wrong>(())
    };
    run.await.map_err(|wrong| CheckFailure { check: "edges", seed: 0, detail: wrong.to_string() })
}
