//! Programs to which two engines, or an engine and the model, once gave different answers, each with a name.

use super::step::{At, ProgramAction, ProgramStep, Range, Selector, SlotName, Switch};
use borough_kv::contract::{AtomicOp, ConflictKind, ErrorCode, Isolation, StreamingMode};

fn name(text: &str) -> SlotName {
    SlotName(text.as_bytes().to_vec())
}

fn set(key: &str) -> ProgramAction {
    ProgramAction::Set(name(key), name("1"))
}

fn get(key: &str) -> ProgramAction {
    ProgramAction::Get(name(key), Isolation::Serializable)
}

/// Removes `key`, if it contains what [`set`] sets.
fn empty(key: &str) -> ProgramAction {
    ProgramAction::Atomic(AtomicOp::CompareAndClear, name(key), name("1"))
}

fn selector(key: &str, or_equal: bool, offset: i32) -> Selector {
    Selector { key: name(key), or_equal, offset }
}

fn range(begin: Selector, end: Selector) -> ProgramAction {
    let mode = StreamingMode::Exact;
    ProgramAction::GetRange(Range {
        begin,
        end,
        limit: 100,
        mode,
        reverse: false,
        isolation: Isolation::Serializable,
    })
}

fn rows(begin: &str, end: &str) -> ProgramAction {
    range(selector(begin, false, 1), selector(end, false, 1))
}

fn stamped(key: &str) -> ProgramAction {
    ProgramAction::StampedKey(name(key), name(""), name("1"))
}

fn long() -> SlotName {
    SlotName(vec![b'a'; 10_005])
}

/// Another transaction, which commits `write` in the middle.
fn meanwhile(write: ProgramAction) -> Vec<(usize, ProgramAction)> {
    vec![(2, write), (2, ProgramAction::Commit), (2, ProgramAction::Reset)]
}

/// Steps of transaction 0.
fn steps<const N: usize>(actions: [ProgramAction; N]) -> Vec<(usize, ProgramAction)> {
    actions.into_iter().map(|action| (0, action)).collect()
}

/// Rows a, b and c, and a transaction of its own.
fn abc() -> Vec<(usize, ProgramAction)> {
    [set("a"), set("b"), set("c"), ProgramAction::Commit, ProgramAction::Reset]
        .into_iter()
        .map(|action| (0, action))
        .collect()
}

type Parts = Vec<Vec<(usize, ProgramAction)>>;

/// Which operations take a read version.
fn versions() -> Vec<(&'static str, Parts)> {
    let fixed_by = |read: Vec<ProgramAction>| {
        let read = read.into_iter().map(|action| (0, action)).collect();
        vec![read, meanwhile(set("b")), steps([get("b"), set("a"), ProgramAction::Commit])]
    };
    vec![
        ("own writes answer without a version", fixed_by(vec![set("a"), get("a")])),
        ("an inverted range takes no version", fixed_by(vec![rows("b", "a")])),
        (
            "a key too long takes no version",
            fixed_by(vec![ProgramAction::Get(long(), Isolation::Serializable)]),
        ),
        ("a range of own writes takes no version", {
            let clear = ProgramAction::ClearRange(name("a"), name("b"));
            fixed_by(vec![clear, set("aa"), rows("a", "b")])
        }),
        ("a refused read counts against a read version", {
            let too_far = ProgramAction::Get(SlotName(vec![0xff, 0xff]), Isolation::Serializable);
            vec![steps([too_far, ProgramAction::SetReadVersion(At::CommitsBack(0))])]
        }),
    ]
}

/// Keys that own operations have emptied, and selectors that leave the keys.
fn selectors() -> Vec<(&'static str, Parts)> {
    let key = |key, or_equal, offset| {
        ProgramAction::GetKey(selector(key, or_equal, offset), Isolation::Serializable)
    };
    vec![
        ("selectors step over emptied keys", {
            let looks = steps([
                empty("b"),
                key("a", true, 1),
                key("a", true, 2),
                key("c", false, 0),
                key("c", false, -1),
            ]);
            vec![abc(), looks]
        }),
        ("an emptied key cuts a range", {
            let last_before = || selector("c", false, 0);
            let cut = range(selector("a", false, 1), last_before());
            vec![abc(), steps([empty("b"), cut, range(last_before(), selector("d", false, 1))])]
        }),
        ("a crossed range depends on its own keys", {
            let crossed = range(selector("", false, 9), selector("", true, 1));
            vec![abc(), steps([crossed, set("x")]), meanwhile(set("q")), steps([ProgramAction::Commit])]
        }),
    ]
}

/// Which ranges a refusal names.
fn names() -> Vec<(&'static str, Parts)> {
    let refused = |reads: Vec<ProgramAction>, written: &str| {
        let reads = reads.into_iter().map(|read| (0, read)).collect();
        vec![reads, meanwhile(set(written)), steps([set("x"), ProgramAction::Commit])]
    };
    let off = || ProgramAction::Switch(Switch::OwnWritesDisable);
    let conflict = |begin, end| ProgramAction::Conflict(ConflictKind::Read, name(begin), name(end));
    vec![
        ("reads that touch are named as one", {
            refused(vec![get("b"), conflict("b\0", "d"), get("d"), get("d\0"), get("e")], "c")
        }),
        ("every read that was written is named, in order", {
            let mut parts = refused(vec![get("m"), conflict("c", "d"), get("a"), get("k")], "m");
            parts.insert(2, meanwhile(ProgramAction::ClearRange(name("a"), name("cc"))));
            parts
        }),
        ("without own writes each read is named for itself", {
            refused(vec![off(), get("b"), conflict("b\0", "d"), conflict("c", "e"), conflict("e", "f")], "c")
        }),
    ]
}

/// Watches and stamps of a commit that fails or never comes.
fn attempts() -> Vec<(&'static str, Parts)> {
    let conflict = || {
        let read = steps([get("a"), ProgramAction::Stamp, ProgramAction::Watch(name("b")), set("c")]);
        vec![read, meanwhile(set("a")), steps([ProgramAction::Commit, ProgramAction::Reset])]
    };
    let given_up = |end: ProgramAction| {
        vec![steps([ProgramAction::Watch(name("a")), ProgramAction::Stamp, get("b"), end])]
    };
    vec![
        ("what writes nothing is never refused", {
            vec![steps([get("a"), rows("a", "z")]), meanwhile(set("a")), steps([ProgramAction::Commit])]
        }),
        ("writes alone are never refused", {
            vec![
                steps([ProgramAction::ReadVersion, set("a")]),
                meanwhile(set("a")),
                steps([ProgramAction::Commit]),
            ]
        }),
        ("the stamp of a refused commit has no version", conflict()),
        ("a reset cancels watches and stamps", given_up(ProgramAction::Reset)),
        ("a cancel cancels watches and stamps", given_up(ProgramAction::Cancel)),
        ("an error cancels watches and stamps", given_up(ProgramAction::OnError(ErrorCode::NotCommitted))),
        (
            "a final error cancels watches and stamps",
            given_up(ProgramAction::OnError(ErrorCode::TransactionTimedOut)),
        ),
        ("a final error answers everything", {
            let gone = ProgramAction::OnError(ErrorCode::ClientInvalidOperation);
            vec![steps([
                gone,
                set("a"),
                get("a"),
                ProgramAction::Commit,
                ProgramAction::Reset,
                set("a"),
                ProgramAction::Commit,
            ])]
        }),
        ("the watch of an attempt given up stays ended", {
            let add = ProgramAction::Atomic(AtomicOp::BitAnd, name("k"), name("1"));
            let again = ProgramAction::OnError(ErrorCode::NotCommitted);
            vec![steps([
                add,
                ProgramAction::Watch(name("k")),
                again,
                set("x"),
                ProgramAction::Commit,
                ProgramAction::Reset,
            ])]
        }),
        ("a failed read fails the commit", {
            vec![steps([stamped("q"), rows("a", "z"), set("a"), ProgramAction::Commit])]
        }),
        ("a failed read fails a commit that writes nothing", {
            vec![steps([ProgramAction::SetReadVersion(At::Ancient), get("a"), ProgramAction::Commit])]
        }),
    ]
}

/// Options and the limits of keys.
fn refusals() -> Vec<(&'static str, Parts)> {
    let off = || ProgramAction::Switch(Switch::OwnWritesDisable);
    let outside = || ProgramAction::Set(SlotName(vec![0xff, 0xff]), name("1"));
    vec![
        (
            "own writes stay on after a read",
            vec![steps([get("a"), off(), get("a"), ProgramAction::Reset, get("a")])],
        ),
        ("own writes stay on after a write conflict", {
            let conflict = ProgramAction::Conflict(ConflictKind::Write, name("a"), name("b"));
            vec![steps([conflict, off(), ProgramAction::Commit])]
        }),
        ("own writes stay on after a read conflict", {
            let conflict = ProgramAction::Conflict(ConflictKind::Read, name("a"), name("b"));
            vec![steps([conflict, off(), ProgramAction::Commit])]
        }),
        ("a refused write leaves the option for the next", {
            let hidden = steps([ProgramAction::Switch(Switch::NextWriteNoConflict), outside(), set("a")]);
            let reader = vec![(1, get("a")), (1, set("b"))];
            vec![reader, hidden, steps([ProgramAction::Commit]), vec![(1, ProgramAction::Commit)]]
        }),
        (
            "clearing a key too long writes nothing",
            vec![steps([ProgramAction::Clear(long()), ProgramAction::Commit])],
        ),
        (
            "a key too long cannot be watched",
            vec![steps([ProgramAction::Watch(long()), ProgramAction::Commit])],
        ),
        ("a version may be old for what own writes answer", {
            vec![steps([
                ProgramAction::SetReadVersion(At::Ancient),
                set("a"),
                get("a"),
                ProgramAction::Commit,
            ])]
        }),
    ]
}

pub(super) fn programs() -> Vec<(&'static str, Vec<ProgramStep>)> {
    let all = [versions(), selectors(), names(), attempts(), refusals()].into_iter().flatten();
    let whole = |parts: Parts| {
        parts.into_iter().flatten().map(|(slot, action)| ProgramStep { slot, action }).collect()
    };
    all.map(|(name, parts)| (name, whole(parts))).collect()
}
