//! Chunks of sealed calls: what is hashed, and how a chain is checked.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::AuditRecord;

/// Most bytes of a chunk's text. One call may have more only if it is alone.
pub const AUDIT_BODY_BYTES_MAX: usize = 60_000;

/// A hash of the chain: SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct AuditHash(pub [u8; 32]);

impl AuditHash {
    /// A hash from its bytes; `None` unless there are 32.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// A hash from its text; `None` unless it is 64 hexadecimal digits.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut hash = Self::default();
        hex::decode_to_slice(text, &mut hash.0).ok().map(|()| hash)
    }
}

impl fmt::Display for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A chunk, and its place in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSeal {
    /// Its number, from 1.
    pub number: u64,
    /// The hash of the chunk before; of the first one: zeros.
    pub previous: AuditHash,
    /// SHA-256 of the line `NUMBER PREVIOUS`, the previous hash in hexadecimal, and of `body`.
    pub hash: AuditHash,
    /// One record per line, as JSON.
    pub body: String,
}

impl AuditSeal {
    fn of(number: u64, previous: AuditHash, body: String) -> Self {
        Self { number, previous, hash: hash_of(number, &previous, &body), body }
    }

    /// The records of the chunk. A line that is none is left out: the hash tells whether somebody has changed it.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = AuditRecord> {
        self.body.lines().filter_map(|line| serde_json::from_str(line).ok())
    }
}

fn hash_of(number: u64, previous: &AuditHash, body: &str) -> AuditHash {
    let mut hash = Sha256::new();
    hash.update(format!("{number} {previous}\n"));
    hash.update(body);
    AuditHash(hash.finalize().into())
}

/// Seals `records`, in their order, after the chunk `number` with the hash `previous`.
pub fn audit_chunks(records: &[AuditRecord], mut number: u64, mut previous: AuditHash) -> Vec<AuditSeal> {
    let mut chunks = Vec::new();
    let mut body = String::new();
    let mut lines = records.iter().filter_map(|record| serde_json::to_string(record).ok()).peekable();
    while let Some(line) = lines.next() {
        body.push_str(&line);
        body.push('\n');
        let next = lines.peek().map_or(usize::MAX, String::len);
        if body.len().saturating_add(next) >= AUDIT_BODY_BYTES_MAX {
            number = number.saturating_add(1);
            let chunk = AuditSeal::of(number, previous, std::mem::take(&mut body));
            previous = chunk.hash;
            chunks.push(chunk);
        }
    }
    chunks
}

/// Where a chain does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealBroken {
    /// A chunk is not what was sealed: somebody has changed it.
    #[error("chunk {number}: its content has the hash {found}, and was sealed with {sealed}")]
    Content { number: u64, found: AuditHash, sealed: AuditHash },
    /// A chunk does not follow the one before: somebody has removed or replaced one.
    #[error("chunk {number}: it follows a chunk with the hash {expected}, and the one before has {found}")]
    Link { number: u64, expected: AuditHash, found: AuditHash },
    /// A number is missing.
    #[error("chunk {number}: {expected} should come here")]
    Number { number: u64, expected: u64 },
}

/// Checks that a chunk is as it was sealed, and that it follows `before`, its number and its hash, if that is known.
///
/// # Errors
/// The first rule that does not hold.
pub fn seal_check(chunk: &AuditSeal, before: Option<(u64, AuditHash)>) -> Result<(), SealBroken> {
    let number = chunk.number;
    if let Some((last, hash)) = before {
        let expected = last.saturating_add(1);
        if number != expected {
            return Err(SealBroken::Number { number, expected });
        }
        if chunk.previous != hash {
            return Err(SealBroken::Link { number, expected: chunk.previous, found: hash });
        }
    }
    let found = hash_of(number, &chunk.previous, &chunk.body);
    if found != chunk.hash {
        return Err(SealBroken::Content { number, found, sealed: chunk.hash });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::audit::AuditedCall;

    fn record(object: String) -> AuditRecord {
        let call = AuditedCall {
            method: "JobService/StopJob".to_owned(),
            by: "user/ann".to_owned(),
            user: None,
            from: None,
            request: None,
            object: Some(object),
            revisions: None,
            refused: None,
            at_ms: None,
        };
        AuditRecord { at_ms: 1, call }
    }

    fn chain_check(chunks: &[AuditSeal]) -> Result<(), SealBroken> {
        let mut before = None;
        for chunk in chunks {
            seal_check(chunk, before)?;
            before = Some((chunk.number, chunk.hash));
        }
        Ok(())
    }

    /// Anybody can compute it: `printf '1 000…\nBODY' | sha256sum`.
    #[test]
    fn a_hash_is_that_of_the_line_before_and_the_text() {
        let chunks = audit_chunks(&[record("job/ann/web".to_owned())], 0, AuditHash::default());
        let [chunk] = chunks.as_slice() else { panic!("{chunks:?}") };
        assert_eq!(
            chunk.body,
            "{\"at_ms\":1,\"method\":\"JobService/StopJob\",\"by\":\"user/ann\",\"object\":\"job/ann/web\"}\n"
        );
        let text = format!("1 {}\n{}", "0".repeat(64), chunk.body);
        assert_eq!(chunk.hash.0, <[u8; 32]>::from(Sha256::digest(text)));
        assert_eq!(AuditHash::from_text(&chunk.hash.to_string()), Some(chunk.hash));
        assert_eq!(AuditHash::from_text("12"), None);
    }

    #[test]
    fn a_record_that_is_too_long_is_alone() {
        let records = ["a".to_owned(), "b".repeat(AUDIT_BODY_BYTES_MAX), "c".to_owned()].map(record);
        let chunks = audit_chunks(&records, 6, AuditHash::default());
        let numbers: Vec<u64> = chunks.iter().map(|chunk| chunk.number).collect();
        assert_eq!(numbers, [7, 8, 9]);
    }

    proptest! {
        /// Every record is sealed once, in its order, and a change of any byte, or a chunk that is gone, shows.
        #[test]
        fn a_chain_shows_every_change(
            sizes in prop::collection::vec(0_usize..30_000, 1..12),
            at in any::<prop::sample::Index>(),
            byte in any::<prop::sample::Index>(),
        ) {
            let records: Vec<AuditRecord> = sizes.iter().map(|size| record("x".repeat(*size))).collect();
            let chunks = audit_chunks(&records, 0, AuditHash::default());
            let sealed: Vec<AuditRecord> = chunks.iter().flat_map(AuditSeal::records).collect();
            prop_assert_eq!(&sealed, &records);
            prop_assert!(chunks.iter().all(|chunk| chunk.body.len() <= AUDIT_BODY_BYTES_MAX + 30_000));
            prop_assert_eq!(chain_check(&chunks), Ok(()));
            let mut changed = chunks.clone();
            let chunk = at.get(&chunks).number - 1;
            let body = &mut changed[usize::try_from(chunk).unwrap()].body;
            let byte = byte.index(body.len());
            let other = if body.as_bytes()[byte] == b'y' { "z" } else { "y" };
            body.replace_range(byte..=byte, other);
            prop_assert!(chain_check(&changed).is_err());
            let mut shorter = chunks.clone();
            if chunks.len() > 2 {
                shorter.remove(1);
                prop_assert!(chain_check(&shorter).is_err());
            }
        }
    }
}
