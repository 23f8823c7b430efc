//! Explains tasks that were lost with their node and have no other one yet.

use borough_proto::v1;

use super::{explanation_of, moment};

/// What has become of a lost node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LostNode {
    Lost,
    /// It has an agent again.
    Back,
    /// Its name went with it.
    Removed,
}

/// Tasks of a job that were lost with one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LostTasks {
    pub(super) node: String,
    /// When the task with the lowest index was declared lost.
    pub(super) at_ms: i64,
    pub(super) now: LostNode,
    pub(super) indexes: Vec<u32>,
}

pub(super) fn explanation(tasks: LostTasks) -> v1::Explanation {
    let LostTasks { node, at_ms, now, indexes } = tasks;
    let at = moment(at_ms);
    let headline = match now {
        LostNode::Lost => format!("ran on node {node}, which was declared lost at {at}"),
        LostNode::Back => format!("ran on node {node}, which was declared lost at {at}; that node is back"),
        LostNode::Removed => format!("ran on a node that was declared lost at {at}, and removed since"),
    };
    // No command finds a node that is gone.
    let details = (now != LostNode::Removed).then(|| format!("borough node status {node}"));
    explanation_of(indexes, headline, details.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_node_has_its_name() {
        let tasks =
            LostTasks { node: "n1".to_owned(), at_ms: 1_000, now: LostNode::Lost, indexes: vec![0, 2] };
        let explained = explanation(tasks.clone());
        assert_eq!(explained.headline, "ran on node n1, which was declared lost at 1970-01-01T00:00:01Z");
        assert_eq!(explained.details, ["borough node status n1"]);
        let back = explanation(LostTasks { now: LostNode::Back, ..tasks.clone() });
        assert!(back.headline.ends_with("; that node is back"), "{}", back.headline);
        let removed = explanation(LostTasks { now: LostNode::Removed, ..tasks });
        let expected = "ran on a node that was declared lost at 1970-01-01T00:00:01Z, and removed since";
        assert_eq!((removed.headline.as_str(), removed.details.len()), (expected, 0), "no command finds it");
    }
}
