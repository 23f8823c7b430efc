"""Logs, commands and waits of both clients against a gateway that fails as a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

import borough
from borough.v1 import job_pb2, task_pb2, watch_pb2
from fake import FakeGateway, Hang, Refuse, connect, cursor, run

DOWN = Refuse(grpc.StatusCode.UNAVAILABLE, "going down")


def part(data: bytes, offset: int) -> task_pb2.ReadLogsResponse:
    position = task_pb2.LogPosition(offset=offset)
    message = task_pb2.ReadLogsResponse(data=data, incarnation=3, next=position)
    message.stream = task_pb2.ReadLogsRequest.STDOUT
    return message


END = task_pb2.ReadLogsResponse(end=True, incarnation=3)


def away(reason: str) -> Refuse:
    return Refuse(grpc.StatusCode.UNAVAILABLE, "n1 does not answer", error_details_pb2.ErrorInfo(reason=reason))


def test_a_log_goes_on_behind_what_was_delivered(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.scripts["ReadLogs"].extend(
            [[part(b"", 0), part(b"ab", 2), DOWN], [part(b"c", 3)], [part(b"d", 4), END]]
        )
        async with connect(face, gateway.address) as client:
            assert await client.tasks.logs("web/0", follow=True).read_all() == b"abcd"
        asked = gateway.requests["ReadLogs"]
        assert [each.stdout_from.offset for each in asked] == [0, 2, 3]
        assert [each.incarnation for each in asked] == [0, 3, 3], "no later attempt is read"

    run(work())


def test_a_log_waits_for_an_agent_that_is_away_and_says_so_once(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.scripts["ReadLogs"].extend([[away("NODE_SILENT")]] * 3 + [[part(b"x", 1), END]])
        waits: list[Any] = []
        async with connect(face, gateway.address) as client:
            assert await client.tasks.logs("web/0", follow=True, on_wait=waits.append).read_all() == b"x"
            assert [type(each) for each in waits] == [borough.AgentAway]
            gateway.scripts["ReadLogs"].append([away("NODE_SILENT")])
            with pytest.raises(borough.RefusedError):
                await client.tasks.logs("web/0").read_all()

    run(work())


def test_a_log_of_an_unknown_task_is_refused(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.scripts["ReadLogs"].append([Refuse(grpc.StatusCode.NOT_FOUND, "no task")])
        async with connect(face, gateway.address) as client:
            with pytest.raises(borough.RefusedError, match="no task"):
                await client.tasks.logs("web/9").read_all()

    run(work())


def test_an_older_gateway_without_positions_is_not_read_twice(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        old = task_pb2.ReadLogsResponse(data=b"ab")
        gateway.scripts["ReadLogs"].extend([[old], [old, DOWN]])
        async with connect(face, gateway.address) as client:
            assert await client.tasks.logs("web/0").read_all() == b"ab"
            with pytest.raises(borough.UnreachableError):
                await client.tasks.logs("web/0").read_all()

    run(work())


def test_a_log_is_read_as_far_as_it_comes_in_time(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.scripts["ReadLogs"].append([part(b"ab", 2), Hang()])
        async with connect(face, gateway.address) as client, client.tasks.logs("web/0", follow=True) as reader:
            assert await reader.read_all(timeout=0.3) == b"ab"

    run(work())


def echo(code: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A command that writes its input, and its length to the standard error."""

    def script(requests: Iterator[Any]) -> Iterator[Any]:
        size = 0
        for request in requests:
            if request.stdin_closed:
                break
            size += len(request.stdin)
            yield task_pb2.ExecResponse(stdout=request.stdin)
        yield task_pb2.ExecResponse(stderr=str(size).encode())
        yield task_pb2.ExecResponse(exit=task_pb2.ExecExit(code=code))

    return script


def test_a_command_gets_its_input_and_gives_its_output(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.scripts["Exec"].extend([echo(7), echo(0)])
        data = bytes(range(256)) * 4_000
        async with connect(face, gateway.address) as client:
            result = await client.tasks.run("web/0", ["cat"], input=data)
            assert (result.stdout == data, result.stderr, result.code) == (True, b"1024000", 7)
            async with client.tasks.exec("web/0", ["cat"]) as command:
                await command.write(b"one")
                output = await taken_one(command)
                assert (output.stream, output.data) == (borough.LogStream.STDOUT, b"one")
                await command.close_input()
                assert [each.data async for each in command] == [b"3"]
                assert command.exit.code == 0
        assert gateway.requests["Exec"][0].open.command == ["cat"]

    run(work())


async def taken_one(items: Any) -> Any:
    async for item in items:
        return item
    raise AssertionError("nothing came")


def test_a_command_is_sent_once_and_only_past_gateways_that_never_heard_of_it(
    face: str, gateway: FakeGateway, closed_port: str
) -> None:
    async def work() -> None:
        # One is refused at its begin, and the stream of the other breaks.
        gateway.scripts["Exec"].extend([echo(0), DOWN, lambda _: iter([DOWN])])
        async with connect(face, closed_port, gateway.address) as client:
            assert (await client.tasks.run("web/0", ["true"])).code == 0
            for _ in range(2):
                with pytest.raises(borough.UnreachableError) as caught:
                    await client.tasks.run("web/0", ["true"])
                assert caught.value.changes
            with pytest.raises(borough.InvalidError, match="command"):
                client.tasks.exec("web/0", "true")
        assert len(gateway.requests["Exec"]) == 3

    run(work())


def test_a_refusal_that_overtakes_the_input_is_not_hidden(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        # The stream may end while its first message is on the way. Often enough, it does.
        tries = 200
        gateway.scripts["Exec"].extend([Refuse(grpc.StatusCode.NOT_FOUND, "no task")] * tries)
        async with connect(face, gateway.address) as client:
            for _ in range(tries):
                with pytest.raises(borough.RefusedError, match="no task"):
                    await client.tasks.run("web/9", ["true"], input=b"x" * 100_000)

    run(work())


def job(state: Any, revision: int, **more: Any) -> job_pb2.Job:
    row = job_pb2.Job(id="j1", user="alice", name="web", count=1, revision=revision, **more)
    row.state, row.kind = state, job_pb2.JOB_KIND_SERVICE
    return row


def task(revision: int, *, healthy: bool, **more: Any) -> task_pb2.Task:
    row = task_pb2.Task(job_id="j1", user="alice", job="web", revision=revision, **more)
    row.state = task_pb2.TASK_STATE_RUNNING
    row.health = task_pb2.HEALTH_HEALTHY if healthy else task_pb2.HEALTH_UNKNOWN
    return row


@pytest.fixture
def waiting(gateway: FakeGateway) -> FakeGateway:
    """A service with a task that is not healthy yet."""
    running = job(job_pb2.JOB_STATE_RUNNING, 1)
    gateway.defaults["GetJob"] = lambda _: job_pb2.GetJobResponse(job=running, cursor=cursor(1))
    gateway.defaults["ListTasks"] = lambda _: task_pb2.ListTasksResponse(tasks=[task(1, healthy=False)])
    explained = task_pb2.ExplainTaskResponse(explanations=[task_pb2.Explanation(indexes=[0], summary="it starts")])
    gateway.defaults["ExplainTask"] = lambda _: explained
    gateway.defaults["ReadLogs"] = lambda _: [part(b"oops\n", 5), END]
    return gateway


def test_a_wait_ends_when_the_task_is_healthy(face: str, waiting: FakeGateway) -> None:
    async def work() -> None:
        change = watch_pb2.WatchResponse(cursor=cursor(2), task=task(2, healthy=True))
        waiting.scripts["Watch"].extend([[DOWN], [change]])
        shown: list[str] = []
        async with connect(face, waiting.address) as client:
            result = await client.jobs.wait("web", timeout=20, on_progress=shown.append)
        assert (result.outcome, result.text) == (borough.Outcome.HEALTHY, "alice/web: 1/1 healthy")
        assert shown == ["alice/web: 0/1 healthy, 1 not healthy yet"]

    run(work())


def test_a_wait_lists_again_after_a_trim(face: str, waiting: FakeGateway) -> None:
    async def work() -> None:
        waiting.scripts["Watch"].append([Refuse(grpc.StatusCode.OUT_OF_RANGE, "list again")])
        waiting.scripts["ListTasks"].extend(
            task_pb2.ListTasksResponse(tasks=[task(revision, healthy=revision == 2)]) for revision in (1, 2)
        )
        async with connect(face, waiting.address) as client:
            assert (await client.jobs.wait("web", timeout=20)).outcome is borough.Outcome.HEALTHY

    run(work())


def test_a_wait_that_runs_out_says_what_it_waited_for(face: str, waiting: FakeGateway) -> None:
    async def work() -> None:
        async with connect(face, waiting.address) as client:
            for limits in ({"timeout": 0.2}, {"progress_deadline": 0.2}):
                with pytest.raises(borough.WaitError) as caught:
                    await client.jobs.wait("web", **limits)
                result = caught.value.result
                assert result.outcome is borough.Outcome.TIMEOUT and "the job goes on" in result.text
                assert result.details == ("1 task: it starts", "the last lines of alice/web/0:", "  oops")
            assert not (await client.jobs.wait("web", timeout=0.1, check=False)).is_reached

    run(work())


def test_a_wait_shows_the_output_of_the_helper_that_failed(face: str, waiting: FakeGateway) -> None:
    async def work() -> None:
        row = task(2, healthy=False, failures=1, exit=task_pb2.Exit(incarnation=3, helper="migrate"))
        row.state = task_pb2.TASK_STATE_DEAD
        waiting.scripts["Watch"].append([watch_pb2.WatchResponse(cursor=cursor(2), task=row)])
        async with connect(face, waiting.address) as client:
            with pytest.raises(borough.WaitError, match="the last lines of helper migrate of alice/web/0:\n    oops"):
                await client.jobs.wait("web")
        (asked,) = waiting.requests["ReadLogs"]
        assert (asked.helper, asked.incarnation) == ("migrate", 3)

    run(work())


def test_a_wait_for_the_end_accepts_every_end(face: str, waiting: FakeGateway) -> None:
    async def work() -> None:
        stopped = watch_pb2.WatchResponse(cursor=cursor(2), job=job(job_pb2.JOB_STATE_STOPPED, 2), actor="user/bob")
        waiting.scripts["Watch"].extend([[stopped], [stopped]])
        async with connect(face, waiting.address) as client:
            assert (await client.jobs.wait("web", ended=True)).outcome is borough.Outcome.STOPPED
            with pytest.raises(borough.WaitError, match="was stopped meanwhile by bob"):
                await client.jobs.wait("web")

    run(work())
