//! The instructions of a program, and the place of its keys.

use borough_kv::contract::{AtomicOp, ConflictKind, ErrorCode, Isolation, KeySelector, StreamingMode};
use std::fmt;

use borough_kv::contract::limits::METADATA_VERSION_KEY;
use borough_kv::database::key_after;

/// Transactions that a program has open at once.
pub(super) const SLOTS: usize = 3;

/// Bytes for failure messages: short ones as text, long ones cut.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SlotName(pub(super) Vec<u8>);

impl fmt::Debug for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.get(..40).unwrap_or(&self.0);
        write!(f, "\"{}\"", shown.escape_ascii())?;
        if self.0.len() > shown.len() { write!(f, "…{} bytes", self.0.len()) } else { Ok(()) }
    }
}

/// A selector over a program's own keys.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    pub(super) key: SlotName,
    pub(super) or_equal: bool,
    pub(super) offset: i32,
}

/// A range read over a program's own keys.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) begin: Selector,
    pub(super) end: Selector,
    pub(super) limit: usize,
    pub(super) mode: StreamingMode,
    pub(super) reverse: bool,
    pub(super) isolation: Isolation,
}

/// Options that change what a transaction sees or adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    OwnWritesDisable,
    SnapshotOwnWritesEnable,
    SnapshotOwnWritesDisable,
    NextWriteNoConflict,
    BypassUnreadable,
    CausalWriteRisky,
    FlushLater,
}

/// The read version that a transaction is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// That of the last commit but so many.
    CommitsBack(usize),
    /// One that is too old.
    Ancient,
    /// One that no database has.
    Illegal,
}

/// The effect of one instruction.
#[derive(Clone, Debug)]
pub(super) enum ProgramAction {
    Set(SlotName, SlotName),
    Clear(SlotName),
    ClearRange(SlotName, SlotName),
    Atomic(AtomicOp, SlotName, SlotName),
    /// A key that ends in the commit's stamp and a suffix.
    StampedKey(SlotName, SlotName, SlotName),
    /// A value with the commit's stamp between two texts.
    StampedValue(SlotName, SlotName, SlotName),
    /// Stamps the metadata version.
    Touch,
    Get(SlotName, Isolation),
    GetKey(Selector, Isolation),
    GetRange(Range),
    Conflict(ConflictKind, SlotName, SlotName),
    ReadVersion,
    SetReadVersion(At),
    Switch(Switch),
    Watch(SlotName),
    Stamp,
    Commit,
    /// Passes the error to the transaction, as a retry loop does.
    OnError(ErrorCode),
    Reset,
    Cancel,
}

/// One instruction: an action of one of the open transactions.
#[derive(Clone)]
pub(super) struct ProgramStep {
    pub(super) slot: usize,
    pub(super) action: ProgramAction,
}

impl fmt::Debug for ProgramStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.slot, self.action)
    }
}

/// The place of a program's keys. They are under a prefix of a shared store, between keys that never change. Or they
/// are alone in a store, where selectors reach the ends of the keyspace.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    prefix: Vec<u8>,
}

impl Frame {
    pub(super) fn whole() -> Self {
        Self { prefix: Vec::new() }
    }

    /// A part of a shared store.
    pub(super) fn under(prefix: &[u8]) -> Self {
        Self { prefix: prefix.to_vec() }
    }

    pub(super) fn key(&self, name: &SlotName) -> Vec<u8> {
        let middle: &[u8] = if self.prefix.is_empty() { b"" } else { b"m" };
        [self.prefix.as_slice(), middle, &name.0].concat()
    }

    /// The name of a key in a program; `None` if no program can name it.
    pub(super) fn name(&self, key: &[u8]) -> Option<SlotName> {
        let begin = self.key(&SlotName(Vec::new()));
        key.strip_prefix(begin.as_slice()).map(|name| SlotName(name.to_vec()))
    }

    pub(super) fn selector(&self, selector: &Selector) -> KeySelector {
        let Selector { key, or_equal, offset } = selector;
        KeySelector { key: self.key(key).into(), or_equal: *or_equal, offset: *offset }
    }

    /// Keys that never change around the program's, so that a selector with a small offset stays within the prefix.
    pub(super) fn fixed(&self) -> Vec<Vec<u8>> {
        if self.prefix.is_empty() {
            return Vec::new();
        }
        let sides = [b'b', b'y'].into_iter();
        let rests = sides.flat_map(|side| (b'0'..=b'9').map(move |digit| [side, digit]));
        rests.map(|rest| [self.prefix.as_slice(), &rest].concat()).collect()
    }

    /// The metadata version, or its substitute under a prefix.
    pub(super) fn metadata(&self) -> Vec<u8> {
        self.key(&SlotName(METADATA_VERSION_KEY.to_vec()))
    }

    /// All keys that a conflict may name.
    pub(super) fn named(&self) -> (Vec<u8>, Vec<u8>) {
        let (begin, end) = self.bounds();
        (begin, if self.prefix.is_empty() { key_after(METADATA_VERSION_KEY) } else { end })
    }

    /// All keys that a program may touch, as a range.
    pub(super) fn bounds(&self) -> (Vec<u8>, Vec<u8>) {
        if self.prefix.is_empty() {
            return (Vec::new(), vec![0xff]);
        }
        (self.prefix.clone(), [self.prefix.as_slice(), &[0xff; 12]].concat())
    }
}
