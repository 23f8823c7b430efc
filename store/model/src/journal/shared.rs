//! Shared rows in deltas, stored as the rows themselves. Every reader of a process then keeps one copy.

use std::sync::Arc;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

pub(super) fn encode<C, T: Encode<C>, W: Write>(
    value: &Arc<T>,
    encoder: &mut Encoder<W>,
    context: &mut C,
) -> Result<(), EncodeError<W::Error>> {
    value.as_ref().encode(encoder, context)
}

pub(super) fn decode<'b, C, T: Decode<'b, C>>(
    decoder: &mut Decoder<'b>,
    context: &mut C,
) -> Result<Arc<T>, DecodeError> {
    T::decode(decoder, context).map(Arc::new)
}
