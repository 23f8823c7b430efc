//! The sizes of the rows that a cell has in memory per node, per job or per task. `docs/mechanisms/memory.md` has what
//! follows from them.

use std::mem::size_of;

use borough_model::job::{JobRow, JobSpec};
use borough_model::node::{NodeAlloc, NodeLoad, NodeRow};
use borough_model::task::{PortAssignment, TaskRow};
use borough_model::{Name, Resources};

/// A row grows for every task of every cell. If this fails, box the new field where it is rare (`Option<Box<_>>` has
/// 8 bytes and the same encoding), or raise the bound and measure again with `borough-loadtest resident`.
#[test]
fn no_row_grows_unnoticed() {
    let sizes = [
        ("Name", size_of::<Name>(), 24),
        ("Resources", size_of::<Resources>(), 64),
        ("PortAssignment", size_of::<PortAssignment>(), 32),
        ("TaskRow", size_of::<TaskRow>(), 336),
        ("JobRow", size_of::<JobRow>(), 192),
        ("JobSpec", size_of::<JobSpec>(), 984),
        ("NodeRow", size_of::<NodeRow>(), 384),
        ("NodeAlloc", size_of::<NodeAlloc>(), 192),
        ("NodeLoad", size_of::<NodeLoad>(), 64),
    ];
    let grown: Vec<_> = sizes.into_iter().filter(|(_, size, most)| size > most).collect();
    assert!(grown.is_empty(), "(struct, its bytes, the bound): {grown:?}; all: {sizes:?}");
}
