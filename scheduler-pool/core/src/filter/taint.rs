//! Taints of nodes against what tasks tolerate.

use borough_model::job::{Toleration, taint_tolerated};
use smallvec::SmallVec;

use crate::tables::{NodeTable, Taints};

/// What a set of taints means to tasks.
#[derive(Clone, Debug, Default)]
struct TaintVerdict {
    /// Taints that keep them away.
    refusing: SmallVec<[u32; 2]>,
    /// How many taints would rather have them elsewhere.
    disliking: u16,
}

/// What the taints of nodes mean to tasks, worked out once per set of taints.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaintsMet {
    /// From set number 1 on.
    verdicts: Vec<TaintVerdict>,
}

impl TaintsMet {
    pub fn of(tolerations: &[Toleration], taints: &Taints) -> Self {
        let verdict = |set: &[u32]| {
            let mut verdict = TaintVerdict::default();
            for &number in set {
                let Some(taint) = taints.get(number) else { continue };
                if taint_tolerated(tolerations, taint) {
                    continue;
                }
                if taint.effect.refuses() {
                    verdict.refusing.push(number);
                } else {
                    verdict.disliking = verdict.disliking.saturating_add(1);
                }
            }
            verdict
        };
        Self { verdicts: taints.sets().map(verdict).collect() }
    }

    fn of_node(&self, nodes: &NodeTable, node: u32) -> Option<&TaintVerdict> {
        let set = nodes.taint_set(node).checked_sub(1)?;
        self.verdicts.get(set as usize)
    }

    /// The taints of a node that keep the tasks away.
    pub fn refusing(&self, nodes: &NodeTable, node: u32) -> &[u32] {
        self.of_node(nodes, node).map_or(&[], |verdict| &verdict.refusing)
    }

    /// How many taints of a node would rather have the tasks elsewhere.
    pub fn disliking(&self, nodes: &NodeTable, node: u32) -> u16 {
        self.of_node(nodes, node).map_or(0, |verdict| verdict.disliking)
    }
}
