//! Decides when the agent asks for the identities of its attempts.
//!
//! An attempt starts once it has its tokens, and gets new ones before they expire. Nothing of it is stored: an agent
//! that was restarted asks for all of them again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use borough_model::Name;
use borough_proto::bounds::IDENTITY_ATTEMPTS_MAX;
use borough_proto::v1;

use super::desired::Desired;
use super::state::{AttemptState, ShimState};
use crate::attempt::AttemptId;

/// How long the agent waits for an answer before it asks again. The gateway reads one row for it, if any.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The pause after tokens could not be written.
const AGAIN: Duration = Duration::from_secs(5);

/// A token of a task.
#[derive(Clone, PartialEq, Eq)]
pub struct TaskToken {
    /// The name of the identity.
    pub name: Name,
    /// The signed text. No log shows it.
    pub token: String,
}

impl fmt::Debug for TaskToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskToken").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The identities of attempts, as the agent last heard of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identities {
    /// Whether the gateway of the session signs. Those of earlier versions end a session that asks.
    signs: bool,
    /// The request without an answer, with its time.
    asked: Option<(BTreeSet<AttemptId>, Duration)>,
    /// Attempts that wait for their start.
    wanted: BTreeSet<AttemptId>,
    known: BTreeMap<AttemptId, KnownIdentities>,
}

#[derive(Clone, Debug)]
struct KnownIdentities {
    /// Empty: the gateway gave none.
    tokens: Vec<TaskToken>,
    /// When the agent asks again (monotonic).
    due: Duration,
    /// Why the gateway gave none the last time; empty: it gave them.
    refusal: String,
}

/// The answer for one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IdentityGiven {
    Tokens(AttemptId, Vec<TaskToken>),
    /// None, with the reason. It is given once.
    Refused(AttemptId, String),
}

/// The names of the identities that an attempt asks for.
fn names(assignment: &v1::Assignment) -> impl Iterator<Item = &str> {
    assignment.spec.iter().flat_map(|spec| &spec.identities).map(|identity| identity.name.as_str())
}

impl Identities {
    /// Begins a session. The answer to what was asked in another one never comes.
    pub(crate) fn opened(&mut self) {
        (self.signs, self.asked) = (false, None);
    }

    /// Notes whether the gateway of the session signs.
    pub(crate) fn welcomed(&mut self, signs: bool) {
        self.signs = signs;
    }

    /// Asks for the tokens of an attempt that cannot start without them.
    pub(crate) fn want(&mut self, id: AttemptId) {
        self.wanted.insert(id);
    }

    /// Asks again soon: what came could not be written.
    pub(crate) fn again(&mut self, id: &AttemptId, now: Duration) {
        if let Some(known) = self.known.get_mut(id) {
            known.due = now.saturating_add(AGAIN);
        }
    }

    /// The tokens of an attempt.
    pub(crate) fn tokens(&self, id: &AttemptId) -> Vec<TaskToken> {
        self.known.get(id).map(|known| known.tokens.clone()).unwrap_or_default()
    }

    /// Returns true if nothing keeps an attempt from its start: it has a token for each identity that it asks for.
    pub(crate) fn are_there(&self, id: &AttemptId, assignment: &v1::Assignment) -> bool {
        let tokens = self.known.get(id).map(|known| known.tokens.as_slice()).unwrap_or_default();
        names(assignment).all(|name| tokens.iter().any(|token| token.name.as_str() == name))
    }

    /// The next request, if one is due at `now` (monotonic). Forgets attempts that are gone.
    pub(crate) fn request(
        &mut self,
        attempts: &BTreeMap<AttemptId, AttemptState>,
        desired: &Desired,
        now: Duration,
    ) -> Option<v1::IdentityRequest> {
        let running = |id: &AttemptId| {
            let of = attempts.get(id).filter(|attempt| attempt.record.exit.is_none())?;
            of.assignment.as_ref().filter(|assignment| names(assignment).next().is_some())
        };
        let starting = |id: &AttemptId| {
            let begun = attempts.get(id).is_some_and(|attempt| attempt.shim != ShimState::None);
            !begun && desired.assignments.contains_key(id) && !desired.stops.contains_key(id)
        };
        self.wanted.retain(|id| starting(id));
        self.known.retain(|id, _| running(id).is_some() || starting(id));
        let waits = self.asked.as_ref().is_some_and(|(_, at)| now.saturating_sub(*at) < ANSWER_MAX);
        if !self.signs || waits {
            return None;
        }
        let is_due = |id: &AttemptId| self.known.get(id).is_none_or(|known| known.due <= now);
        // Those that wait for their start go first.
        let of_running = attempts.keys().filter(|id| running(id).is_some());
        let due = self.wanted.iter().chain(of_running).chain(self.known.keys()).filter(|id| is_due(id));
        let mut asked = BTreeSet::new();
        for id in due {
            if asked.len() < IDENTITY_ATTEMPTS_MAX {
                asked.insert(id.clone());
            }
        }
        if asked.is_empty() {
            return None;
        }
        let attempt = |id: &AttemptId| v1::TaskAttempt {
            job_id: id.job_id.clone(),
            index: id.index,
            incarnation: id.incarnation,
        };
        let request = v1::IdentityRequest { attempts: asked.iter().map(attempt).collect() };
        self.asked = Some((asked, now));
        Some(request)
    }

    /// Takes an answer at `now` (monotonic). What was not asked for is left out.
    pub(crate) fn answered(&mut self, answer: v1::IdentityAnswer, now: Duration) -> Vec<IdentityGiven> {
        let Some((asked, _)) = self.asked.take() else { return Vec::new() };
        let mut given = Vec::new();
        for of in answer.attempts {
            let Ok(id) = AttemptId::of(of.attempt.as_ref()) else { continue };
            if !asked.contains(&id) {
                continue;
            }
            let token = |token: v1::IdentityToken| {
                let name = Name::new(token.name).ok()?;
                Some(TaskToken { name, token: token.token })
            };
            let tokens: Vec<TaskToken> = of.tokens.into_iter().filter_map(token).collect();
            let due = now.saturating_add(Duration::from_millis(of.renew_after_ms.max(1_000)));
            let known = self.known.entry(id.clone());
            let known = known.or_insert(KnownIdentities { tokens: Vec::new(), due, refusal: String::new() });
            known.due = due;
            if tokens.is_empty() {
                // The old ones stay: they may still be valid.
                if known.refusal != of.error {
                    known.refusal.clone_from(&of.error);
                    given.push(IdentityGiven::Refused(id, of.error));
                }
            } else {
                (known.tokens, known.refusal) = (tokens.clone(), String::new());
                given.push(IdentityGiven::Tokens(id, tokens));
            }
        }
        given
    }
}
