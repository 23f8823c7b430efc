//! The filter of rules between tasks: affinity, anti-affinity, and the limits of a spread.

use std::ops::ControlFlow;

use borough_model::JobId;
use smallvec::SmallVec;

use super::{FilterReason, Requirement, refusals_fixed};
use crate::overlay::PlanOverlay;
use crate::tables::{CellTables, HardRule};

/// The hard rules of a job's tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub job: Option<JobId>,
    pub rules: SmallVec<[HardRule; 2]>,
}

impl Rules {
    /// The rules of a job. A cap in per cent follows the job's present count.
    pub(crate) fn of(job: Option<JobId>, tables: &CellTables) -> Self {
        let Some((id, entry)) = job.and_then(|job| Some((job, tables.jobs.get(&job)?))) else {
            return Self::default();
        };
        let cap = |position: u16| {
            let spread = entry.spec_current()?.spread.get(usize::from(position))?;
            spread.cap(entry.count())
        };
        let rule = |rule: HardRule| match rule {
            HardRule::Cap { term, position, .. } => {
                HardRule::Cap { term, position, most: cap(position).unwrap_or(u32::MAX) }
            }
            other => other,
        };
        Self { job: Some(id), rules: entry.terms.rules().map(rule).collect() }
    }
}

/// Returns true if a rule allows a domain. `value` is the node's domain under the rule's attribute.
fn held(overlay: &PlanOverlay<'_>, requirement: &Requirement, rule: HardRule, value: Option<u32>) -> bool {
    match (rule, value) {
        (HardRule::Near { term, own: true, .. }, Some(_)) if overlay.term_total(term) == 0 => true,
        (HardRule::Near { term, .. }, Some(value)) => overlay.term_count(term, value) > 0,
        (HardRule::Apart { term, .. } | HardRule::KeptApart { term }, Some(value)) => {
            overlay.term_count(term, value) == 0
        }
        // A node without the attribute is in no domain, so no task there keeps apart from the job.
        (HardRule::KeptApart { .. }, None) => true,
        (HardRule::Cap { term, most, .. }, Some(value)) => overlay.term_count(term, value) < most,
        (HardRule::Skew { term, most, .. }, Some(value)) => {
            let could =
                |node| refusals_fixed(overlay.nodes, requirement, node, ControlFlow::Break).is_continue();
            overlay.term_count(term, value) < overlay.term_least(term, could).saturating_add(most)
        }
        (
            HardRule::Near { .. } | HardRule::Apart { .. } | HardRule::Cap { .. } | HardRule::Skew { .. },
            None,
        ) => false,
    }
}

/// Returns true if a rule allows a node.
pub(crate) fn rule_held(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    rule: HardRule,
    node: u32,
) -> bool {
    let Some(term) = overlay.tables.terms.get(rule.term()) else { return true };
    held(overlay, requirement, rule, overlay.nodes.attribute(node, term.attribute))
}

/// Visits the rules that refuse a node, among those that `asked` chooses.
pub(super) fn refusals<B>(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    asked: impl Fn(HardRule) -> bool,
    visit: &mut impl FnMut(FilterReason) -> ControlFlow<B>,
) -> ControlFlow<B> {
    for (&rule, number) in requirement.rules.rules.iter().zip(0u16..) {
        if asked(rule) && !rule_held(overlay, requirement, rule, node) {
            visit(FilterReason::Rule(number))?;
        }
    }
    ControlFlow::Continue(())
}
