"""Calls of both clients against a gateway that fails as a test says."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

import borough
import fake
from borough.errors import Code
from borough.v1 import audit_pb2, common_pb2, job_pb2
from fake import FakeGateway, Hang, Refuse, connect, run

UNAVAILABLE = Refuse(grpc.StatusCode.UNAVAILABLE, "starting")
SPEC = borough.job("web", ["run"])


def submitted(_: Any) -> job_pb2.SubmitJobResponse:
    return job_pb2.SubmitJobResponse(job=job_pb2.Job(id="j1", name="web"), changed=True)


@pytest.fixture(autouse=True)
def admits(gateway: FakeGateway) -> None:
    gateway.defaults["SubmitJob"] = submitted


def ids(gateway: FakeGateway) -> list[str]:
    return [request.context.request_id for request in gateway.requests["SubmitJob"]]


def test_a_change_is_repeated_under_its_one_request_id(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.scripts["SubmitJob"].extend([UNAVAILABLE, UNAVAILABLE])
        async with connect(face, gateway.address) as client:
            assert (await client.jobs.submit(SPEC)).changed
            await client.jobs.submit(SPEC)
        first, second, third, other = ids(gateway)
        assert first == second == third != other
        assert len(first) == 32 and int(first, 16) >= 0

    run(work())


def test_a_given_request_id_is_sent_and_another_form_is_refused(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        async with connect(face, gateway.address) as client:
            await client.jobs.submit(SPEC, request_id="0" * 30 + "ff")
            assert ids(gateway) == ["0" * 30 + "ff"]
            with pytest.raises(borough.InvalidError, match="request_id"):
                await client.jobs.submit(SPEC, request_id="mine")

    run(work())


def test_the_budget_of_tries_ends(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.scripts["SubmitJob"].extend([UNAVAILABLE] * 10)
        async with connect(face, gateway.address) as client:
            with pytest.raises(borough.UnreachableError) as caught:
                await client.jobs.submit(SPEC)
        assert caught.value.attempts == 4 == len(ids(gateway))
        assert caught.value.changes and gateway.address in str(caught.value)

    run(work())


def busy(reason: str) -> Refuse:
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(20)
    return Refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much", error_details_pb2.ErrorInfo(reason=reason), retry)


def test_a_call_comes_back_when_a_busy_gateway_says(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        # Oftener than a gateway that is away is asked.
        gateway.scripts["SubmitJob"].extend([busy("OVERLOADED")] * 9)
        async with connect(face, gateway.address) as client:
            assert (await client.jobs.submit(SPEC)).changed
            assert len(ids(gateway)) == 10
            gateway.scripts["SubmitJob"].append(busy("JOURNAL_FULL"))
            with pytest.raises(borough.RefusedError) as caught:
                await client.jobs.submit(SPEC)
            assert (caught.value.reason, caught.value.retry_after) == ("JOURNAL_FULL", 0.02)
        gateway.scripts["SubmitJob"].extend([busy("OVERLOADED")] * 100)
        async with connect(face, gateway.address, deadline=0.3) as client:
            with pytest.raises(borough.RefusedError) as caught:
                await client.jobs.submit(SPEC)
            assert caught.value.code is Code.RESOURCE_EXHAUSTED

    run(work())


def test_the_next_gateway_answers_for_one_that_is_gone(face: str, gateway: FakeGateway, closed_port: str) -> None:
    async def work() -> None:
        async with connect(face, closed_port, gateway.address) as client:
            for _ in range(3):
                assert (await client.jobs.submit(SPEC)).changed
        assert len(ids(gateway)) == 3

    run(work())


def test_the_next_gateway_answers_for_one_that_is_silent(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        with fake.gateway() as silent:
            silent.scripts["SubmitJob"].append(Hang())
            async with connect(face, silent.address, gateway.address, deadline=2.0) as client:
                assert (await client.jobs.submit(SPEC)).changed
                assert (await client.jobs.submit(SPEC)).changed
            first, *others = ids(gateway)
            assert ids(silent) == [first], "the same change, and the silent gateway rests"
            assert len(others) == 1

    run(work())


def test_every_address_that_does_not_answer_is_named(face: str, closed_port: str) -> None:
    async def work() -> None:
        async with connect(face, closed_port, "127.0.0.1:1") as client:
            with pytest.raises(borough.UnreachableError) as caught:
                await client.jobs.submit(SPEC)
        assert closed_port in str(caught.value) and "127.0.0.1:1" in str(caught.value)
        assert not caught.value.changes, "no gateway has heard of it"

    run(work())


def test_a_call_ends_with_its_deadline(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.scripts["SubmitJob"].append(Hang())
        gateway.scripts["GetJob"].append(Hang())
        async with connect(face, gateway.address, deadline=0.2) as client:
            with pytest.raises(borough.DeadlineError) as caught:
                await client.jobs.submit(SPEC)
            assert caught.value.changes and caught.value.method == "SubmitJob"
            with pytest.raises(borough.DeadlineError) as caught:
                await client.jobs.get("web")
            assert not caught.value.changes and gateway.address in str(caught.value)

    run(work())


def test_a_refusal_is_not_repeated_and_keeps_its_details(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        bad = error_details_pb2.BadRequest()
        bad.field_violations.add(field="count", description="2000000; accepted: 0 to 100000")
        gateway.scripts["SubmitJob"].append(Refuse(grpc.StatusCode.INVALID_ARGUMENT, "count: 2000000", bad))
        async with connect(face, gateway.address) as client:
            with pytest.raises(borough.RefusedError, match="count: 2000000") as caught:
                await client.jobs.submit(SPEC)
        assert caught.value.code is Code.INVALID_ARGUMENT
        assert caught.value.fields == (borough.FieldViolation("count", "2000000; accepted: 0 to 100000"),)
        assert len(ids(gateway)) == 1

    run(work())


def test_every_page_is_fetched_when_its_first_row_is_asked_for(face: str, gateway: FakeGateway) -> None:
    def pages(request: job_pb2.ListJobsRequest) -> job_pb2.ListJobsResponse:
        at = int(request.page.page or 0)
        assert request.page.limit == 1
        return job_pb2.ListJobsResponse(jobs=[job_pb2.Job(name=f"job-{at}")], next_page=str(at + 1) if at < 2 else "")

    async def work() -> None:
        gateway.defaults["ListJobs"] = pages
        async with connect(face, gateway.address) as client:
            assert [job.name async for job in client.jobs.list(page=1)] == ["job-0", "job-1", "job-2"]
            gateway.requests["ListJobs"].clear()
            async for _ in client.jobs.list(page=1):
                break
            assert len(gateway.requests["ListJobs"]) == 1
            with pytest.raises(borough.InvalidError, match="page"):
                [job async for job in client.jobs.list(page=1001)]

    run(work())


def test_the_audit_is_listed_by_all_that_is_asked_over_pages_that_may_be_empty(face: str, gateway: FakeGateway) -> None:
    refused = audit_pb2.AuditedCall(method="JobService/StopJob", by="user/eve")

    def pages(request: audit_pb2.ListAuditRequest) -> audit_pb2.ListAuditResponse:
        assert (request.filter.by, request.filter.outcome) == ("eve", audit_pb2.AUDIT_OUTCOME_REFUSED)
        if not request.page.page:
            return audit_pb2.ListAuditResponse(next_page="second")
        return audit_pb2.ListAuditResponse(calls=[refused])

    async def work() -> None:
        gateway.defaults["ListAudit"] = pages
        asked = borough.AuditFilter(by="eve", outcome=borough.AuditOutcome.REFUSED)
        async with connect(face, gateway.address) as client:
            assert [call.method async for call in client.audit.list(asked)] == ["JobService/StopJob"]
            with pytest.raises(borough.InvalidError, match="calls"):
                [call async for call in client.audit.list("eve")]

    run(work())


def test_the_token_of_a_file_is_sent_without_its_line_end(face: str, gateway: FakeGateway, tmp_path: Path) -> None:
    async def work() -> None:
        path = tmp_path / "token"
        path.write_text("s3cret\n")
        async with connect(face, gateway.address, token_file=path) as client:
            await client.jobs.submit(SPEC)
            assert gateway.metadata[0]["authorization"] == "Bearer s3cret"
            assert "s3cret" not in repr(client.config)
            refused = Refuse(grpc.StatusCode.UNAUTHENTICATED, "no", error_details_pb2.ErrorInfo(reason="TOKEN_MISSING"))
            gateway.scripts["SubmitJob"].append(refused)
            with pytest.raises(borough.TokenRefusedError, match=f"does not accept the token of the file {path}"):
                await client.jobs.submit(SPEC)

    run(work())


def test_what_is_no_gateway_is_named(face: str) -> None:
    def web(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=web, args=(listener,), daemon=True).start()
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            async with connect(face, address) as client:
                with pytest.raises(borough.NotGatewayError, match=f"{address} is no gateway"):
                    await client.cells.list()
            listener.shutdown(socket.SHUT_RDWR)

    run(work())


def test_a_gateway_that_does_not_encrypt_is_recognized(face: str, gateway: FakeGateway) -> None:
    # Any authority will do: the handshake does not come so far.
    roots = Path(grpc.__file__).parent / "_cython" / "_credentials" / "roots.pem"

    async def work() -> None:
        async with connect(face, gateway.address, tls=borough.Tls(ca=roots)) as client:
            with pytest.raises(borough.NotGatewayError, match="is no gateway that encrypts"):
                await client.jobs.get("web")

    run(work())


def test_other_scopes_share_the_connections(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        async with connect(face, gateway.address) as client:
            other = client.scoped(user="bob", cell="beta")
            await other.jobs.submit(SPEC)
            await client.jobs.submit(SPEC)
        sent = [(request.context.user, request.spec.user, request.cell) for request in gateway.requests["SubmitJob"]]
        assert sent == [("bob", "bob", "beta"), ("alice", "alice", "alpha")]
        with pytest.raises(borough.ClosedError):
            await other.jobs.submit(SPEC)

    run(work())


def test_a_spec_is_sent_as_it_was_read(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        spec = borough.job("web", ["run"]).to_message()
        # A field of a later version: number 900, a text.
        spec.MergeFromString(b"\xa2\x38\x05later")
        spec.task.MergeFromString(b"\xa2\x38\x05inner")
        answer = job_pb2.GetJobResponse(job=job_pb2.Job(name="web"), spec=spec, cursor=common_pb2.Cursor())
        gateway.scripts["GetJob"].append(answer)
        async with connect(face, gateway.address) as client:
            details = await client.jobs.describe("web")
            await client.jobs.submit(details.spec)
        spec.user = "alice"
        assert gateway.requests["SubmitJob"][0].spec == spec

    run(work())


def test_an_agent_that_is_away_is_a_refusal_after_all_tries(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        info = error_details_pb2.ErrorInfo(reason="AGENT_AWAY", metadata={"node": "n1"})
        gateway.scripts["RestartTask"].extend([Refuse(grpc.StatusCode.UNAVAILABLE, "n1 is away", info)] * 9)
        async with connect(face, gateway.address) as client:
            with pytest.raises(borough.RefusedError) as caught:
                await client.tasks.restart("web/0")
        assert caught.value.refusal.is_agent_away and caught.value.metadata["node"] == "n1"
        assert len(gateway.requests["RestartTask"]) == 4

    run(work())


async def use(client: Any, what: str) -> None:
    """Does something that a gateway does not end."""
    if what == "call":
        await client.jobs.get("web")
    elif what == "watch":
        [item async for item in client.names.watch("web")]
    elif what == "logs":
        await client.tasks.logs("web/0", follow=True).read_all()
    else:
        async with client.tasks.exec("web/0", ["cat"]) as command:
            [output async for output in command]


def use_blocking(gateway: FakeGateway, what: str, begun: Any) -> list[type[BaseException]]:
    """The errors of a blocking client that another thread closes."""
    client = connect("blocking", gateway.address)
    ends: list[type[BaseException]] = []

    def other_thread() -> None:
        try:
            run(use(client, what))
        except BaseException as error:
            ends.append(type(error))

    running = threading.Thread(target=other_thread)
    running.start()
    while not begun():
        time.sleep(0.01)
    client.close()
    running.join(10)
    return ends


@pytest.mark.parametrize("what", ["call", "watch", "logs", "exec"])
def test_closing_the_client_ends_what_runs(face: str, what: str, gateway: FakeGateway) -> None:
    """Each gets an error that says so, and no cancellation that it did not ask for."""
    gateway.scripts["GetJob"].append(Hang())
    gateway.scripts["ReadLogs"].append([Hang()])
    gateway.scripts["Exec"].append(lambda requests: (next(requests) for _ in iter(int, 1)))

    def begun() -> bool:
        return any(gateway.requests[name] for name in ("GetJob", "WatchEndpoints", "ReadLogs", "Exec"))

    async def work() -> None:
        client = connect(face, gateway.address)
        running = asyncio.ensure_future(use(client, what))
        while not begun():
            await asyncio.sleep(0.01)
        await client.close()
        with pytest.raises(borough.ClosedError):
            await running

    if face == "asyncio":
        run(work())
    else:
        assert use_blocking(gateway, what, begun) == [borough.ClosedError]
