//! Values: `[kind][format]` and CBOR. Decoding checks the kind, so it refuses a value under another kind's key.

use borough_kv::Versionstamp;
use minicbor::{Decode, Encode};

use super::KeyKind;
use crate::error::StoreError;

/// The only format: CBOR with numbered fields.
const FORMAT_CBOR: u8 = 1;

/// A value as bytes, and back. Implemented for everything that has a CBOR encoding, and for [`Counter`].
pub trait Value: Sized {
    /// The stored bytes of the value under a key of `kind`.
    fn to_stored(&self, kind: KeyKind) -> Result<Vec<u8>, StoreError>;

    /// The value of stored bytes; the error text says what is wrong with them.
    fn from_stored(kind: KeyKind, bytes: &[u8]) -> Result<Self, String>;
}

impl<T> Value for T
where
    T: Encode<()> + for<'bytes> Decode<'bytes, ()>,
{
    fn to_stored(&self, kind: KeyKind) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![kind.code(), FORMAT_CBOR];
        minicbor::encode(self, &mut bytes)
            .map_err(|error| StoreError::Unencodable { kind, detail: error.to_string() })?;
        Ok(bytes)
    }

    fn from_stored(kind: KeyKind, bytes: &[u8]) -> Result<Self, String> {
        let [tag, format, body @ ..] = bytes else {
            return Err(format!("{} bytes, too short for a value", bytes.len()));
        };
        if *tag != kind.code() {
            let found = KeyKind::from_code(*tag).map_or("no known kind", KeyKind::name);
            return Err(format!("a value of kind {tag} ({found})"));
        }
        if *format != FORMAT_CBOR {
            return Err(format!("format {format}, which this build does not know"));
        }
        let mut decoder = minicbor::Decoder::new(body);
        let value = decoder.decode().map_err(|error| error.to_string())?;
        match body.len().saturating_sub(decoder.position()) {
            0 => Ok(value),
            left => Err(format!("{left} bytes after the value")),
        }
    }
}

/// The stored bytes of `value` under a key of `kind`.
pub fn value_encode<V: Value>(kind: KeyKind, value: &V) -> Result<Vec<u8>, StoreError> {
    value.to_stored(kind)
}

/// The value of the bytes stored under `key`, a key of `kind`.
pub fn value_decode<V: Value>(kind: KeyKind, key: &[u8], bytes: &[u8]) -> Result<V, StoreError> {
    V::from_stored(kind, bytes).map_err(|found| StoreError::DamagedValue { kind, key: key.to_vec(), found })
}

/// A number changed by atomic addition: eight bytes, little-endian, two's complement. It has no header, since the
/// addition covers the whole value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Counter(pub i64);

impl Value for Counter {
    fn to_stored(&self, _: KeyKind) -> Result<Vec<u8>, StoreError> {
        Ok(self.0.to_le_bytes().to_vec())
    }

    fn from_stored(_: KeyKind, bytes: &[u8]) -> Result<Self, String> {
        let bytes: [u8; 8] =
            bytes.try_into().map_err(|_| format!("{} bytes where a counter has 8", bytes.len()))?;
        Ok(Self(i64::from_le_bytes(bytes)))
    }
}

/// A value that is the stamp of the commit that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct StampValue(pub Versionstamp);

impl StampValue {
    /// Where the ten bytes of the stamp begin in the stored value: after the kind, the format and the CBOR header.
    pub(super) const STAMP_AT: usize = 3;
}

impl<C> Encode<C> for StampValue {
    fn encode<W: minicbor::encode::Write>(
        &self,
        encoder: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.bytes(&self.0.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for StampValue {
    fn decode(decoder: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let bytes = decoder.bytes()?;
        Versionstamp::from_slice(bytes)
            .map(Self)
            .ok_or_else(|| minicbor::decode::Error::message("a stamp has 10 bytes"))
    }
}
