"""The pure decisions: retries, rotation, tries, outages, statuses."""

import pytest
from google.protobuf.any_pb2 import Any
from google.rpc import error_details_pb2, status_pb2

from borough.config import ClientConfig
from borough.errors import (
    Code,
    DeadlineError,
    InvalidError,
    NotGatewayError,
    Refusal,
    RefusedError,
    TokenRefusedError,
    UnreachableError,
)
from borough.outage import Outage, OutageStep
from borough.retry import RetryPolicy, overload_pause, worth_repeating
from borough.rotation import Rotation
from borough.status import Status, foreign_answer, refusal_of
from borough.tries import Tries
from borough.v1 import methods


def status(code: Code, reason: str = "", *, message: str = "no", retry: float | None = None, **more: object) -> Status:
    return Status(Refusal(code, message, reason, retry_after=retry), **more)  # type: ignore[arg-type]


def test_pauses_grow_stay_within_bounds_and_differ() -> None:
    policy = RetryPolicy()
    for attempts in range(100):
        for random in (0.0, 0.3, 1.0):
            assert policy.backoff / 2 <= policy.pause(attempts, random) <= policy.backoff_max
    assert policy.pause(3, 0) > policy.pause(1, 0)
    assert policy.pause(5, 0) != policy.pause(5, 0.7)
    assert RetryPolicy(backoff=0, backoff_max=0).pause(9, 1) == 0


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"backoff": 3.0}, {"backoff": -1}])
def test_a_policy_without_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidError, match="accepted"):
        RetryPolicy(**wrong)  # type: ignore[arg-type]


# Every code, as a gateway sends it and as a broken connection makes it.
REPEATED = dict.fromkeys((Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED), (True, True))
REPEATED |= dict.fromkeys((Code.UNKNOWN, Code.INTERNAL, Code.CANCELLED), (False, True))


@pytest.mark.parametrize("code", list(Code))
def test_only_what_another_try_may_mend_is_repeated(code: Code) -> None:
    sent, broken = REPEATED.get(code, (False, False))
    assert worth_repeating(status(code)) == sent
    assert worth_repeating(status(code, broken=True)) == broken


def test_a_gateway_that_knows_a_silent_node_is_not_asked_again() -> None:
    assert not worth_repeating(status(Code.UNAVAILABLE, "NODE_SILENT"))
    assert not worth_repeating(status(Code.UNAVAILABLE, "NODE_LOST"))
    assert worth_repeating(status(Code.UNAVAILABLE, "AGENT_AWAY"))


def test_only_an_overloaded_gateway_says_when_to_come_back() -> None:
    assert overload_pause(status(Code.RESOURCE_EXHAUSTED, "OVERLOADED", retry=0.2)) == 0.2
    assert overload_pause(status(Code.RESOURCE_EXHAUSTED, "JOURNAL_FULL", retry=0.2)) is None
    assert overload_pause(status(Code.RESOURCE_EXHAUSTED, "OVERLOADED")) is None
    assert overload_pause(status(Code.UNAVAILABLE, "OVERLOADED", retry=0.2)) is None


def test_a_failed_gateway_rests_and_longer_each_time() -> None:
    rotation = Rotation(2)
    assert rotation.choose(0) == 0
    rotation.failed(0, 0, 1)
    rotation.failed(0, 0, 1)
    assert rotation.choose(0.1) == 1, "the other one, and it stays in use"
    assert rotation.choose(99) == 1
    rotation.failed(1, 99, 0)
    assert rotation.choose(99) == 0
    rotation.failed(0, 99, 1)
    assert rotation.choose(99.1) == 1, "all rest: the first rest that ends"
    rotation.answered(0)
    assert rotation.choose(99.2) == 0


def test_one_failure_turns_once() -> None:
    rotation = Rotation(3)
    rotation.turn(0)
    rotation.turn(0)
    assert rotation.current == 1
    rotation.turn(1)
    rotation.turn(2)
    assert rotation.current == 0


CONFIG = ClientConfig(gateways=["a:1", "b:2"], user="alice", cell="alpha", retry=RetryPolicy(attempts=3))


def tries(method: methods.Method = methods.SUBMIT_JOB) -> Tries:  # type: ignore[type-arg]
    return Tries(CONFIG, method, 5.0)


def test_a_try_gets_its_share_of_the_time() -> None:
    of_call = tries()
    assert of_call.limit(0, 10) == 5
    assert of_call.limit(1, 6) == 6, "no other gateway is left to ask"
    assert of_call.limit(0, 4) == 4


def test_the_budget_of_tries_ends_with_unreachable() -> None:
    of_call = tries()
    for _ in range(2):
        assert of_call.failed(status(Code.UNAVAILABLE), 0, late=False) > 0
    with pytest.raises(UnreachableError) as caught:
        of_call.failed(status(Code.UNAVAILABLE), 0, late=False)
    assert caught.value.attempts == 3 and caught.value.changes
    assert "a:1, b:2" in str(caught.value)


def test_a_call_that_was_never_sent_has_changed_nothing() -> None:
    of_call = tries()
    of_call.count = 2
    with pytest.raises(UnreachableError) as caught:
        of_call.failed(status(Code.UNAVAILABLE, unsent=True), 0, late=False)
    assert not caught.value.changes


def test_silence_ends_with_a_deadline_that_says_whether_something_may_have_changed() -> None:
    for method, changes in ((methods.SUBMIT_JOB, True), (methods.GET_JOB, False), (methods.CHECK_ACCESS, False)):
        of_call = tries(method)
        assert of_call.failed(status(Code.DEADLINE_EXCEEDED), 0, late=True) == 0
        error = of_call.out_of_time()
        assert isinstance(error, DeadlineError) and error.changes == changes


def test_the_last_failure_says_more_than_that_the_time_is_over() -> None:
    of_call = tries()
    of_call.failed(status(Code.UNAVAILABLE), 0, late=False)
    assert isinstance(of_call.out_of_time(), UnreachableError)
    pause = of_call.failed(status(Code.RESOURCE_EXHAUSTED, "OVERLOADED", retry=0.5), 0.5, late=False)
    assert pause > 0.5, "those that were refused together do not come back together"
    error = of_call.out_of_time()
    assert isinstance(error, RefusedError) and error.code is Code.RESOURCE_EXHAUSTED


def test_refusals_are_errors_of_their_kind_at_once() -> None:
    for found, kind in (
        (status(Code.NOT_FOUND), RefusedError),
        (status(Code.UNAUTHENTICATED), TokenRefusedError),
        (status(Code.UNIMPLEMENTED, foreign="the HTTP port of a gateway"), NotGatewayError),
        (status(Code.UNAVAILABLE, "NODE_LOST"), RefusedError),
    ):
        with pytest.raises(kind):
            tries().failed(found, 0, late=False)


def test_what_answers_instead_of_a_gateway_is_remembered() -> None:
    of_call = tries()
    of_call.failed(status(Code.UNAVAILABLE, foreign="no gateway"), 0, late=False)
    of_call.failed(status(Code.UNAVAILABLE), 0, late=False)
    with pytest.raises(NotGatewayError, match="no gateway; accepted: the gRPC port"):
        of_call.failed(status(Code.UNAVAILABLE), 0, late=False)


def test_foreign_answers_are_told_from_those_of_gateways() -> None:
    assert foreign_answer(Code.UNIMPLEMENTED, "this port answers HTTP; for gRPC, use") == "the HTTP port of a gateway"
    text = "failed to connect to all addresses; last error: INTERNAL: Trying to connect an http1.x server"
    assert foreign_answer(Code.UNAVAILABLE, text)
    assert foreign_answer(Code.UNAVAILABLE, "the store does not answer") is None
    assert foreign_answer(Code.NOT_FOUND, "no job with this content-type") is None


def test_the_details_of_a_refusal_are_decoded() -> None:
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(1500)
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="spec.count", description="is 2000000; accepted: 0 to 1000000")
    unmet = error_details_pb2.PreconditionFailure()
    unmet.violations.add(type="JOB", subject="alice/web", description="is stopping")
    info = error_details_pb2.ErrorInfo(reason="JOB_INVALID", metadata={"job": "alice/web"})
    message = status_pb2.Status(code=3)
    for detail in (info, bad, unmet, retry):
        packed = Any()
        packed.Pack(detail)
        message.details.append(packed)
    message.details.add(type_url="type.googleapis.com/of.a.later.Version", value=b"\x0a\x01x")
    refusal = refusal_of(Code.INVALID_ARGUMENT, "the spec cannot be taken", message.SerializeToString())
    assert (refusal.reason, refusal.metadata, refusal.retry_after) == ("JOB_INVALID", {"job": "alice/web"}, 1.5)
    assert str(refusal.fields[0]) == "spec.count: is 2000000; accepted: 0 to 1000000"
    assert refusal.preconditions[0].subject == "alice/web"


def test_details_that_cannot_be_read_are_left_out() -> None:
    for broken in (b"", b"\xff\xff\xff", status_pb2.Status(details=[Any(value=b"\xff")]).SerializeToString()):
        refusal = refusal_of(Code.NOT_FOUND, "", broken)
        assert refusal.reason == "" and str(refusal) == "NOT_FOUND"


def test_an_outage_is_told_once_and_ends() -> None:
    outage = Outage(100, 60)
    assert (outage.left(100), outage.step(102)) == (3, None)
    assert outage.step(103) is OutageStep.NOTIFY
    assert outage.step(104) is None and outage.left(110) == 50
    assert outage.step(160) is OutageStep.GIVE_UP
    assert outage.absence(UnreachableError(["a:1"], 1)).gives_up_in == 57


def test_without_patience_an_outage_never_ends() -> None:
    outage = Outage(0, None)
    assert outage.step(3) is OutageStep.NOTIFY
    assert outage.left(4) is None and outage.step(1e9) is None
    assert outage.absence(UnreachableError(["a:1"], 1)).gives_up_in is None
