//! Random programs that shrink: proptest removes and simplifies instructions while a program still fails.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::BoxedStrategy;

use super::step::{At, ProgramAction, ProgramStep, Range, SLOTS, Selector, SlotName, Switch};
use borough_kv::contract::limits::METADATA_VERSION_KEY;
use borough_kv::contract::{AtomicOp, ConflictKind, ErrorCode, Isolation, StreamingMode};
use borough_kv::database::key_after;

/// Letters of keys. Stamps use `q`.
const LETTERS: [u8; 5] = [b'a', b'b', b'q', 0, 0xfe];
/// A limit that no program reaches.
const ALL_ROWS: usize = 1000;
/// Instructions of one program, at most.
const STEPS_MAX: usize = 45;

/// A key of the program. Rarely, its value may be waiting for its stamp.
fn key() -> BoxedStrategy<SlotName> {
    prop_oneof![40 => counter(), 2 => stamped(), 1 => Just(metadata())].boxed()
}

/// The metadata version, in a store that the program has for itself.
fn metadata() -> SlotName {
    SlotName(METADATA_VERSION_KEY.to_vec())
}

/// A key whose value may be a stamp. No operation computes with it, since its result is unpredictable.
fn stamped() -> BoxedStrategy<SlotName> {
    let tagged = |mut letters: Vec<u8>| {
        letters.push(b'v');
        SlotName(letters)
    };
    vec(select(&LETTERS[..]), 0..=1).prop_map(tagged).boxed()
}

/// A key that operations compute with: few letters, so that keys collide; rarely an illegal one.
fn counter() -> BoxedStrategy<SlotName> {
    let short = vec(select(&LETTERS[..]), 0..=3).prop_map(SlotName);
    let outside = select(vec![vec![0xff_u8], vec![0xff, 1]]).prop_map(SlotName);
    let long = Just(SlotName([b'a'; 10_005].to_vec()));
    prop_oneof![120 => short, 4 => outside, 1 => long].boxed()
}

/// A value that the model can compute with.
fn operand() -> BoxedStrategy<SlotName> {
    vec(select(&[0_u8, 1, 7, 0x80, 0xff][..]), 0..=9).prop_map(SlotName).boxed()
}

fn value() -> BoxedStrategy<SlotName> {
    prop_oneof![
        20 => operand(),
        1 => (90_usize..300).prop_map(|length| SlotName(vec![b'v'; length])),
    ]
    .boxed()
}

/// A range, usually with its begin before its end.
fn bounds() -> BoxedStrategy<(SlotName, SlotName)> {
    let sorted = |(one, other): (SlotName, SlotName)| if one <= other { (one, other) } else { (other, one) };
    let one = |name: SlotName| (name.clone(), SlotName(key_after(&name.0)));
    prop_oneof![
        24 => (key(), key()).prop_map(sorted),
        2 => (key(), key()),
        1 => Just(metadata()).prop_map(one),
    ]
    .boxed()
}

fn selector() -> BoxedStrategy<Selector> {
    let offset = prop_oneof![4 => Just(1), 6 => -3..=4_i32];
    (key(), any::<bool>(), offset)
        .prop_map(|(key, or_equal, offset)| Selector { key, or_equal, offset })
        .boxed()
}

fn range() -> BoxedStrategy<Range> {
    let plain = || key().prop_map(|key| Selector { key, or_equal: false, offset: 1 });
    let ends = prop_oneof![(plain(), plain()), (selector(), selector())];
    let limit = prop_oneof![1 => Just(0), 1 => 1..=4_usize];
    let mode = prop_oneof![
        60 => Just(StreamingMode::Exact),
        1 => Just(StreamingMode::WantAll),
        1 => Just(StreamingMode::Iterator),
        1 => Just(StreamingMode::Small),
        1 => Just(StreamingMode::Serial),
    ];
    (ends, limit, mode, any::<bool>(), isolation())
        .prop_map(|((begin, end), limit, mode, reverse, isolation)| {
            // An exact read needs a limit. Another check covers the refusal without one.
            let limit = if mode == StreamingMode::Exact && limit == 0 { ALL_ROWS } else { limit };
            Range { begin, end, limit, mode, reverse, isolation }
        })
        .boxed()
}

/// True once in `times`.
fn weighted(times: u32) -> BoxedStrategy<bool> {
    prop_oneof![times.saturating_sub(1) => Just(false), 1 => Just(true)].boxed()
}

/// Every third read is a snapshot read.
fn isolation() -> BoxedStrategy<Isolation> {
    let of = |snapshot| if snapshot { Isolation::Snapshot } else { Isolation::Serializable };
    weighted(3).prop_map(of).boxed()
}

fn write() -> BoxedStrategy<ProgramAction> {
    let operation = select(&AtomicOp::ALL[..]).prop_filter("stamps have actions of their own", |operation| {
        !matches!(operation, AtomicOp::SetVersionstampedKey | AtomicOp::SetVersionstampedValue)
    });
    let compare = (counter(), operand())
        .prop_map(|(key, value)| ProgramAction::Atomic(AtomicOp::CompareAndClear, key, value));
    let text = || vec(select(&b"xyz"[..]), 0..=2).prop_map(SlotName);
    let stamped_key = |(mut key, suffix, value): (SlotName, SlotName, SlotName)| {
        key.0.push(b'q');
        ProgramAction::StampedKey(key, suffix, value)
    };
    prop_oneof![
        8 => (key(), value()).prop_map(|(key, value)| ProgramAction::Set(key, value)),
        3 => key().prop_map(ProgramAction::Clear),
        3 => bounds().prop_map(|(begin, end)| ProgramAction::ClearRange(begin, end)),
        8 => (operation, counter(), operand()).prop_map(|(operation, key, operand)| ProgramAction::Atomic(operation, key, operand)),
        2 => compare,
        1 => (key(), text(), value()).prop_map(stamped_key),
        1 => (stamped(), text(), text()).prop_map(|(key, before, after)| ProgramAction::StampedValue(key, before, after)),
        1 => bounds().prop_map(|(begin, end)| ProgramAction::Conflict(ConflictKind::Write, begin, end)),
        1 => Just(ProgramAction::Touch),
    ]
    .boxed()
}

fn read() -> BoxedStrategy<ProgramAction> {
    prop_oneof![
        4 => (key(), isolation()).prop_map(|(key, isolation)| ProgramAction::Get(key, isolation)),
        1 => isolation().prop_map(|isolation| ProgramAction::Get(metadata(), isolation)),
        4 => (selector(), isolation()).prop_map(|(selector, isolation)| ProgramAction::GetKey(selector, isolation)),
        9 => range().prop_map(ProgramAction::GetRange),
        1 => bounds().prop_map(|(begin, end)| ProgramAction::Conflict(ConflictKind::Read, begin, end)),
        2 => Just(ProgramAction::ReadVersion),
    ]
    .boxed()
}

fn control() -> BoxedStrategy<ProgramAction> {
    let at = prop_oneof![
        6 => (0..3_usize).prop_map(At::CommitsBack),
        1 => Just(At::Ancient),
        1 => Just(At::Illegal),
    ];
    let switches = [
        Switch::SnapshotOwnWritesDisable,
        Switch::SnapshotOwnWritesEnable,
        Switch::NextWriteNoConflict,
        Switch::BypassUnreadable,
        Switch::CausalWriteRisky,
        Switch::FlushLater,
        Switch::OwnWritesDisable,
    ];
    let errors = [
        ErrorCode::NotCommitted,
        ErrorCode::CommitUnknownResult,
        ErrorCode::FutureVersion,
        ErrorCode::ClientInvalidOperation,
        ErrorCode::TransactionTimedOut,
    ];
    prop_oneof![
        3 => at.prop_map(ProgramAction::SetReadVersion),
        4 => select(switches.to_vec()).prop_map(ProgramAction::Switch),
        2 => key().prop_map(ProgramAction::Watch),
        1 => Just(ProgramAction::Stamp),
        2 => select(errors.to_vec()).prop_map(ProgramAction::OnError),
        4 => Just(ProgramAction::Reset),
        1 => Just(ProgramAction::Cancel),
    ]
    .boxed()
}

pub(super) fn program() -> BoxedStrategy<Vec<ProgramStep>> {
    let action = prop_oneof![
        12 => write(),
        12 => read(),
        3 => control(),
        3 => Just(ProgramAction::Commit),
    ];
    // A commit is usually followed by the next transaction in the same slot.
    let step = (0..SLOTS, action, weighted(6)).prop_map(|(slot, action, alone)| {
        let again = matches!(action, ProgramAction::Commit) && !alone;
        let first = ProgramStep { slot, action };
        if again { vec![first, ProgramStep { slot, action: ProgramAction::Reset }] } else { vec![first] }
    });
    vec(step, 1..STEPS_MAX).prop_map(|steps| steps.into_iter().flatten().collect()).boxed()
}
