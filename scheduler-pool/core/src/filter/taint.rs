//! The taint filter: taints of nodes against tolerations of tasks.

use borough_model::job::{Toleration, taint_tolerated};
use smallvec::SmallVec;

use crate::tables::{NodeTable, Taints};

/// A set of taints, judged for the tasks of a class.
#[derive(Clone, Debug, Default)]
struct TaintVerdict {
    /// The taints that refuse the node.
    refusing: SmallVec<[u32; 2]>,
    /// The number of soft taints without a toleration (Kubernetes: `PreferNoSchedule`).
    disliking: u16,
}

/// The judgement of every set of taints, made once per class.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaintsMet {
    /// By set, from number 1.
    verdicts: Vec<TaintVerdict>,
}

impl TaintsMet {
    pub(crate) fn of(tolerations: &[Toleration], taints: &Taints) -> Self {
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

    /// The taints that refuse a node.
    pub(crate) fn refusing(&self, nodes: &NodeTable, node: u32) -> &[u32] {
        self.of_node(nodes, node).map_or(&[], |verdict| &verdict.refusing)
    }

    /// How many soft taints of a node the tasks do not tolerate.
    pub(crate) fn disliking(&self, nodes: &NodeTable, node: u32) -> u16 {
        self.of_node(nodes, node).map_or(0, |verdict| verdict.disliking)
    }
}
