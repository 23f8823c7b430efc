"""Watches of both clients over streams that break, end, and are trimmed."""

from __future__ import annotations

import asyncio
import threading
import time
from random import Random
from typing import Any

import grpc
import pytest

import borough
import fake
from borough.items import EndpointTable
from borough.v1 import cell_pb2, name_pb2, task_pb2, watch_pb2
from fake import FakeGateway, Hang, Refuse, connect, cursor, run

DOWN = Refuse(grpc.StatusCode.UNAVAILABLE, "going down")


def change(stamp: int, index: int, *, more: bool = False) -> watch_pb2.WatchResponse:
    return watch_pb2.WatchResponse(cursor=cursor(stamp), task=task_pb2.Task(index=index), more=more)


def bookmark(stamp: int) -> watch_pb2.WatchResponse:
    return watch_pb2.WatchResponse(cursor=cursor(stamp), bookmark=True)


def published(stamp: int, index: int, incarnation: int = 1, *, more: bool = False) -> name_pb2.WatchEndpointsResponse:
    endpoint = name_pb2.Endpoint(user="alice", job="web", index=index, incarnation=incarnation)
    return name_pb2.WatchEndpointsResponse(cursor=cursor(stamp), published=endpoint, more=more)


def withdrawn(stamp: int, index: int, incarnation: int = 1, *, more: bool = False) -> name_pb2.WatchEndpointsResponse:
    gone = name_pb2.EndpointWithdrawn(user="alice", job="web", index=index, incarnation=incarnation)
    return name_pb2.WatchEndpointsResponse(cursor=cursor(stamp), withdrawn=gone, more=more)


def marked(stamp: int) -> name_pb2.WatchEndpointsResponse:
    return name_pb2.WatchEndpointsResponse(cursor=cursor(stamp), bookmark=True)


def resumes(gateway: FakeGateway, method: str) -> list[int | None]:
    """The stamps from which the streams of a method began."""
    asked = gateway.requests[method]
    return [int.from_bytes(each.resume.stamp, "big") if each.HasField("resume") else None for each in asked]


async def taken(watch: Any, count: int) -> list[Any]:
    items = []
    async for item in watch:
        items.append(item)
        if len(items) == count:
            break
    return items


def summary(item: Any) -> Any:
    """An item with the indexes that it names."""
    if isinstance(item, borough.Change):
        return item.task.index if item.task else "change"
    if isinstance(item, borough.Snapshot):
        return "snapshot", [each.index for each in item.endpoints]
    if isinstance(item, borough.Published):
        return "published", item.endpoint.index
    if isinstance(item, borough.Withdrawn):
        return "withdrawn", item.index
    return type(item).__name__.lower()


def test_a_watch_broken_inside_a_commit_goes_on_without_gap_or_repetition(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.defaults["GetCell"] = lambda _: cell_pb2.GetCellResponse(cursor=cursor(1))
        gateway.scripts["Watch"].extend(
            [
                # Breaks after two of the three changes of stamp 3.
                [change(2, 20), change(3, 30, more=True), change(3, 31, more=True), DOWN],
                # Ends after the first change of the same commit.
                [change(3, 30, more=True)],
                [change(3, 30, more=True), change(3, 31, more=True), change(3, 32)],
                [change(4, 40)],
            ]
        )
        async with connect(face, gateway.address) as client, client.cells.watch() as watch:
            assert [summary(item) for item in await taken(watch, 5)] == [20, 30, 31, 32, 40]
            assert watch.cursor.stamp == cursor(4).stamp
        assert resumes(gateway, "Watch") == [1, 2, 2, 3], "the first starts where the cell was"

    run(work())


def test_a_watch_goes_on_from_a_bookmark_and_skips_changes_that_it_does_not_know(
    face: str, gateway: FakeGateway
) -> None:
    async def work() -> None:
        # A change of a later version: field 900 of the message.
        unknown = watch_pb2.WatchResponse(cursor=cursor(6), more=True)
        unknown.MergeFromString(b"\xa2\x38\x05later")
        gateway.scripts["Watch"].extend(
            [[change(5, 50), unknown, DOWN], [unknown, change(6, 60)], [bookmark(9)], [change(10, 100)]]
        )
        start = borough.Cursor.from_message(cursor(4))
        async with connect(face, gateway.address) as client, client.cells.watch(resume=start) as watch:
            assert [summary(item) for item in await taken(watch, 4)] == [50, 60, "bookmark", 100]
        assert resumes(gateway, "Watch") == [4, 5, 6, 9]

    run(work())


def test_a_trimmed_watch_of_a_cell_yields_one_resync_and_ends(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.defaults["GetCell"] = lambda _: cell_pb2.GetCellResponse(cursor=cursor(1))
        gateway.scripts["Watch"].append([change(2, 20), Refuse(grpc.StatusCode.OUT_OF_RANGE, "list again")])
        async with connect(face, gateway.address) as client:
            items = [item async for item in client.cells.watch()]
        assert len(items) == 2 and items[1] == borough.Resync("list again")

    run(work())


def test_a_refused_watch_raises_and_ends(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.scripts["WatchEndpoints"].append([Refuse(grpc.StatusCode.PERMISSION_DENIED, "not yours")])
        async with connect(face, gateway.address) as client:
            watch = client.names.watch("web")
            with pytest.raises(borough.RefusedError, match="not yours"):
                await taken(watch, 1)
            assert await taken(watch, 1) == []

    run(work())


def test_a_snapshot_that_broke_starts_again_and_is_seen_whole(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.scripts["WatchEndpoints"].extend(
            [
                # Task 7 is gone when the snapshot begins again.
                [published(3, 0, more=True), published(3, 7, more=True)],
                [published(4, 0, more=True), published(4, 1, more=True), marked(4), withdrawn(5, 1)],
                [published(6, 2)],
            ]
        )
        async with connect(face, gateway.address) as client, client.names.watch("web") as watch:
            seen = [summary(item) for item in await taken(watch, 3)]
        assert seen == [("snapshot", [0, 1]), ("withdrawn", 1), ("published", 2)]
        assert resumes(gateway, "WatchEndpoints") == [None, None, 5]

    run(work())


def test_trimmed_endpoints_come_again_as_a_snapshot(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        trimmed = Refuse(grpc.StatusCode.OUT_OF_RANGE, "trimmed")
        gateway.scripts["WatchEndpoints"].extend(
            [[trimmed], [published(8, 3, more=True), marked(8)], [trimmed], [marked(9)]]
        )
        start = borough.Cursor.from_message(cursor(2))
        async with connect(face, gateway.address) as client, client.names.watch(user="alice", resume=start) as watch:
            seen = [summary(item) for item in await taken(watch, 4)]
        assert seen == ["resync", ("snapshot", [3]), "resync", ("snapshot", [])]
        assert resumes(gateway, "WatchEndpoints") == [2, None, 8, None]

    run(work())


def test_a_watch_gives_up_after_its_patience(face: str, gateway: FakeGateway, closed_port: str) -> None:
    async def work() -> None:
        gateway.defaults["WatchEndpoints"] = lambda _: [DOWN]
        for address in (gateway.address, closed_port):
            async with connect(face, address, patience=0.2) as client:
                with pytest.raises(borough.UnreachableError) as caught:
                    await taken(client.names.watch("web"), 1)
                assert caught.value.attempts >= 1

    run(work())


def test_a_watch_without_a_gateway_says_so_once_and_goes_on(face: str, closed_port: str) -> None:
    async def work() -> None:
        async with connect(face, closed_port, patience=600) as client:
            start = borough.Cursor.from_message(cursor(7))
            async with client.names.watch("web", resume=start) as watch:
                (absent,) = await taken(watch, 1)
                assert isinstance(absent, borough.Absent) and absent.gives_up_in == 597
                assert isinstance(absent.error, borough.UnreachableError)
                # Nothing has changed, and the reader hears that a gateway answers again.
                with fake.gateway(closed_port) as gateway:
                    (again,) = await taken(watch, 1)
                    assert again == borough.Bookmark(start)
                    assert resumes(gateway, "WatchEndpoints")[-1] == 7

    run(work())


def test_a_reader_that_stops_waiting_loses_nothing(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.scripts["WatchEndpoints"].append([marked(1), Hang()])
        async with connect(face, gateway.address) as client, client.names.watch("web") as watch:
            assert summary(await watch.poll(5)) == ("snapshot", [])
            for _ in range(3):
                assert await watch.poll(0.05) is None
            assert resumes(gateway, "WatchEndpoints") == [None], "one stream has served all of them"

    run(work())


def test_a_task_that_is_cancelled_in_a_watch_can_go_on_with_it(gateway: FakeGateway) -> None:
    async def work() -> None:
        go = threading.Event()

        def stream(_: Any) -> Any:
            yield marked(1)
            go.wait(10)
            yield published(2, 0)
            yield Hang()

        gateway.defaults["WatchEndpoints"] = stream
        async with connect("asyncio", gateway.address) as client, client.names.watch("web") as watch:
            await anext(watch)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(watch), 0.1)
            go.set()
            assert summary(await anext(watch)) == ("published", 0)

    run(work())


def test_closing_ends_whoever_waits_and_leaves_no_task_and_no_thread(gateway: FakeGateway) -> None:
    gateway.defaults["WatchEndpoints"] = lambda _: [marked(1), Hang()]

    async def work() -> None:
        async with connect("asyncio", gateway.address) as client:
            before = asyncio.all_tasks()
            watch = client.names.watch("web")
            await anext(watch)
            waiting = asyncio.ensure_future(taken(watch, 1))
            await asyncio.sleep(0.05)
            await watch.close()
            assert await waiting == []
            while asyncio.all_tasks() != before:
                await asyncio.sleep(0.01)

    run(work())
    with borough.Client(gateway.address, user="alice", cell="alpha") as client:
        watch = client.names.watch("web")
        next(watch)
        ended: list[Any] = []
        waiting = threading.Thread(target=lambda: ended.append(list(watch)))
        waiting.start()
        watch.close()
        waiting.join(5)
        assert ended == [[]]
        assert not [each for each in threading.enumerate() if each.name == "borough-stream"]


def test_closing_leaves_no_thread_that_holds_what_nobody_reads(gateway: FakeGateway) -> None:
    gateway.defaults["WatchEndpoints"] = lambda _: [marked(stamp) for stamp in range(1, 1_000)]
    with borough.Client(gateway.address, user="alice", cell="alpha") as client:
        watch = client.names.watch("web")
        next(watch)
        stream = watch._follower._stream
        assert stream is not None
        while len(stream._held) < 64:
            time.sleep(0.01)
        watch.close()
        assert not [each for each in threading.enumerate() if each.name == "borough-stream"]


def test_a_closed_watch_that_pauses_ends_as_well(closed_port: str) -> None:
    with borough.Client(
        closed_port, user="alice", cell="alpha", retry=borough.RetryPolicy(backoff=30, backoff_max=60)
    ) as client:
        watch = client.names.watch("web")
        waiting = threading.Thread(target=lambda: list(watch))
        waiting.start()
        waiting.join(0.3)
        watch.close()
        waiting.join(5)
        assert not waiting.is_alive()


class Model:
    """A journal of endpoints, and a gateway that serves it with random faults."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.commits: list[list[tuple[str, int, int]]] = []
        self.trims = 0
        incarnations = dict.fromkeys(range(4), 0)
        live: set[int] = set()
        for _ in range(30):
            commit = []
            for index in self.random.sample(range(4), self.random.randint(1, 3)):
                if index in live:
                    live.discard(index)
                    commit.append(("withdrawn", index, incarnations[index]))
                else:
                    live.add(index)
                    incarnations[index] += 1
                    commit.append(("published", index, incarnations[index]))
            self.commits.append(commit)

    def state_at(self, stamp: int) -> dict[int, int]:
        state: dict[int, int] = {}
        for commit in self.commits[:stamp]:
            for kind, index, incarnation in commit:
                if kind == "published":
                    state[index] = incarnation
                else:
                    state.pop(index)
        return state

    def stream(self, request: name_pb2.WatchEndpointsRequest) -> Any:
        """A stream that may break after any message. The last commits are only sent once nothing breaks any more."""
        messages: list[Any] = []
        if request.HasField("resume"):
            start = int.from_bytes(request.resume.stamp, "big")
            if self.random.random() < 0.15 and self.trims < 3:
                self.trims += 1
                return [Refuse(grpc.StatusCode.OUT_OF_RANGE, "trimmed")]
        else:
            start = self.random.randint(0, len(self.commits))
            state = sorted(self.state_at(start).items())
            messages = [published(start, index, incarnation, more=True) for index, incarnation in state]
            messages.append(marked(start))
        for stamp in range(start + 1, len(self.commits) + 1):
            commit = self.commits[stamp - 1]
            for at, (kind, index, incarnation) in enumerate(commit, start=1):
                make = published if kind == "published" else withdrawn
                messages.append(make(stamp, index, incarnation, more=at < len(commit)))
            if self.random.random() < 0.3:
                messages.append(marked(stamp))
        if self.random.random() < 0.85:
            cut = self.random.randint(0, len(messages))
            return [*messages[:cut], self.random.choice([DOWN, Refuse(grpc.StatusCode.DEADLINE_EXCEEDED)])][: cut + 1]
        return [*messages, marked(len(self.commits)), Hang()]


@pytest.mark.parametrize("seed", range(12))
def test_random_faults_neither_lose_nor_repeat(face: str, seed: int) -> None:
    async def work() -> None:
        model = Model(seed)
        with fake.gateway() as one, fake.gateway() as other:
            for each in (one, other):
                each.defaults["WatchEndpoints"] = model.stream
            quick = borough.RetryPolicy(backoff=0.001, backoff_max=0.002)
            async with (
                connect(face, one.address, other.address, retry=quick) as client,
                client.names.watch("web") as watch,
            ):
                table, log, last = EndpointTable(), [], b""
                async for item in watch:
                    if isinstance(item, borough.Snapshot):
                        stamp = int.from_bytes(item.cursor.stamp, "big")
                        assert {each.index: each.incarnation for each in item.endpoints} == model.state_at(stamp)
                        log = [change for commit in model.commits[:stamp] for change in commit]
                    elif isinstance(item, borough.Published):
                        log.append(("published", item.endpoint.index, item.endpoint.incarnation))
                    elif isinstance(item, borough.Withdrawn):
                        log.append(("withdrawn", item.index, item.incarnation))
                    table.apply(item)
                    if watch.cursor is not None and not isinstance(item, borough.Snapshot):
                        assert watch.cursor.stamp >= last
                    last = watch.cursor.stamp if watch.cursor is not None else b""
                    if isinstance(item, borough.Bookmark) and item.cursor.stamp == cursor(len(model.commits)).stamp:
                        break
                assert log == [change for commit in model.commits for change in commit]
                assert {each.index: each.incarnation for each in table} == model.state_at(len(model.commits))

    run(work())
