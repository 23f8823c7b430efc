//! Explains tasks that are placed on nodes whose agents do not answer.

use std::time::Duration;

use borough_model::node::{NodeRow, NodeState, silent_since_ms};
use borough_proto::v1;

/// Tasks of a job on one silent node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SilentTasks {
    pub(super) node: String,
    pub(super) since_ms: i64,
    pub(super) indexes: Vec<u32>,
}

/// Tasks of a job on one node that is not connected, and that the cell does not count as silent yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnconnectedTasks {
    pub(super) node: String,
    pub(super) indexes: Vec<u32>,
}

/// The explanation of the tasks on a node that is not connected.
pub(super) fn away_explanation(UnconnectedTasks { node, indexes }: UnconnectedTasks) -> v1::Explanation {
    let summary = format!("placed on {node}, which is not connected: borough node status {node}");
    v1::Explanation {
        indexes,
        headline: summary.clone(),
        summary,
        silent_node: node,
        ..v1::Explanation::default()
    }
}

/// The explanation of the tasks on a silent node. `tolerance_ms`: how long nodes may be silent, if known.
pub(super) fn explained(tasks: SilentTasks, tolerance_ms: Option<u64>, now_ms: i64) -> v1::Explanation {
    let lost_at_ms = tolerance_ms.map(|tolerance_ms| tasks.since_ms.saturating_add_unsigned(tolerance_ms));
    explanation(tasks, lost_at_ms.unwrap_or_default(), now_ms)
}

/// Since when the agent of a node does not answer, unless the node is declared lost.
pub(super) fn silent_since(node: &NodeRow) -> Option<i64> {
    silent_since_ms(&node.taints).filter(|_| node.state != NodeState::Lost)
}

/// A node with the time of its silence, and when it will be lost, if that is known.
pub(in crate::task) fn silence_text(
    node: &str,
    since_ms: i64,
    lost_at_ms: Option<i64>,
    now_ms: i64,
) -> String {
    let seconds = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or_default()).as_secs();
    let silent = seconds(now_ms.saturating_sub(since_ms));
    let lost = match lost_at_ms {
        None => String::new(),
        Some(at) if at <= now_ms => "; the node is about to be declared lost".to_owned(),
        Some(at) => {
            format!("; the node is declared lost in about {} s", seconds(at.saturating_sub(now_ms)) + 1)
        }
    };
    format!("{node}, which has not answered for {silent} s{lost}")
}

fn explanation(tasks: SilentTasks, lost_at_ms: i64, now_ms: i64) -> v1::Explanation {
    let SilentTasks { node, since_ms, indexes } = tasks;
    let silence = silence_text(&node, since_ms, Some(lost_at_ms).filter(|&at| at != 0), now_ms);
    let summary = format!("placed on {silence}: borough node status {node}");
    v1::Explanation {
        indexes,
        headline: summary.clone(),
        summary,
        silent_node: node,
        silent_since_ms: since_ms,
        lost_at_ms,
        ..v1::Explanation::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_not_connected_is_named_before_it_is_silent() {
        let explained = away_explanation(UnconnectedTasks { node: "n1".to_owned(), indexes: vec![0, 2] });
        let expected = "placed on n1, which is not connected: borough node status n1";
        assert_eq!((explained.headline.as_str(), explained.silent_node.as_str()), (expected, "n1"));
    }

    #[test]
    fn an_explanation_says_how_long_a_node_is_silent_and_when_it_is_lost() {
        let tasks = SilentTasks { node: "n1".to_owned(), since_ms: 10_000, indexes: vec![0, 2] };
        let of = |lost_at_ms, now_ms| explanation(tasks.clone(), lost_at_ms, now_ms);
        let explained = of(40_000, 18_300);
        assert_eq!(
            explained.summary,
            "placed on n1, which has not answered for 8 s; the node is declared lost in about 22 s: borough node \
             status n1"
        );
        assert_eq!((explained.indexes, explained.silent_node.as_str()), (vec![0, 2], "n1"));
        let late = of(40_000, 41_000).summary;
        assert!(late.contains("for 31 s; the node is about to be declared lost:"), "{late}");
        let unknown = of(0, 9_000).summary;
        assert!(unknown.contains("has not answered for 0 s: borough"), "{unknown}");
    }
}
