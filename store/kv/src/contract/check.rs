//! Legality, decided from the arguments alone: every engine gives these answers, without delay.

use super::limits::{
    KEY_BYTES_MAX, METADATA_VERSION_KEY, METADATA_VERSION_OPERAND, TRANSACTION_BYTES_MAX, USER_KEYS_END,
    VALUE_BYTES_MAX,
};
use super::{AtomicOp, ConflictKind, ErrorCode, KvResult};

/// Refuses a key or value that may not be written: 2004, 2102, 2103, and 2000 for the metadata version.
pub fn write_check(key: &[u8], value: &[u8]) -> KvResult<()> {
    if key == METADATA_VERSION_KEY {
        return Err(ErrorCode::ClientInvalidOperation.into());
    }
    if key >= USER_KEYS_END {
        return Err(ErrorCode::KeyOutsideLegalRange.into());
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(ErrorCode::KeyTooLarge.into());
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(ErrorCode::ValueTooLarge.into());
    }
    Ok(())
}

/// Refuses to clear a key outside the user's range (2004). One that is too long cannot exist, and clearing it is legal.
pub fn clear_check(key: &[u8]) -> KvResult<()> {
    if key >= USER_KEYS_END { Err(ErrorCode::KeyOutsideLegalRange.into()) } else { Ok(()) }
}

/// Returns true if a transaction without access to system keys can read single keys like this one.
pub fn is_readable(key: &[u8]) -> bool {
    key < USER_KEYS_END || key == METADATA_VERSION_KEY
}

/// Refuses to watch a key that nobody can write: 2004, 2102.
pub fn watch_check(key: &[u8]) -> KvResult<()> {
    if key == METADATA_VERSION_KEY { Ok(()) } else { write_check(key, b"") }
}

/// Refuses a conflict range as [`range_check`] does, except a read of exactly the metadata version.
pub fn conflict_check(kind: ConflictKind, begin: &[u8], end: &[u8]) -> KvResult<()> {
    let metadata = begin == METADATA_VERSION_KEY && end.strip_suffix(&[0]) == Some(METADATA_VERSION_KEY);
    if metadata && kind == ConflictKind::Read { Ok(()) } else { range_check(begin, end) }
}

/// Refuses a range that ends before it begins (2005) or outside the user's keys (2004).
pub fn range_check(begin: &[u8], end: &[u8]) -> KvResult<()> {
    if begin > end {
        return Err(ErrorCode::InvertedRange.into());
    }
    if end > USER_KEYS_END {
        return Err(ErrorCode::KeyOutsideLegalRange.into());
    }
    Ok(())
}

/// Refuses an operation with illegal arguments: as [`write_check`], and 2000 for a stamp that does not fit its
/// template.
pub fn atomic_check(operation: AtomicOp, key: &[u8], operand: &[u8]) -> KvResult<()> {
    let touch = operation == AtomicOp::SetVersionstampedValue && operand == METADATA_VERSION_OPERAND;
    if touch && key == METADATA_VERSION_KEY {
        return Ok(());
    }
    write_check(key, operand)?;
    let template = match operation {
        AtomicOp::SetVersionstampedKey => key,
        AtomicOp::SetVersionstampedValue => operand,
        _ => return Ok(()),
    };
    stamp_offset(template).map(|_| ()).ok_or_else(|| ErrorCode::ClientInvalidOperation.into())
}

/// Refuses a transaction size limit outside 32 bytes to 10 MB: 2006.
pub fn size_limit_check(bytes: u64) -> KvResult<u64> {
    let most = u64::try_from(TRANSACTION_BYTES_MAX).unwrap_or(u64::MAX);
    if (32..=most).contains(&bytes) { Ok(bytes) } else { Err(ErrorCode::InvalidOptionValue.into()) }
}

/// The place of the stamp in `template`: the offset in its last four bytes (little-endian). `None` if ten bytes do not
/// fit there.
pub fn stamp_offset(template: &[u8]) -> Option<usize> {
    let (body, offset) = template.split_last_chunk::<4>()?;
    let offset = usize::try_from(i32::from_le_bytes(*offset)).ok()?;
    (offset.checked_add(10)? <= body.len()).then_some(offset)
}
