# Generated from ../_async by `generate`. Do not edit.
"""The common path of every call: metadata, deadline, tries over the gateways, decoded refusals."""

from __future__ import annotations

import contextlib
import random
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from google.protobuf.message import Message

from .._transport.blocking import Duplex, Stream, Transport, sleep
from .._transport.common import Ended, NotYet, StatusError
from ..config import ClientConfig
from ..dry_run import DryRun
from ..errors import ClosedError, Code, IncompleteError, InvalidError, Refusal
from ..methods import Method
from ..requests import INT32_MAX, require_kind, whole
from ..results import Selector
from ..rotation import Rotation
from ..status import Status
from ..tries import Tries, failed_once
from ..v1 import common_pb2, dry_run_pb2, methods

Q = TypeVar("Q", bound=Message)
S = TypeVar("S", bound=Message)

_REQUEST_ID = re.compile(r"[0-9a-f]{32}")
# A try that this client ends itself ends a little before its deadline, by the clock of the transport.
_EARLY = 0.02
_LATE = Status(Refusal(Code.DEADLINE_EXCEEDED, "the gateway did not answer in time"))


class Caller:
    """What the services of a client share: its settings, its connections, and the gateway in use."""

    def __init__(self, config: ClientConfig, shared: Caller | None = None, *, dry_run: bool = False) -> None:
        self.config = config
        self.dry_run: bool = dry_run or (shared is not None and shared.dry_run)
        """Whether changes are not made."""
        if shared is None:
            authorization = config.authorization()
            self.metadata = (("authorization", authorization),) if authorization else ()
            self.transport = Transport(config)
            self.rotation = Rotation(len(config.gateways))
            self._closed: list[bool] = []
        else:
            self.metadata, self.transport = shared.metadata, shared.transport
            self.rotation, self._closed = shared.rotation, shared._closed

    def read(self) -> common_pb2.RequestContext:
        """The context of a read."""
        return common_pb2.RequestContext(user=self.config.user)

    def change(self, request_id: str | None) -> common_pb2.RequestContext:
        """The context of a change, with one id for all its tries."""
        if request_id is not None and not (isinstance(request_id, str) and _REQUEST_ID.fullmatch(request_id)):
            raise InvalidError.of("request_id", request_id, "32 hexadecimal digits in small letters")
        return common_pb2.RequestContext(request_id=request_id or secrets.token_hex(16), user=self.config.user)

    def call(self, method: Method[Q, S], request: Q, *, deadline: float | None = None) -> S:
        """One call: asks one gateway after the other until it is answered, refused, or out of time."""
        if self.dry_run and method.changes:
            asked = dry_run_pb2.DryRunRequest(method=method.full_name, request=request.SerializeToString())
            raise DryRun.of(method.name, self.call(methods.DRY_RUN, asked, deadline=deadline))
        tries = Tries(self.config, method, deadline or self.config.deadline)
        end = time.monotonic() + tries.deadline
        while True:
            number, limit = self._next_try(tries, end)
            begun = time.monotonic()
            try:
                answer = self.transport.unary(number, method, request, self.metadata, limit)
            except Ended:
                raise ClosedError from None
            except StatusError as failed:
                is_late = failed.status.code is Code.DEADLINE_EXCEEDED and time.monotonic() - begun >= limit - _EARLY
                self._failed(tries, number, failed.status, end, late=is_late)
            else:
                self.rotation.answered(number)
                return answer

    def open(self, method: Method[Q, S], request: Q) -> Stream[S]:
        """Opens a stream of answers with the tries of a call."""
        tries = Tries(self.config, method, self.config.deadline)
        end = time.monotonic() + tries.deadline
        while True:
            number, limit = self._next_try(tries, end)
            stream = self.transport.stream(number, method, request, self.metadata)
            try:
                stream.opened(limit)
            except StatusError as failed:
                self._failed(tries, number, failed.status, end, late=False)
            except NotYet:
                stream.cancel()
                self._failed(tries, number, _LATE, end, late=True)
            except BaseException:
                stream.cancel()
                raise
            else:
                self.rotation.answered(number)
                return stream

    def begin(self, method: Method[Q, S], request: Q) -> tuple[int, Stream[S]]:
        """Begins a stream on the gateway in use, without tries. The caller reports how it went."""
        self.check_open()
        number = self.rotation.choose(time.monotonic())
        return number, self.transport.stream(number, method, request, self.metadata)

    def open_duplex(self, method: Method[Q, S], first: Q) -> Duplex[Q, S]:
        """Opens a stream in both directions. It is not tried again, except if no gateway has heard of it.

        A client of dry runs opens none: nobody knows what it would do.
        """
        if self.dry_run:
            self.check_open()
            raise DryRun(method.name)
        tries = Tries(self.config, method, self.config.deadline)
        end = time.monotonic() + tries.deadline
        while True:
            number, limit = self._next_try(tries, end)
            duplex = self.transport.duplex(number, method, self.metadata)
            try:
                # A stream that has ended already says why when it is opened.
                with contextlib.suppress(Ended):
                    duplex.send(first)
                duplex.opened(limit)
            except Ended:
                raise ClosedError from None
            except StatusError as failed:
                duplex.cancel()
                # The gateway may answer to the end of the client's messages before it hears that the call has ended.
                self.check_open()
                if not failed.status.unsent:
                    raise failed_once(self.config, method, failed.status) from None
                self._failed(tries, number, failed.status, end, late=False)
            except NotYet:
                duplex.cancel()
                raise tries.out_of_time() from None
            except BaseException:
                duplex.cancel()
                raise
            else:
                self.rotation.answered(number)
                return duplex

    def _next_try(self, tries: Tries, end: float) -> tuple[int, float]:
        """The gateway of the next try, and the seconds that it may take."""
        self.check_open()
        left = end - time.monotonic()
        if left <= 0:
            raise tries.out_of_time()
        number = self.rotation.choose(time.monotonic())
        return number, tries.limit(number, left)

    def _failed(self, tries: Tries, number: int, status: Status, end: float, *, late: bool) -> None:
        """Prepares the next try, or raises the error of the call."""
        self.check_open()
        pause = tries.failed(status, random.random(), late=late)
        self.note_failure(number, status)
        if time.monotonic() + pause >= end:
            raise tries.out_of_time()
        if pause > 0:
            sleep(pause)

    def note_failure(self, number: int, status: Status) -> None:
        """Lets a gateway rest that could not answer. One that answers, and refuses, is used further."""
        if status.code is Code.RESOURCE_EXHAUSTED:
            return
        if status.refusal.is_agent_away:
            # Another gateway may have the session of that agent.
            self.rotation.turn(number)
        else:
            self.rotation.failed(number, time.monotonic(), random.random())

    def pages(self, method: Method[Q, S], request: Any, rows: str) -> Iterator[Any]:
        """The rows of every page of a list. A page is asked for when its first row is."""
        while True:
            answer: Any = self.call(method, request)
            for row in getattr(answer, rows):
                yield row
            if not answer.next_page:
                return
            request.page.page = answer.next_page

    def check_open(self) -> None:
        """Raises an error if the client was closed, which ends everything that runs."""
        if self._closed:
            raise ClosedError

    def close(self) -> None:
        """Closes all connections."""
        self._closed.append(True)
        self.transport.close()


def present(method: Method[Any, Any], answer: Message, name: str) -> Any:
    """A field that an answer must have."""
    if not answer.HasField(name):
        raise IncompleteError(method.name, name)
    return getattr(answer, name)


def page_of(size: int | None) -> common_pb2.PageRequest:
    """The first page of a list."""
    if size is not None:
        whole("page", size, 1, 1_000)
    return common_pb2.PageRequest(limit=size or 0)


def number(field: str, value: int) -> Any:
    """A value of an enumeration as messages take it."""
    return whole(field, value, 0, INT32_MAX)


def numbers(field: str, values: Iterable[int]) -> Any:
    """Values of enumerations as messages take them."""
    require_kind(field, values, Iterable, "a list of values of its enumeration")
    return [number(f"{field}[{at}]", value) for at, value in enumerate(values)]


def messages_of(selector: Selector | None) -> Any:
    """The conditions of a selector as messages."""
    require_kind("selector", selector, (Selector, type(None)), "a Selector")
    return [match.to_message() for match in (selector or Selector()).matches()]
