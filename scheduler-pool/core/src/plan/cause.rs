//! Why a plan left tasks without a node, as data. [`crate::explain`] turns it into text.

use std::sync::Arc;

use crate::census::NodeCensus;

/// Why tasks of a class got no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnplacedCause {
    /// The census of the nodes, as the plan had left them.
    pub census: Arc<NodeCensus>,
    /// The causes that lie in their gang.
    pub gang: Vec<GangCause>,
}

/// Why a gang was not placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GangCause {
    /// It needs `needed` members at once, and only `fitted` found a node.
    Short { needed: u32, fitted: u32 },
    /// No set of domains has enough capacity for the members that it needs.
    DomainsShort(DomainsShort),
    /// Members of it are placed, and the domains that the others may join are full.
    DomainsTaken,
    /// The empty cell could hold only `most` of the needed members, or those of its domains that the gang may use.
    Never { needed: u32, most: u32, within: bool },
}

/// Domains with too little free capacity for a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DomainsShort {
    /// The attribute that names the domain.
    pub attribute: String,
    /// The most domains that the members may use.
    pub domains_max: u32,
    /// The number of domains in the cell.
    pub domains: u32,
    pub needed: u32,
    /// The domains that could take most members.
    pub nearest: Vec<String>,
    /// How many members those domains could take.
    pub fitted: u32,
}
