//! One look at a member cell.

use std::time::Duration;

use borough_client::{Client, ClientError};
use borough_model::member::{MEMBER_LOOK_MS, MemberReport, ProblemKind};
use borough_proto::convert::capacity_from_message;
use borough_proto::v1;
use borough_store::error_chain;

/// How long a look may take: it is over when the next one is due.
pub(crate) const LOOK_MAX: Duration = Duration::from_millis(MEMBER_LOOK_MS.unsigned_abs() - 1_000);

/// What a look brings: the report of the cell, or why there is none.
pub(crate) type Looked = Result<MemberReport, (ProblemKind, String)>;

/// Asks a member for its report.
pub(crate) async fn member_look(client: &Client) -> Looked {
    match client.with_deadline_max(LOOK_MAX).cell_get().await {
        Ok((cell, _)) => Ok(report_of(&cell)),
        Err(error) => Err(problem_of(&error)),
    }
}

fn report_of(cell: &v1::Cell) -> MemberReport {
    let amounts = |message: Option<&v1::Resources>| capacity_from_message(message).unwrap_or_default();
    let tasks = cell.tasks.unwrap_or_default();
    MemberReport {
        store_epoch: cell.store_epoch,
        nodes: cell.nodes,
        nodes_ready: cell.nodes_ready,
        capacity: amounts(cell.capacity.as_ref()),
        used: amounts(cell.used.as_ref()),
        jobs: cell.jobs,
        running: tasks.running,
        pending: tasks.pending,
    }
}

/// Whether nobody answers, or somebody who refuses: only the second needs an operator.
fn problem_of(error: &ClientError) -> (ProblemKind, String) {
    let kind = match error {
        ClientError::Unreachable { .. } | ClientError::Deadline { .. } => ProblemKind::Silent,
        _ => match error.code() {
            Some(tonic::Code::Unavailable | tonic::Code::DeadlineExceeded) => ProblemKind::Silent,
            _ => ProblemKind::Refused,
        },
    };
    (kind, error_chain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_who_answers_is_silence_and_another_answer_is_a_refusal() {
        let gateways = vec!["a:1".to_owned()];
        let silent = ClientError::Unreachable { gateways: gateways.clone(), attempts: 3, source: None };
        assert_eq!(problem_of(&silent).0, ProblemKind::Silent);
        let late = ClientError::Deadline {
            method: "GetCell",
            deadline: LOOK_MAX,
            gateways: gateways.clone(),
            changes: false,
        };
        assert_eq!(problem_of(&late).0, ProblemKind::Silent);
        let other = ClientError::NotGateway { gateways, what: "a server of HTTP" };
        let (kind, message) = problem_of(&other);
        assert_eq!(kind, ProblemKind::Refused);
        assert!(message.contains("a:1 is a server of HTTP"), "{message}");
    }
}
