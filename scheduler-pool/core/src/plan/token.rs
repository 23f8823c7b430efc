//! Tokens: what a placement depends on besides its node. Two workers that place at the same moment do not see each
//! other's task. Each reads and writes a token per term and domain, so the store lets only one of them commit.

use std::collections::BTreeMap;

use borough_model::TaskId;
use borough_model::job::Constraint;

use crate::filter::Requirement;
use crate::overlay::PlanOverlay;
use crate::preempt::Evictions;
use crate::seed::bytes_mixed;
use crate::tables::{HardRule, NODE_NAME, TermId, TermKey, operator_number};

/// A term in one domain, as the store names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TermToken {
    /// A hash of the term: what is counted, by which attribute. The same on every machine.
    pub term: String,
    /// The domain: a value of the attribute. Empty if the token is about the whole cell.
    pub domain: String,
}

impl TermToken {
    /// The token of all reclaims. Two workers that reclaim at the same moment could both take what one queue has to
    /// give. That queue would then be below its guarantee and reclaim it again.
    pub(super) fn of_reclaim() -> Self {
        Self { term: "reclaim".to_owned(), domain: String::new() }
    }
}

const SEED_OF_TERMS: u64 = 0x7465_726d;

/// The name of what a term counts, the same in every release. The two directions of an anti-affinity share one.
fn term_name(key: &TermKey) -> String {
    let mut text = key.attribute().to_owned();
    match key {
        TermKey::Selected { selector, .. } | TermKey::Apart { selector, .. } => {
            for Constraint { attribute, operator, values, .. } in selector {
                text.push_str(&format!("\u{1}{attribute}\u{2}{}", operator_number(*operator)));
                values.iter().for_each(|value| text.push_str(&format!("\u{3}{value}")));
            }
        }
        TermKey::Wished { .. } => {}
        TermKey::Own { job, .. } => text.push_str(&format!("\u{4}{}", job.0)),
    }
    format!("{:016x}", bytes_mixed(SEED_OF_TERMS, text.bytes()))
}

/// The tokens of a task that is about to be placed on a node. A domain of one node needs none, because the node's own
/// commitment serves. Nearness to resident tasks needs none either: its [`dependencies`] do that.
pub(super) fn tokens(overlay: &PlanOverlay<'_>, requirement: &Requirement, node: u32) -> Vec<TermToken> {
    let token = |rule: &HardRule| {
        let term = overlay.tables.terms.get(rule.term())?;
        let name = || term_name(&term.key);
        match *rule {
            HardRule::Near { own: true, term, .. } if overlay.term_total(term) == 0 => {
                Some(TermToken { term: name(), domain: String::new() })
            }
            HardRule::Near { .. } => None,
            HardRule::Apart { .. }
            | HardRule::KeptApart { .. }
            | HardRule::Skew { .. }
            | HardRule::Cap { .. } => {
                let value = overlay.nodes.attribute(node, term.attribute)?;
                let domain = overlay.nodes.texts.text(value)?.to_owned();
                (term.key.attribute() != NODE_NAME).then(|| TermToken { term: name(), domain })
            }
        }
    };
    let mut tokens: Vec<TermToken> = requirement.rules.rules.iter().filter_map(token).collect();
    tokens.extend(port_token(overlay, requirement, node));
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}

/// The token of an address that several nodes share. The commitment of one node says nothing about the ports of the
/// others.
fn port_token(overlay: &PlanOverlay<'_>, requirement: &Requirement, node: u32) -> Option<TermToken> {
    let any = requirement.ports_dynamic > 0 || !requirement.ports_fixed.is_empty();
    let (space, _) = overlay.nodes.spaces.shared(node).filter(|_| any)?;
    Some(TermToken { term: "ports".to_owned(), domain: space.to_owned() })
}

/// The dependency of each term and domain that was asked for.
pub(super) type ReadDependencies = BTreeMap<(TermId, u32), Option<TaskId>>;

/// The tasks near which a task is about to be placed, one for each rule of nearness. Each must still be there at the
/// commit. Otherwise another worker that no longer sees it may have begun the group elsewhere, and the group would be
/// torn apart. Whatever ends such a task writes its row, so the code that ends tasks need not know about terms. If only
/// this plan has placed tasks there, none is needed, because all of them are committed together.
pub(super) fn dependencies(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    known: &mut ReadDependencies,
    evictions: &Evictions,
) -> Vec<TaskId> {
    let dependency = |rule: &HardRule| {
        let HardRule::Near { term: id, .. } = *rule else { return None };
        let term = overlay.tables.terms.get(id)?;
        let value = overlay.nodes.attribute(node, term.attribute)?;
        if term.count(value) == 0 {
            return None;
        }
        // A victim of this plan is no dependency.
        let stays = |task: &TaskId| !evictions.has(*task);
        let dependency = || overlay.tables.term_dependency(term, value, stays);
        let known = known.entry((id, value)).or_insert_with(dependency);
        if known.is_some_and(|task| !stays(&task)) {
            *known = dependency();
        }
        *known
    };
    let mut tasks: Vec<TaskId> = requirement.rules.rules.iter().filter_map(dependency).collect();
    tasks.sort_unstable();
    tasks.dedup();
    tasks
}
