//! A position in the journal as clients see it: the epoch of the store, and the stamp within it.

use std::fmt;
use std::str::FromStr;

use borough_kv::Versionstamp;
use minicbor::{Decode, Encode};

/// A position: the reader has seen everything up to and including the entry at `stamp`.
///
/// Its text is `<store epoch>-<20 hexadecimal digits>`. Stamps of different epochs have no order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cursor {
    pub store_epoch: u64,
    /// The stamp within it.
    pub stamp: Versionstamp,
}

impl Cursor {
    /// Before every entry of `store_epoch`.
    pub fn start(store_epoch: u64) -> Self {
        Self { store_epoch, stamp: Versionstamp::ZERO }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.store_epoch, self.stamp)
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cursor({self})")
    }
}

/// A text that is not a cursor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cursor is <store epoch>-<20 hexadecimal digits>, this is {0:?}")]
pub struct CursorParseError(String);

impl FromStr for Cursor {
    type Err = CursorParseError;

    fn from_str(text: &str) -> Result<Self, CursorParseError> {
        let parse = || {
            let (epoch, stamp) = text.split_once('-')?;
            if !epoch.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            Some(Self { store_epoch: epoch.parse().ok()?, stamp: stamp.parse().ok()? })
        };
        parse().ok_or_else(|| CursorParseError(text.to_owned()))
    }
}

impl<C> Encode<C> for Cursor {
    fn encode<W: minicbor::encode::Write>(
        &self,
        encoder: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.array(2)?.u64(self.store_epoch)?.bytes(&self.stamp.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Cursor {
    fn decode(decoder: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        if decoder.array()? != Some(2) {
            return Err(minicbor::decode::Error::message("a cursor has two elements"));
        }
        let store_epoch = decoder.u64()?;
        let stamp = Versionstamp::from_slice(decoder.bytes()?)
            .ok_or_else(|| minicbor::decode::Error::message("a stamp has 10 bytes"))?;
        Ok(Self { store_epoch, stamp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_and_bytes_round_trip(store_epoch: u64, stamp: [u8; 10]) {
            let cursor = Cursor { store_epoch, stamp: Versionstamp(stamp) };
            prop_assert_eq!(cursor.to_string().parse::<Cursor>(), Ok(cursor));
            let bytes = minicbor::to_vec(cursor).unwrap();
            prop_assert_eq!(minicbor::decode::<Cursor>(&bytes).unwrap(), cursor);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "1", "-", "1-", "1-00", "+1-00000000000000000000", "x-00000000000000000000"] {
            assert!(text.parse::<Cursor>().is_err(), "{text:?}");
        }
    }
}
