"""Resumption against models: however often a stream breaks, everything comes once and in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from borough.log_resumption import LogResumption
from borough.resumption import Resumption, is_before
from borough.v1 import Cursor, task_pb2


def cursor(stamp: int, epoch: int = 1) -> Cursor:
    return Cursor(store_epoch=epoch, stamp=stamp.to_bytes(10, "big"))


def journal(commits: list[tuple[int, bool]]) -> list[tuple[int, int | None, bool]]:
    """The messages of a gateway: stamp, change or bookmark, and whether more of the commit follow."""
    sent: list[tuple[int, int | None, bool]] = []
    number = 0
    for stamp, (changes, is_marked) in enumerate(commits, start=1):
        for left in range(changes, 0, -1):
            number += 1
            sent.append((stamp, number, left > 1))
        if is_marked:
            sent.append((stamp, None, False))
    return sent


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=20),
    st.lists(st.integers(0, 12), max_size=12),
    st.booleans(),
)
def test_breaks_neither_lose_nor_repeat(commits: list[tuple[int, bool]], breaks: list[int], says_more: bool) -> None:
    """Also if the gateway does not say where a commit ends: then the next cursor and the bookmarks do."""
    sent = journal(commits)
    resumption = Resumption(cursor(0))
    delivered = []
    for limit in [*breaks, len(sent) + 1]:
        base = resumption.reopened()
        assert base is not None
        stream = [each for each in sent if cursor(each[0]).stamp > base.stamp]
        for stamp, change, more in stream[:limit]:
            if change is None:
                resumption.complete(cursor(stamp))
                continue
            if resumption.accept(cursor(stamp)):
                delivered.append(change)
            if says_more and not more:
                resumption.complete(cursor(stamp))
    assert delivered == [change for _, change, _ in sent if change is not None]


def test_what_is_complete_is_not_delivered_again() -> None:
    resumption = Resumption(cursor(5))
    assert not resumption.accept(cursor(5))
    assert resumption.accept(cursor(6))
    resumption.complete(cursor(6))
    assert resumption.reopened() == cursor(6)
    assert not resumption.accept(cursor(6))
    assert resumption.accept(cursor(7))


def test_a_later_commit_completes_the_one_before() -> None:
    resumption = Resumption(cursor(5))
    assert resumption.accept(cursor(6)) and resumption.accept(cursor(6)) and resumption.accept(cursor(7))
    assert resumption.reopened() == cursor(6)


def test_a_late_bookmark_does_not_go_back() -> None:
    resumption = Resumption(cursor(5))
    assert resumption.accept(cursor(7))
    resumption.complete(cursor(6))
    assert not resumption.accept(cursor(6))
    assert resumption.reopened() == cursor(5)


def test_a_snapshot_starts_again_until_it_is_complete() -> None:
    resumption = Resumption(None)
    assert resumption.accept(cursor(3)) and resumption.in_snapshot
    assert resumption.reopened() is None
    assert resumption.accept(cursor(3))
    resumption.complete(cursor(3))
    assert resumption.reopened() == cursor(3)


def test_cursors_of_different_epochs_have_no_order() -> None:
    assert is_before(cursor(1), cursor(2))
    assert not is_before(cursor(1, epoch=1), cursor(2, epoch=2))
    assert not is_before(cursor(2, epoch=2), cursor(1, epoch=1))


def sent_log(texts: list[bytes], file: int, request: task_pb2.ReadLogsRequest) -> list[task_pb2.ReadLogsResponse]:
    """What an agent sends of an attempt with one text per stream, in files of `file` bytes."""
    parts: list[task_pb2.ReadLogsResponse] = []
    starts = [request.stdout_from, request.stderr_from]
    for number, (text, start) in enumerate(zip(texts, starts, strict=True), start=1):

        def part(data: bytes, at: tuple[int, int], number: int = number) -> task_pb2.ReadLogsResponse:
            position = task_pb2.LogPosition(file=at[0], offset=at[1])
            message = task_pb2.ReadLogsResponse(data=data, incarnation=3, next=position)
            message.stream = number  # type: ignore[assignment]
            return message

        at = (start.file, start.offset)
        parts.append(part(b"", at))
        while sum(at) < len(text):
            if at[1] == file:
                at = (sum(at), 0)
            data = text[sum(at) : min(at[0] + file, sum(at) + 2)]
            at = (at[0], at[1] + len(data))
            parts.append(part(data, at))
    parts.append(task_pb2.ReadLogsResponse(end=True, incarnation=3))
    return parts


@given(st.binary(max_size=30), st.binary(max_size=30), st.integers(1, 12), st.lists(st.integers(0, 12), max_size=8))
def test_breaks_of_a_log_neither_lose_nor_repeat(out: bytes, err: bytes, file: int, breaks: list[int]) -> None:
    resumption = LogResumption(task_pb2.ReadLogsRequest())
    seen = [bytearray(), bytearray()]
    for limit in [*breaks, 1_000]:
        parts = sent_log([out, err], file, resumption.request)[:limit]
        for part in parts:
            resumption.delivered(part)
            if part.data:
                seen[part.stream - 1] += part.data
        if parts and parts[-1].end:
            break
    assert [bytes(each) for each in seen] == [out, err]
    assert resumption.request.incarnation == 3, "no later attempt is read"


def test_what_an_older_gateway_has_sent_cannot_be_gone_on_with() -> None:
    resumption = LogResumption(task_pb2.ReadLogsRequest())
    resumption.delivered(task_pb2.ReadLogsResponse())
    assert not resumption.is_lost and not resumption.is_positioned
    resumption.delivered(task_pb2.ReadLogsResponse(data=b"x"))
    assert resumption.is_lost and not resumption.is_positioned
