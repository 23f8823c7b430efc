//! Why a plan left tasks without a node, as data. [`crate::explain`] puts it into words.

use std::sync::Arc;

use crate::census::NodeCensus;

/// Why tasks of a class got no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnplacedCause {
    /// What the nodes say, as the plan stood then.
    pub census: Arc<NodeCensus>,
    /// What their gang says.
    pub gang: Vec<GangCause>,
}

/// Why a gang does not stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GangCause {
    /// It needs so many members at once, and only so many found a node.
    Short { needed: u32, fitted: u32 },
    /// It needs so many members within a few domains, and none have room for them.
    DomainsShort(DomainsShort),
    /// Members of it are placed, and the domains that the others may join have no room.
    DomainsTaken,
    /// The cell could hold fewer members than it needs, were it empty.
    Never { needed: u32, most: u32 },
}

/// Domains that have too little room for a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DomainsShort {
    /// The attribute that names the domain.
    pub attribute: String,
    /// Over how many domains the members may stand.
    pub domains_max: u32,
    /// How many domains the cell has.
    pub domains: u32,
    pub needed: u32,
    /// The domains that have room for most of them.
    pub nearest: Vec<String>,
    /// For how many.
    pub fitted: u32,
}
