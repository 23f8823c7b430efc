//! When the agent asks for identities, and what it does with the answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_proto::bounds::IDENTITY_ATTEMPTS_MAX;
use borough_proto::v1;
use borough_shim::record::ExitRecord;

use super::desired::Desired;
use super::identity::{Identities, IdentityGiven};
use super::state::{AttemptState, ShimState};
use crate::attempt::AttemptId;

fn id(index: u32) -> AttemptId {
    AttemptId::new("j00000000000000ff", index, 1).unwrap()
}

fn attempt(index: u32) -> Option<v1::TaskAttempt> {
    Some(v1::TaskAttempt { job_id: id(index).job_id, index, incarnation: 1 })
}

fn assignment(index: u32, names: &[&str]) -> v1::Assignment {
    let identity = |name: &&str| v1::IdentitySpec { name: (*name).to_owned(), ..Default::default() };
    let identities = names.iter().map(identity).collect();
    let spec = Some(v1::TaskSpec { identities, ..v1::TaskSpec::default() });
    v1::Assignment { attempt: attempt(index), spec, ..v1::Assignment::default() }
}

fn running(index: u32, names: &[&str]) -> (AttemptId, AttemptState) {
    let assignment = Some(Arc::new(assignment(index, names)));
    (id(index), AttemptState { assignment, shim: ShimState::Alive, ..AttemptState::default() })
}

fn desired(assignments: Vec<v1::Assignment>) -> Desired {
    let mut desired = Desired::default();
    assert!(desired.apply(v1::Desired { assignments, ..v1::Desired::default() }).is_empty());
    desired
}

fn answer(index: u32, names: &[&str], renew_after_ms: u64) -> v1::IdentityAnswer {
    let token = |name: &&str| v1::IdentityToken { name: (*name).to_owned(), token: format!("t-{name}") };
    let tokens = names.iter().map(token).collect();
    let error = if names.is_empty() { "no".to_owned() } else { String::new() };
    let of = v1::AttemptIdentities { attempt: attempt(index), tokens, renew_after_ms, error };
    v1::IdentityAnswer { attempts: vec![of] }
}

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn signing() -> Identities {
    let mut identities = Identities::default();
    identities.opened();
    identities.welcomed(true);
    identities
}

fn asked(request: Option<v1::IdentityRequest>) -> Vec<u32> {
    request.map(|request| request.attempts.iter().map(|of| of.index).collect()).unwrap_or_default()
}

#[test]
fn an_attempt_starts_once_it_has_a_token_for_each_identity() {
    let (mut identities, none) = (signing(), BTreeMap::new());
    let wanted = desired(vec![assignment(1, &["a", "b"]), assignment(2, &[])]);
    assert!(identities.are_there(&id(2), &assignment(2, &[])));
    assert!(!identities.are_there(&id(1), &assignment(1, &["a", "b"])));
    assert_eq!(asked(identities.request(&none, &wanted, at(0))), [0_u32; 0], "nobody waits yet");
    identities.want(id(1));
    assert_eq!(asked(identities.request(&none, &wanted, at(0))), [1]);
    identities.answered(answer(1, &["a"], 60_000), at(1));
    assert!(!identities.are_there(&id(1), &assignment(1, &["a", "b"])));
    identities.want(id(1));
    assert_eq!(asked(identities.request(&none, &wanted, at(70))), [1]);
    let given = identities.answered(answer(1, &["a", "b"], 60_000), at(70));
    assert!(matches!(&given[..], [IdentityGiven::Tokens(of, tokens)] if *of == id(1) && tokens.len() == 2));
    assert!(identities.are_there(&id(1), &assignment(1, &["a", "b"])));
}

#[test]
fn a_running_attempt_is_renewed_in_time_and_an_agent_that_starts_asks_at_once() {
    let mut identities = signing();
    let attempts = BTreeMap::from([running(1, &["a"]), running(2, &[])]);
    let wanted = desired(Vec::new());
    assert_eq!(asked(identities.request(&attempts, &wanted, at(0))), [1]);
    assert_eq!(asked(identities.request(&attempts, &wanted, at(1))), [0_u32; 0], "one request at a time");
    identities.answered(answer(1, &["a"], 10_000), at(2));
    assert_eq!(asked(identities.request(&attempts, &wanted, at(11))), [0_u32; 0]);
    assert_eq!(asked(identities.request(&attempts, &wanted, at(12))), [1]);
    // A refusal leaves what it has.
    let given = identities.answered(answer(1, &[], 5_000), at(12));
    assert_eq!(given, [IdentityGiven::Refused(id(1), "no".to_owned())]);
    assert_eq!(identities.tokens(&id(1)).len(), 1);
    assert_eq!(asked(identities.request(&attempts, &wanted, at(17))), [1]);
    assert!(identities.answered(answer(1, &[], 5_000), at(17)).is_empty(), "it is said once");
    assert_eq!(asked(identities.request(&attempts, &wanted, at(22))), [1]);
    identities.answered(answer(1, &["a"], 3_600_000), at(22));
    identities.again(&id(1), at(22));
    assert_eq!(asked(identities.request(&attempts, &wanted, at(27))), [1], "what was not written");
}

#[test]
fn nobody_asks_a_gateway_that_does_not_sign_nor_for_what_is_over() {
    let mut identities = Identities::default();
    let wanted = desired(Vec::new());
    let mut attempts = BTreeMap::from([running(1, &["a"])]);
    assert_eq!(asked(identities.request(&attempts, &wanted, at(0))), [0_u32; 0]);
    identities.welcomed(true);
    attempts.get_mut(&id(1)).unwrap().record.exit = Some(ExitRecord::default());
    assert_eq!(asked(identities.request(&attempts, &wanted, at(0))), [0_u32; 0]);
}

#[test]
fn an_answer_of_another_session_or_attempt_is_left_out() {
    let mut identities = signing();
    let attempts = BTreeMap::from([running(1, &["a"])]);
    let wanted = desired(Vec::new());
    assert_eq!(asked(identities.request(&attempts, &wanted, at(0))), [1]);
    assert!(identities.answered(answer(9, &["a"], 1), at(1)).is_empty());
    assert_eq!(asked(identities.request(&attempts, &wanted, at(1))), [1]);
    identities.opened();
    identities.welcomed(true);
    assert!(identities.answered(answer(1, &["a"], 1), at(2)).is_empty());
    assert_eq!(asked(identities.request(&attempts, &wanted, at(2))), [1], "the next session asks again");
    assert_eq!(asked(identities.request(&attempts, &wanted, at(40))), [1], "an answer that never comes");
}

#[test]
fn a_request_has_a_bound_and_those_that_wait_go_first() {
    let mut identities = signing();
    let attempts: BTreeMap<_, _> = (0..100).map(|index| running(index, &["a"])).collect();
    let wanted = desired(vec![assignment(500, &["a"])]);
    identities.want(id(500));
    let first = asked(identities.request(&attempts, &wanted, at(0)));
    assert_eq!((first.len(), first.last()), (IDENTITY_ATTEMPTS_MAX, Some(&500)));
}

#[test]
fn a_token_is_not_shown() {
    let mut identities = signing();
    let attempts = BTreeMap::from([running(1, &["a"])]);
    identities.request(&attempts, &desired(Vec::new()), at(0));
    identities.answered(answer(1, &["a"], 1_000), at(0));
    assert!(!format!("{identities:?}").contains("t-a"));
}
