//! Answers an agent that asks for the identities of its attempts.

use std::sync::Arc;

use borough_kv::secret::unguessable_name;
use borough_model::job::JobSpec;
use borough_model::{NodeId, TaskRow, TaskState};
use borough_proto::v1;
use borough_proto::v1::gateway_message::Message as ToAgent;
use tokio::sync::mpsc;

use super::desired::DesiredAttempt;
use super::message::attempt_from_message;
use super::registry::RegisteredSession;
use crate::cell::CellContext;
use crate::workload::{IdentifiedTask, Issue, Keyring, KeysAbsent, claims, sign};

/// After how many milliseconds an agent asks again for what it did not get.
const AGAIN_MS: u64 = 5_000;

/// Why an attempt gets no tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum IdentityRefused {
    /// Another node has it, or it is over. The agent hears of that too.
    #[error("the attempt is not assigned to this node")]
    NotHere,
    /// The spec is not known here yet.
    #[error("the gateway does not know its spec yet")]
    NoSpec,
    #[error("its spec asks for no identity")]
    NotAsked,
    #[error(transparent)]
    NoKeys(#[from] KeysAbsent),
    #[error("no token can be signed; the gateway's log says why")]
    NotSigned,
}

/// Answers the requests of one session, until the session ends.
pub(crate) async fn identities_serve(
    cell: Arc<CellContext>,
    session: Arc<RegisteredSession>,
    mut requests: mpsc::Receiver<v1::IdentityRequest>,
) {
    while let Some(request) = requests.recv().await {
        let ring = cell.workload.keys.ring().await;
        // A node speaks only in its session in force.
        if !session.is_current() {
            return;
        }
        let answer = |attempt: &v1::TaskAttempt| attempt_answer(&cell, session.node, attempt, &ring);
        let attempts = request.attempts.iter().map(answer).collect();
        if !session.send(ToAgent::Identities(v1::IdentityAnswer { attempts })).await {
            return;
        }
    }
}

fn attempt_answer(
    cell: &CellContext,
    node: NodeId,
    attempt: &v1::TaskAttempt,
    ring: &Result<Arc<Keyring>, KeysAbsent>,
) -> v1::AttemptIdentities {
    let made = attempt_from_message(attempt).map_err(|_| IdentityRefused::NotHere).and_then(|wanted| {
        let (row, spec) = cell.mirror.read(|state| {
            let row = state.tasks().get(&wanted.task).cloned();
            let spec = row.as_ref().and_then(|row| state.spec(wanted.task.job, row.spec_version));
            (row, spec)
        });
        let granted = granted(row.as_deref(), spec.as_deref(), node, wanted)?;
        tokens(cell, granted, ring.as_ref().map_err(|absent| *absent)?)
    });
    let attempt = Some(attempt.clone());
    match made {
        Ok((tokens, renew_after_ms)) => {
            v1::AttemptIdentities { attempt, tokens, renew_after_ms, error: String::new() }
        }
        Err(refused) => v1::AttemptIdentities {
            attempt,
            tokens: Vec::new(),
            renew_after_ms: AGAIN_MS,
            error: refused.to_string(),
        },
    }
}

/// The row and the spec of an attempt, if `node` may have its tokens: it is assigned to the node, and is not over.
fn granted<'a>(
    row: Option<&'a TaskRow>,
    spec: Option<&'a JobSpec>,
    node: NodeId,
    wanted: DesiredAttempt,
) -> Result<IdentifiedTask<'a>, IdentityRefused> {
    let is_here = |row: &&TaskRow| {
        row.charged_node() == Some(node)
            && row.state != TaskState::Held
            && row.id == wanted.task
            && row.incarnation == wanted.incarnation
    };
    let row = row.filter(is_here).ok_or(IdentityRefused::NotHere)?;
    let spec = spec.ok_or(IdentityRefused::NoSpec)?;
    if spec.task.identities.is_empty() {
        return Err(IdentityRefused::NotAsked);
    }
    Ok(IdentifiedTask { row, spec })
}

/// The tokens of an attempt, and after how many milliseconds the first of them is half over.
fn tokens(
    cell: &CellContext,
    task: IdentifiedTask<'_>,
    ring: &Keyring,
) -> Result<(Vec<v1::IdentityToken>, u64), IdentityRefused> {
    let now_ms = cell.clock.wall_ms();
    let signing = ring.signing(now_ms).ok_or(IdentityRefused::NotSigned)?;
    let token = |identity| {
        let failed = |error: &dyn std::fmt::Display| {
            tracing::error!(cell = %cell.name, %error, "no token of a task can be signed");
            IdentityRefused::NotSigned
        };
        let issue = Issue { now_ms, id: unguessable_name().map_err(|error| failed(&error))? };
        let claims = claims(&cell.workload.names, cell.name.as_str(), task, identity, issue);
        let token = sign(&claims, signing).map_err(|error| failed(&error))?;
        Ok::<_, IdentityRefused>(v1::IdentityToken { name: identity.name.to_string(), token })
    };
    let identities = &task.spec.task.identities;
    let made = identities.iter().map(token).collect::<Result<Vec<_>, _>>()?;
    let shortest_ms = identities.iter().map(|identity| identity.ttl_ms).min().unwrap_or(AGAIN_MS);
    Ok((made, shortest_ms / 2))
}

#[cfg(test)]
mod tests {
    use borough_model::job::{IDENTITY_TTL_MS, IdentitySpec, JobKind};
    use borough_model::{Incarnation, JobId, Name, TaskId};

    use super::*;

    const NODE: NodeId = NodeId(1);
    const TASK: TaskId = TaskId { job: JobId(1), index: 2 };

    fn spec() -> JobSpec {
        let name = |text| Name::new(text).unwrap();
        let mut spec = JobSpec::defaults(name("ann"), name("web"), JobKind::Service, vec!["true".to_owned()]);
        let vault = || name("vault");
        spec.task.identities =
            vec![IdentitySpec { name: vault(), audience: "vault".to_owned(), ttl_ms: IDENTITY_TTL_MS }];
        spec
    }

    fn row(state: TaskState, node: NodeId, incarnation: u64) -> TaskRow {
        let incarnation = Incarnation(incarnation);
        TaskRow { state, node: Some(node), incarnation, ..TaskRow::never_placed(TASK) }
    }

    fn asked(row: Option<&TaskRow>, spec: Option<&JobSpec>, incarnation: u64) -> Option<IdentityRefused> {
        let wanted = DesiredAttempt { task: TASK, incarnation: Incarnation(incarnation) };
        granted(row, spec, NODE, wanted).err()
    }

    #[test]
    fn a_node_gets_tokens_of_its_own_attempts_only() {
        let spec = spec();
        for state in [TaskState::Assigned, TaskState::Starting, TaskState::Running, TaskState::Stopping] {
            assert_eq!(asked(Some(&row(state, NODE, 3)), Some(&spec), 3), None, "{state:?}");
            let refused = Some(IdentityRefused::NotHere);
            assert_eq!(asked(Some(&row(state, NodeId(2), 3)), Some(&spec), 3), refused, "{state:?}");
            for other in [2, 4] {
                assert_eq!(asked(Some(&row(state, NODE, 3)), Some(&spec), other), refused, "{state:?}");
            }
        }
        for state in [TaskState::Pending, TaskState::Held, TaskState::Lost, TaskState::Dead] {
            let refused = Some(IdentityRefused::NotHere);
            assert_eq!(asked(Some(&row(state, NODE, 3)), Some(&spec), 3), refused, "{state:?}");
        }
        assert_eq!(asked(None, Some(&spec), 3), Some(IdentityRefused::NotHere));
    }

    #[test]
    fn a_task_that_asks_for_none_gets_none() {
        let (mut spec, running) = (spec(), row(TaskState::Running, NODE, 3));
        spec.task.identities.clear();
        assert_eq!(asked(Some(&running), Some(&spec), 3), Some(IdentityRefused::NotAsked));
        assert_eq!(asked(Some(&running), None, 3), Some(IdentityRefused::NoSpec));
    }
}
