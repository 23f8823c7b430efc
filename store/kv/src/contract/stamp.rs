//! Versions and versionstamps: the two visible forms of the order of commits.

use std::fmt;

/// A database version. It advances about 1,000,000 per second even when idle, and is never dense.
pub type Version = i64;

/// Ten bytes that order every commit: eight of commit version and two of batch index, both big-endian.
///
/// Order of stamps is order of visibility: a reader that sees a stamp sees every smaller one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Versionstamp(pub [u8; 10]);

impl Versionstamp {
    /// Smaller than every stamp a commit is ever given.
    pub const ZERO: Self = Self([0; 10]);
    /// Greater than every stamp a commit is ever given.
    pub const MAX: Self = Self([0xff; 10]);
    /// The placeholder in a key or value until the commit replaces it.
    pub const INCOMPLETE: [u8; 10] = [0xff; 10];

    /// The stamp of the transaction at `batch_index` within the commit of `version`.
    pub fn new(version: Version, batch_index: u16) -> Self {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&version.to_be_bytes());
        bytes[8..].copy_from_slice(&batch_index.to_be_bytes());
        Self(bytes)
    }

    /// The commit version this stamp belongs to.
    pub fn version(self) -> Version {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[..8]);
        Version::from_be_bytes(bytes)
    }

    /// The place of the transaction within its commit batch.
    pub fn batch_index(self) -> u16 {
        u16::from_be_bytes([self.0[8], self.0[9]])
    }

    /// A stamp from exactly ten bytes, or `None`.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Versionstamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Versionstamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Versionstamp({self})")
    }
}

/// A text that is not a versionstamp of twenty hexadecimal digits.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a versionstamp is 20 hexadecimal digits, this is {0:?}")]
pub struct ParseVersionstampError(String);

impl std::str::FromStr for Versionstamp {
    type Err = ParseVersionstampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 10];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| ParseVersionstampError(text.to_owned()))?;
        Ok(Self(bytes))
    }
}
