//! One look at a member cell.

use std::time::Duration;

use borough_client::{Client, ClientError};
use borough_model::member::{MEMBER_LOOK_MS, MemberReport, ProblemKind};
use borough_proto::convert::capacity_from_message;
use borough_proto::v1;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tonic::Code;

/// How long a look may take: it is over when the next one is due.
pub(crate) const LOOK_MAX: Duration = Duration::from_millis(MEMBER_LOOK_MS.unsigned_abs() - 1_000);

/// What a look brings: the report of the cell, or why there is none.
pub(crate) type Looked = Result<MemberReport, (ProblemKind, String)>;

/// The clients of a member's gateways, the one that has answered last before the others.
#[derive(Clone)]
pub(crate) struct MemberGateways(pub(crate) Vec<(String, Client)>);

impl MemberGateways {
    /// Asks a member for its report. A gateway that does not answer soon gets company: the next one is asked as well,
    /// and the first report counts. Returns the gateways with the one that answered first.
    pub(crate) async fn look(mut self) -> (Looked, Self) {
        let count = u32::try_from(self.0.len()).unwrap_or(u32::MAX).max(1);
        let pause = LOOK_MAX / 2 / count;
        let asked = (0_u32..).zip(&self.0).map(|(at, (gateway, client))| async move {
            (at, gateway_ask(gateway, client, pause.saturating_mul(at)).await)
        });
        let mut asked: FuturesUnordered<_> = asked.collect();
        let mut problems = Vec::new();
        let mut answer = None;
        while let Some((at, looked)) = asked.next().await {
            match looked {
                Ok(report) => {
                    answer = Some((at, report));
                    break;
                }
                Err(problem) => problems.push((at, problem)),
            }
        }
        drop(asked);
        let Some((at, report)) = answer else { return (Err(problem_together(problems)), self) };
        self.0.rotate_left(usize::try_from(at).unwrap_or(0));
        (Ok(report), self)
    }
}

/// Asks one gateway after a wait, which counts as part of the look.
async fn gateway_ask(gateway: &str, client: &Client, wait: Duration) -> Looked {
    tokio::time::sleep(wait).await;
    match client.with_deadline_max(LOOK_MAX.saturating_sub(wait)).cell_get().await {
        Ok((cell, _)) => Ok(report_of(&cell)),
        Err(error) => Err(problem_of(gateway, &error)),
    }
}

/// The problems of all gateways as one: somebody who refuses is what an operator has to look at.
fn problem_together(mut problems: Vec<(u32, (ProblemKind, String))>) -> (ProblemKind, String) {
    problems.sort_by_key(|(at, (kind, _))| (*kind == ProblemKind::Silent, *at));
    let kind = problems.first().map_or(ProblemKind::Silent, |(_, (kind, _))| *kind);
    let texts: Vec<String> = problems.into_iter().map(|(_, (_, text))| text).collect();
    (kind, texts.join("; "))
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
fn problem_of(gateway: &str, error: &ClientError) -> (ProblemKind, String) {
    let silent = |text: String| (ProblemKind::Silent, text);
    match error {
        ClientError::Unreachable { .. } => silent(format!("{gateway} does not answer: {}", root_of(error))),
        ClientError::Deadline { deadline, .. } => {
            silent(format!("{gateway} did not answer within {} s", deadline.as_secs_f32()))
        }
        _ => {
            let is_silent = matches!(error.code(), Some(Code::Unavailable | Code::DeadlineExceeded));
            let kind = if is_silent { ProblemKind::Silent } else { ProblemKind::Refused };
            (kind, format!("{gateway}: {error}"))
        }
    }
}

/// The first cause of an error. What is above it is about the layers of a library.
fn root_of(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_who_answers_is_silence_and_another_answer_is_a_refusal() {
        let gateways = vec!["a:1".to_owned()];
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let status = tonic::Status::from_error(Box::new(refused));
        let silent = ClientError::Unreachable {
            gateways: gateways.clone(),
            attempts: 3,
            source: Some(Box::new(status)),
        };
        let (kind, text) = problem_of("a:1", &silent);
        assert_eq!((kind, text.as_str()), (ProblemKind::Silent, "a:1 does not answer: connection refused"));
        let late = ClientError::Deadline {
            method: "GetCell",
            deadline: Duration::from_millis(2_500),
            gateways: gateways.clone(),
            changes: false,
        };
        let late = problem_of("b:1", &late);
        assert_eq!(late, (ProblemKind::Silent, "b:1 did not answer within 2.5 s".to_owned()));
        let other = problem_of("a:1", &ClientError::NotGateway { gateways, what: "a web server" });
        assert_eq!(other.0, ProblemKind::Refused);
        let (kind, text) = problem_together(vec![(0, late), (1, other)]);
        assert_eq!(kind, ProblemKind::Refused);
        assert!(text.starts_with("a:1: a:1 is a web server") && text.ends_with("within 2.5 s"), "{text}");
    }
}
