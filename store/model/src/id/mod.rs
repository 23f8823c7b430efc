//! Names that people choose, and ids that the system gives.

use std::borrow::Borrow;
use std::fmt;

use compact_str::CompactString;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// A name that people choose for a cell, node, user, job or port: a DNS label, so that it can be part of a task's DNS
/// name.
///
/// 1 to 63 of `a-z`, `0-9` and `-`, starting with a letter and not ending with `-`.
///
/// Up to 24 characters it takes 24 bytes and nothing on the heap: rows contain several names each.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(CompactString);

impl<C> Encode<C> for Name {
    fn encode<W: minicbor::encode::Write>(
        &self,
        encoder: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.str(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Name {
    fn decode(decoder: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        decoder.str().map(|text| Self(CompactString::from(text)))
    }
}

/// Why a name is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Give a name.
    #[error("is empty; accepted: 1 to 63 of a-z, 0-9 and -, starting with a letter")]
    Empty,
    /// Choose a shorter one.
    #[error("has {length} characters; accepted: at most 63")]
    TooLong { length: usize },
    /// Leave that character out.
    #[error(
        "has {character:?} at position {position}; accepted: a-z, 0-9 and -, starting with a letter, not ending with -"
    )]
    Character {
        /// The first character that is not accepted.
        character: char,
        /// From 1, as an editor counts.
        position: usize,
    },
}

impl Name {
    /// Most characters of a name.
    pub const LENGTH_MAX: usize = 63;

    /// Checks a text and makes it a name.
    pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
        let text = text.into();
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        let length = text.chars().count();
        if length > Self::LENGTH_MAX {
            return Err(NameError::TooLong { length });
        }
        let last = length.saturating_sub(1);
        let fits = |position: usize, character: char| match character {
            'a'..='z' => true,
            '0'..='9' => position > 0,
            '-' => position > 0 && position < last,
            _ => false,
        };
        match text.chars().enumerate().find(|&(position, character)| !fits(position, character)) {
            Some((before, character)) => {
                Err(NameError::Character { character, position: before.saturating_add(1) })
            }
            None => Ok(Self(CompactString::from(text))),
        }
    }

    /// A valid name in place of the `number`-th that could not be read.
    pub(crate) fn stand_in(number: usize) -> Self {
        Self(CompactString::from(format!("unread-{number}")))
    }

    /// No name comes before this one: where a range of all names begins.
    pub fn first() -> Self {
        Self(CompactString::const_new("a"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A map by names can be searched from any text, such as the token of a page. Names compare as their texts do.
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::str::FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(text.clone()).map_err(|error| serde::de::Error::custom(format!("name {text:?} {error}")))
    }
}

macro_rules! numbered {
    ($($(#[$doc:meta])* $name:ident, $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize, Deserialize)]
        #[cbor(transparent)]
        #[serde(transparent)]
        pub struct $name(#[n(0)] pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{:016x}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

numbered! {
    /// A job, for ever: an id is never used again, even if the name is.
    JobId, "j";
    /// A node, for ever: a node that comes back keeps its id by its name.
    NodeId, "n";
    /// A gang: tasks that are placed all or nothing.
    GangId, "u";
    /// A merged service, for ever.
    MergedServiceId, "m";
    /// The membership of a cell in a federation, for ever.
    MemberId, "c";
    /// A federated job, for ever.
    FederatedJobId, "f";
}

/// One attempt of a task, from assignment to exit; the next attempt has the next number.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(transparent)]
#[serde(transparent)]
pub struct Incarnation(#[n(0)] pub u64);

impl Incarnation {
    /// The attempt after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A task: the `index`-th of a job.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize, Deserialize,
)]
pub struct TaskId {
    #[n(0)]
    pub job: JobId,
    /// The task's number within it, from 0.
    #[n(1)]
    pub index: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.job, self.index)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A caller's id of a request: repeating the request with it has one effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub u128);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<C> Encode<C> for RequestId {
    fn encode<W: minicbor::encode::Write>(
        &self,
        encoder: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.bytes(&self.0.to_be_bytes())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for RequestId {
    fn decode(decoder: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let bytes: [u8; 16] = decoder
            .bytes()?
            .try_into()
            .map_err(|_| minicbor::decode::Error::message("a request id has 16 bytes"))?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }
}
