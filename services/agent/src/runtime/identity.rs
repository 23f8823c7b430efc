//! Asks the gateway for the identities of attempts, and takes its answers.

use borough_proto::v1;
use borough_proto::v1::agent_message::Message;

use super::agent::Agent;
use crate::decide::ShimState;
use crate::decide::identity::IdentityGiven;

/// Sends the request that is due, if any. If the channel is full, a later step sends it.
pub(super) fn ask(agent: &mut Agent) {
    let now = agent.config.clock.monotonic();
    let Some(permit) = agent.outbox().and_then(|outbox| outbox.control.clone().try_reserve_owned().ok())
    else {
        return;
    };
    let state = &mut agent.state;
    if let Some(request) = state.identities.request(&state.attempts, &agent.desired, now) {
        permit.send(v1::AgentMessage { message: Some(Message::Identities(request)) });
    }
}

/// Takes an answer, and gives running attempts their new tokens.
pub(super) fn answered(agent: &mut Agent, answer: v1::IdentityAnswer) {
    let now = agent.config.clock.monotonic();
    for given in agent.state.identities.answered(answer, now) {
        match given {
            IdentityGiven::Tokens(id, tokens) => {
                let begun = |shim: ShimState| shim == ShimState::Alive;
                if agent.state.attempts.get(&id).is_some_and(|attempt| begun(attempt.shim)) {
                    agent.machine.tokens_replace(id, tokens);
                }
            }
            IdentityGiven::Refused(id, reason) => {
                tracing::warn!(attempt = %id, reason, "the gateway gives an attempt no tokens; the agent asks again");
            }
        }
    }
}
