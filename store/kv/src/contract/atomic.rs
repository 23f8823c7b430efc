//! Atomic operations: applied at the commit version, to the value at that time.

/// An operation that changes a value without reading it. Codes are FoundationDB's.
///
/// Each adds a write conflict and no read conflict. Except where said, the result has the operand's length: the
/// existing value is extended with zeros or cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
pub enum AtomicOp {
    /// Little-endian addition modulo 2^(8·length). Missing: the operand.
    Add = 2,
    /// Bitwise and. Missing: the operand.
    BitAnd = 6,
    /// Bitwise or. Missing: the operand.
    BitOr = 7,
    /// Bitwise exclusive or. Missing: the operand.
    BitXor = 8,
    /// Concatenation if the result fits [`VALUE_BYTES_MAX`](super::limits::VALUE_BYTES_MAX), else no change.
    AppendIfFits = 9,
    /// Little-endian unsigned maximum. Missing: the operand.
    Max = 12,
    /// Little-endian unsigned minimum. Missing: the operand.
    Min = 13,
    /// The ten bytes of the key at the offset in its last four bytes (little-endian) become the stamp.
    SetVersionstampedKey = 14,
    /// The ten bytes of the value at the offset in its last four bytes (little-endian) become the stamp.
    SetVersionstampedValue = 15,
    /// Lexicographic minimum of the whole values. Missing: the operand.
    ByteMin = 16,
    /// Lexicographic maximum of the whole values. Missing: the operand.
    ByteMax = 17,
    /// Clears the key if its value equals the operand.
    CompareAndClear = 20,
}

impl AtomicOp {
    /// Every operation, in the order of codes.
    pub const ALL: [Self; 12] = [
        Self::Add,
        Self::BitAnd,
        Self::BitOr,
        Self::BitXor,
        Self::AppendIfFits,
        Self::Max,
        Self::Min,
        Self::SetVersionstampedKey,
        Self::SetVersionstampedValue,
        Self::ByteMin,
        Self::ByteMax,
        Self::CompareAndClear,
    ];

    /// FoundationDB's code of the operation.
    pub fn code(self) -> i32 {
        self as i32
    }
}
