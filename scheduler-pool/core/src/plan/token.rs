//! What a placement depends on besides its node. Two workers that place at the same moment see neither the other's task:
//! each reads and writes a token per term and domain, so that the store lets only one of them commit.

use borough_model::job::{Constraint, ConstraintOperator};

use super::Work;
use crate::filter::Requirement;
use crate::seed::bytes_mixed;
use crate::snapshot::{NODE_NAME, Rule, TermKey};

/// A term in one domain, as it is named in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TermToken {
    /// The term: what is counted, by which attribute. The same on every machine.
    pub term: String,
    /// The domain: a value of the attribute; empty where all of the cell is meant.
    pub domain: String,
}

const SEED_OF_TERMS: u64 = 0x7465_726d;

/// A name for what a term counts, the same in every release. Those who keep apart and those they keep away share one.
fn term_name(key: &TermKey) -> String {
    let mut said = key.attribute().to_owned();
    match key {
        TermKey::Meant { selector, .. } | TermKey::Apart { selector, .. } => {
            for Constraint { attribute, operator, values, .. } in selector {
                said.push_str(&format!("\u{1}{attribute}\u{2}{}", operator_number(*operator)));
                values.iter().for_each(|value| said.push_str(&format!("\u{3}{value}")));
            }
        }
        TermKey::Own { job, .. } => said.push_str(&format!("\u{4}{}", job.0)),
    }
    format!("{:016x}", bytes_mixed(SEED_OF_TERMS, said.bytes()))
}

/// A number for an operator, the same in every release.
pub(crate) fn operator_number(operator: ConstraintOperator) -> u8 {
    match operator {
        ConstraintOperator::In => 0,
        ConstraintOperator::NotIn => 1,
        ConstraintOperator::Exists => 2,
        ConstraintOperator::Absent => 3,
        ConstraintOperator::GreaterThan => 4,
        ConstraintOperator::LessThan => 5,
    }
}

/// The tokens of a task that is about to be placed on a node. A domain of one node needs none: the node's own commitment
/// is its token. Nor does nearness to what stands already: what ends later would have ended after the placement too.
pub(super) fn tokens(work: &Work<'_>, requirement: &Requirement, node: u32) -> Vec<TermToken> {
    let token = |rule: &Rule| {
        let term = work.snapshot.terms.get(rule.term())?;
        let name = || term_name(&term.key);
        match *rule {
            Rule::Near { own: true, term, .. } if work.term_total(term) == 0 => {
                Some(TermToken { term: name(), domain: String::new() })
            }
            Rule::Near { .. } => None,
            Rule::Apart { .. } | Rule::Kept { .. } | Rule::Skew { .. } | Rule::Cap { .. } => {
                let value = work.nodes.attribute(node, term.attribute)?;
                let domain = work.nodes.texts.text(value)?.to_owned();
                (term.key.attribute() != NODE_NAME).then(|| TermToken { term: name(), domain })
            }
        }
    };
    let mut tokens: Vec<TermToken> = requirement.rules.rules.iter().filter_map(token).collect();
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}
