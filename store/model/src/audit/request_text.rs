//! A request id as text, as everywhere else: JSON has no integers of 128 bits.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

use crate::id::RequestId;

pub(super) fn serialize<S: Serializer>(id: &Option<RequestId>, serializer: S) -> Result<S::Ok, S::Error> {
    match id {
        Some(id) => serializer.collect_str(id),
        None => serializer.serialize_none(),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RequestId>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let number = u128::from_str_radix(&text, 16).map_err(D::Error::custom)?;
    Ok(Some(RequestId(number)))
}
