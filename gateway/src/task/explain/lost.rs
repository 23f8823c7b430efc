//! Explains tasks that were lost with their node and have no other one yet.

use borough_proto::v1;

use super::{explanation_of, moment};

/// Tasks of a job that were lost with one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LostTasks {
    pub(super) node: String,
    /// When the task with the lowest index was declared lost.
    pub(super) at_ms: i64,
    /// The node has an agent again.
    pub(super) is_back: bool,
    pub(super) indexes: Vec<u32>,
}

pub(super) fn explanation(tasks: LostTasks) -> v1::Explanation {
    let LostTasks { node, at_ms, is_back, indexes } = tasks;
    let back = if is_back { "; that node is back" } else { "" };
    let headline = format!("ran on node {node}, which was declared lost at {}{back}", moment(at_ms));
    explanation_of(indexes, headline, vec![format!("borough node status {node}")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_node_has_its_name() {
        let tasks = LostTasks { node: "n1".to_owned(), at_ms: 1_000, is_back: false, indexes: vec![0, 2] };
        let explained = explanation(tasks.clone());
        assert_eq!(explained.headline, "ran on node n1, which was declared lost at 1970-01-01T00:00:01Z");
        assert_eq!(explained.details, ["borough node status n1"]);
        let back = explanation(LostTasks { is_back: true, ..tasks });
        assert!(back.headline.ends_with("; that node is back"), "{}", back.headline);
    }
}
