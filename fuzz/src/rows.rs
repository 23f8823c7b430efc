//! Stored rows. The first byte chooses the type.
//!
//! Property: no bytes make a decoder panic. What decodes, encodes to bytes that decode to the same row and encode to
//! themselves. The bytes themselves may differ, because a reader accepts fields that it does not know.

use std::fmt::Debug;

use borough_model::node::{NodeAlloc, NodeLoad};
use borough_model::{JobRow, JobSpec, NodeRow, TaskRow};
use minicbor::{Decode, Encode};

use crate::golden;

/// The samples of each type, in the order of its number.
const SAMPLES: [&str; 6] = ["task_row", "job_row", "node_row", "job_spec", "node_alloc", "node_load"];

/// One row of one type.
pub fn run(data: &[u8]) {
    let Some((&number, bytes)) = data.split_first() else { return };
    match usize::from(number) % SAMPLES.len() {
        0 => stable::<TaskRow>(bytes),
        1 => stable::<JobRow>(bytes),
        2 => stable::<NodeRow>(bytes),
        3 => stable::<JobSpec>(bytes),
        4 => stable::<NodeAlloc>(bytes),
        _ => stable::<NodeLoad>(bytes),
    }
}

/// Decodes bytes, and checks that the encoding of the value is stable.
pub(crate) fn stable<T>(bytes: &[u8])
where
    T: Encode<()> + for<'bytes> Decode<'bytes, ()> + PartialEq + Debug,
{
    let Ok(value) = minicbor::decode::<T>(bytes) else { return };
    let encoded = minicbor::to_vec(&value).ok();
    let again = encoded.as_deref().and_then(|bytes| minicbor::decode::<T>(bytes).ok());
    assert_eq!(again.as_ref(), Some(&value), "a row that its own encoding changes");
    assert_eq!(
        again.and_then(|again| minicbor::to_vec(&again).ok()),
        encoded,
        "an encoding that is not stable"
    );
}

/// Every pinned encoding of each type.
pub fn corpus() -> Vec<Vec<u8>> {
    let of_type = |(number, sample): (u8, &str)| {
        golden(sample).into_iter().map(move |bytes| [&[number], bytes.as_slice()].concat())
    };
    (0..).zip(SAMPLES).flat_map(of_type).collect()
}
