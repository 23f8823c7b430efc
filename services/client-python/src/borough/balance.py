"""Lets gRPC balance over a job: a channel that sends each call to one of the job's endpoints.

grpcio has no public resolver for schemes of others. This channel does its work: it follows the endpoints of
`borough:///JOB.USER.CELL` by a watch, keeps a connection to each, and picks one for each call. Generated stubs take it
as they take any other channel.

    channel = borough.balance.channel(client, "borough:///echo.alice.alpha", port="grpc")
    stub = EchoStub(channel)

`aio_channel` is the same for asyncio. It waits for the first endpoint when it is entered.

Calls go round the connected endpoints, as their weights say. An endpoint that is withdrawn gets no further call, and
its connection closes when the calls that run there have ended.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import grpc

from ._async.client import AsyncClient
from ._sync.client import Client
from .balance_aio import AsyncBalancedChannel
from .errors import BoroughError
from .items import EndpointTable, addresses
from .targets import AioNoEndpointError, NoEndpointError, Presence, interleaved, target_of
from .v1 import Endpoint

# grpcio looks at a channel every 0.2 seconds while somebody watches it.
_UNWATCHED_AFTER = 0.5


class _Backend:
    """The connection to one endpoint."""

    def __init__(self, address: str, open_channel: Callable[[str], grpc.Channel]) -> None:
        self.address = address
        self.channel = open_channel(address)
        self.weight = 1
        self.is_ready = False
        self._running = 0
        self._is_withdrawn = False
        self._is_watched = True
        self._lock = threading.Lock()
        self.channel.subscribe(self._state_changed, try_to_connect=True)

    def _state_changed(self, state: grpc.ChannelConnectivity) -> None:
        self.is_ready = state is grpc.ChannelConnectivity.READY
        if state is not grpc.ChannelConnectivity.IDLE:
            return
        with self._lock:
            if self._is_watched:
                # Nobody calls an endpoint that is not connected, so nobody else would connect it again.
                self.channel.unsubscribe(self._state_changed)
                self.channel.subscribe(self._state_changed, try_to_connect=True)

    def unwatch(self) -> None:
        """Looks no longer whether it is connected."""
        with self._lock:
            self._is_watched = False
            self.channel.unsubscribe(self._state_changed)

    def begin(self) -> bool:
        """Counts a call. Returns false if the endpoint is withdrawn."""
        with self._lock:
            self._running += not self._is_withdrawn
            return not self._is_withdrawn

    def end(self, _: object = None) -> None:
        """Counts a call that has ended."""
        with self._lock:
            self._running -= 1
            is_over = self._is_withdrawn and self._running == 0
        if is_over:
            self.close()

    def withdraw(self) -> None:
        """Takes no further call, and closes when the last one has ended."""
        with self._lock:
            self._is_withdrawn = True
            is_over = self._running == 0
        if is_over:
            self.close()

    def close(self) -> None:
        """Closes the connection soon."""
        # gRPC calls back from threads of its own, which may not close a channel.
        threading.Thread(target=close_all, args=([self],), name="borough-close", daemon=True).start()


def close_all(backends: Sequence[_Backend]) -> None:
    """Closes connections, once gRPC no longer watches them: its thread would complain of a closed channel."""
    for backend in backends:
        backend.unwatch()
    time.sleep(_UNWATCHED_AFTER)
    for backend in backends:
        backend.channel.close()


class BackendPool:
    """The endpoints of a job, each with its connection. Picks them one after the other, as their weights say."""

    def __init__(self, open_channel: Callable[[str], grpc.Channel], presence: Presence) -> None:
        self._open_channel, self._presence = open_channel, presence
        self._backends: dict[str, _Backend] = {}
        self._turn: Iterator[_Backend] = iter(())
        self._changed = threading.Condition()
        self._is_closed = False

    def update(self, endpoints: Sequence[Endpoint]) -> None:
        """Takes the present endpoints."""
        wanted = {
            address: each.weight for each in endpoints for address in addresses(iter([each]), self._presence.port)
        }
        with self._changed:
            if self._is_closed:
                return
            gone = [self._backends.pop(address) for address in list(self._backends) if address not in wanted]
            for address, weight in wanted.items():
                backend = self._backends.get(address) or _Backend(address, self._open_channel)
                self._backends[address], backend.weight = backend, max(weight, 1)
            backends = list(self._backends.values())
            self._turn = itertools.cycle(interleaved(backends, [each.weight for each in backends]))
            self._changed.notify_all()
        for backend in gone:
            backend.withdraw()

    def ended(self, error: BoroughError) -> None:
        """The watch has ended: nothing new becomes known. Endpoints that are known stay in use."""
        with self._changed:
            self._presence.ended = error
            self._changed.notify_all()

    def pick(self, patience: float, timeout: float | None = None) -> _Backend:
        """An endpoint for a call, a connected one if any is.

        Waits for the first endpoint, at most `patience` and at most the timeout of the call.
        """
        is_own = timeout is not None and timeout <= patience
        longest = max(0.0, timeout) if timeout is not None and is_own else patience
        with self._changed:
            self._changed.wait_for(lambda: self._backends or self._is_closed or self._presence.ended, longest)
            if self._is_closed:
                raise NoEndpointError("the channel is closed")
            if not self._backends:
                is_late = is_own and self._presence.ended is None
                code = grpc.StatusCode.DEADLINE_EXCEEDED if is_late else grpc.StatusCode.UNAVAILABLE
                raise NoEndpointError(self._presence.reason(), code)
            tries = sum(backend.weight for backend in self._backends.values())
            first = next(self._turn)
            ready = next(
                (each for each in itertools.chain([first], itertools.islice(self._turn, tries)) if each.is_ready), first
            )
            ready.begin()
            return ready

    def addresses(self) -> list[str]:
        """The addresses of the present endpoints."""
        with self._changed:
            return sorted(self._backends)

    def close(self) -> None:
        """Closes all connections. Calls that run there end."""
        with self._changed:
            self._is_closed = True
            backends, self._backends = list(self._backends.values()), {}
            self._changed.notify_all()
        close_all(backends)


class _Call:
    """A kind of call of a method, such as the `unary_unary` that a stub keeps. Each use picks an endpoint."""

    def __init__(self, channel: BalancedChannel, kind: str, method: str, arguments: dict[str, Any]) -> None:
        self._channel, self._kind, self._method, self._arguments = channel, kind, method, arguments

    def _bound(self, given: Sequence[Any], options: dict[str, Any]) -> tuple[_Backend, Any, Sequence[Any]]:
        """An endpoint, its call, and the arguments. Of the timeout, `given` or `options` get what the wait leaves."""
        # The timeout may be given by its place: REQUEST, TIMEOUT.
        has_place = len(given) > 1
        timeout = given[1] if has_place else options.get("timeout")
        begun = time.monotonic()
        backend = self._channel.pool.pick(self._channel.patience, timeout)
        left = None if timeout is None else max(0.0, timeout - (time.monotonic() - begun))
        if has_place:
            given = [given[0], left, *given[2:]]
        else:
            options["timeout"] = left
        return backend, getattr(backend.channel, self._kind)(self._method, **self._arguments), given

    def __call__(self, *given: Any, **options: Any) -> Any:
        backend, call, arguments = self._bound(given, options)
        if self._kind in ("unary_stream", "stream_stream"):
            return self._watched(backend, lambda: call(*arguments, **options))
        try:
            return call(*arguments, **options)
        finally:
            backend.end()

    def with_call(self, *given: Any, **options: Any) -> Any:
        """As the same method of gRPC."""
        backend, call, arguments = self._bound(given, options)
        try:
            return call.with_call(*arguments, **options)
        finally:
            backend.end()

    def future(self, *given: Any, **options: Any) -> Any:
        """As the same method of gRPC."""
        backend, call, arguments = self._bound(given, options)
        return self._watched(backend, lambda: call.future(*arguments, **options))

    def _watched(self, backend: _Backend, start: Callable[[], Any]) -> Any:
        try:
            running = start()
        except BaseException:
            backend.end()
            raise
        if not running.add_callback(backend.end):
            backend.end()
        return running


class BalancedChannel(grpc.Channel):
    """A channel over the endpoints of a job. Use it in `with`, or close it."""

    def __init__(
        self,
        client: Client,
        target: str,
        *,
        port: str | None = None,
        patience: float = 10.0,
        open_channel: Callable[[str], grpc.Channel] | None = None,
    ) -> None:
        """`channel` says what the arguments mean."""
        job, cell = target_of(target)
        self.patience = patience
        """How long a call waits while the job has no endpoint, unless its own timeout is shorter; seconds."""
        self._presence = Presence(job, cell, port)
        self.pool = BackendPool(open_channel or grpc.insecure_channel, self._presence)
        """The endpoints with their connections."""
        self._watch = client.scoped(user=job.user, cell=cell).names.watch(job)
        self._thread = threading.Thread(target=self._follow, name="borough-balance", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        table = EndpointTable()
        try:
            for item in self._watch:
                is_changed = table.apply(item)
                self._presence.apply(item, table)
                if is_changed:
                    self.pool.update(list(table))
        except BoroughError as error:
            self.pool.ended(error)

    def unary_unary(self, method: str, *arguments: Any, **options: Any) -> Any:
        """A call with one request and one answer."""
        return self._call("unary_unary", method, arguments, options)

    def unary_stream(self, method: str, *arguments: Any, **options: Any) -> Any:
        """A call with one request and a stream of answers."""
        return self._call("unary_stream", method, arguments, options)

    def stream_unary(self, method: str, *arguments: Any, **options: Any) -> Any:
        """A call with a stream of requests and one answer."""
        return self._call("stream_unary", method, arguments, options)

    def stream_stream(self, method: str, *arguments: Any, **options: Any) -> Any:
        """A call with streams in both directions."""
        return self._call("stream_stream", method, arguments, options)

    def _call(self, kind: str, method: str, arguments: Sequence[Any], options: dict[str, Any]) -> _Call:
        names = ("request_serializer", "response_deserializer", "_registered_method")
        return _Call(self, kind, method, dict(zip(names, arguments, strict=False)) | options)

    def subscribe(self, callback: Callable[..., Any], try_to_connect: bool = False) -> None:
        """Not supported: the endpoints have states of their own."""
        raise NotImplementedError("a channel over many endpoints has no state of its own")

    def unsubscribe(self, callback: Callable[..., Any]) -> None:
        """Not supported, as `subscribe`."""
        raise NotImplementedError("a channel over many endpoints has no state of its own")

    def close(self) -> None:
        """Ends the watch and all connections."""
        self._watch.close()
        self.pool.close()
        self._thread.join(5)

    def __enter__(self) -> BalancedChannel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def channel(
    client: Client,
    target: str,
    *,
    port: str | None = None,
    patience: float = 10.0,
    open_channel: Callable[[str], grpc.Channel] | None = None,
) -> BalancedChannel:
    """A channel over the endpoints of `borough:///JOB.USER.CELL`, at the port with a name or at the first one.

    While the job has no endpoint, a call waits at most `patience` seconds, and at most its own timeout. It then raises
    `NoEndpointError`, which is a `grpc.RpcError` and says why. It does not wait if the gateway refuses the watch.

    `open_channel` connects to one address; the default is `grpc.insecure_channel`, and a function with
    `grpc.secure_channel` encrypts.
    """
    return BalancedChannel(client, target, port=port, patience=patience, open_channel=open_channel)


def aio_channel(
    client: AsyncClient,
    target: str,
    *,
    port: str | None = None,
    patience: float = 10.0,
    open_channel: Callable[[str], grpc.aio.Channel] | None = None,
) -> AsyncBalancedChannel:
    """The same channel for asyncio. Use it in `async with`, which waits at most `patience` seconds for an endpoint.

    A call does not wait. While the job has no endpoint it raises `AioNoEndpointError` at once, which is a
    `grpc.aio.AioRpcError` with the code `UNAVAILABLE`.
    """
    return AsyncBalancedChannel(client, target, port=port, patience=patience, open_channel=open_channel)


__all__ = [
    "AioNoEndpointError",
    "AsyncBalancedChannel",
    "BalancedChannel",
    "NoEndpointError",
    "aio_channel",
    "channel",
]
