"""The balancing channel of asyncio. `borough.balance` describes both."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc
import grpc.aio

from ._async.client import AsyncClient
from .errors import BoroughError
from .items import EndpointTable, addresses
from .targets import AioNoEndpointError, Presence, interleaved, target_of

# Seconds for which calls to a withdrawn endpoint may go on.
_GRACE = 3_600.0


class _AioCall:
    """A kind of call of a method, which a stub keeps. Each use picks an endpoint."""

    def __init__(self, channel: AsyncBalancedChannel, kind: str, method: str, options: dict[str, Any]) -> None:
        self._channel, self._kind, self._method, self._options = channel, kind, method, options

    def __call__(self, *given: Any, **options: Any) -> Any:
        picked = self._channel.pick()
        return getattr(picked, self._kind)(self._method, **self._options)(*given, **options)


class AsyncBalancedChannel(grpc.aio.Channel):
    """A channel over the endpoints of a job, for asyncio. `async with` waits for the first endpoint."""

    def __init__(
        self,
        client: AsyncClient,
        target: str,
        *,
        port: str | None = None,
        patience: float = 10.0,
        open_channel: Callable[[str], grpc.aio.Channel] | None = None,
    ) -> None:
        """`borough.balance.aio_channel` says what the arguments mean."""
        job, cell = target_of(target)
        self._presence, self._patience = Presence(job, cell, port), patience
        self._open_channel = open_channel or grpc.aio.insecure_channel
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._turn: Iterator[str] = iter(())
        self._round = 0
        self._is_settled = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()
        self._watch = client.scoped(user=job.user, cell=cell).names.watch(job)
        self._is_closed = False
        self._following: asyncio.Task[None] | None = None

    async def _follow(self) -> None:
        table = EndpointTable()
        try:
            async for item in self._watch:
                is_changed = table.apply(item)
                self._presence.apply(item, table)
                if is_changed:
                    self._update(table)
        except BoroughError as error:
            # Endpoints that are known stay in use. Nobody waits for others.
            self._presence.ended = error
            self._is_settled.set()

    def _update(self, table: EndpointTable) -> None:
        weights = {
            each: endpoint.weight for endpoint in table for each in addresses(iter([endpoint]), self._presence.port)
        }
        for address in [each for each in self._channels if each not in weights]:
            # Refuses further calls, and ends when those that run have ended.
            closing = asyncio.ensure_future(self._channels.pop(address).close(_GRACE))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        for address in weights:
            if address not in self._channels:
                self._channels[address] = self._open_channel(address)
                self._channels[address].get_state(try_to_connect=True)
        order = interleaved(list(weights), [max(weight, 1) for weight in weights.values()])
        self._turn, self._round = itertools.cycle(order), len(order)
        if self._channels:
            self._is_settled.set()
        else:
            self._is_settled.clear()

    def pick(self) -> grpc.aio.Channel:
        """The channel of the next endpoint, of a connected one if any is."""
        if not self._channels:
            raise AioNoEndpointError(self._why("; await `channel_ready` before a call"))
        first = self._channels[next(self._turn)]
        others = (self._channels[address] for address in itertools.islice(self._turn, self._round))
        for each in itertools.chain([first], others):
            if each.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
                return each
        return first

    def addresses(self) -> list[str]:
        """The addresses of the present endpoints."""
        return sorted(self._channels)

    async def channel_ready(self) -> None:
        """Waits until the job has an endpoint, at most as long as the channel's patience."""
        if self._following is None:
            self._following = asyncio.ensure_future(self._follow())
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._is_settled.wait(), self._patience)
        if not self._channels:
            raise AioNoEndpointError(self._why(f" (waited {self._patience:g} s)"))

    def _why(self, more: str) -> str:
        """Why there is no endpoint. What `more` says holds while one may still come."""
        if self._is_closed:
            return "the channel is closed"
        return self._presence.reason() + ("" if self._presence.ended else more)

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

    def _call(self, kind: str, method: str, arguments: Sequence[Any], options: dict[str, Any]) -> _AioCall:
        names = ("request_serializer", "response_deserializer", "_registered_method")
        return _AioCall(self, kind, method, dict(zip(names, arguments, strict=False)) | options)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Ready if an endpoint is connected, and connecting otherwise."""
        states = [each.get_state(try_to_connect) for each in self._channels.values()]
        ready = grpc.ChannelConnectivity.READY
        return ready if ready in states else grpc.ChannelConnectivity.CONNECTING

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Waits until `get_state` has another answer."""
        # Each endpoint has a state of its own, and nobody says when one changes.
        while self.get_state() is last_observed_state:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def close(self, grace: float | None = None) -> None:
        """Ends the watch and all connections. Calls that run there end, after so many seconds if given."""
        self._is_closed = True
        await self._watch.close()
        if self._following is not None:
            await self._following
        channels, self._channels = list(self._channels.values()), {}
        for closing in self._closing:
            closing.cancel()
        await asyncio.gather(*(each.close(grace) for each in channels), *self._closing, return_exceptions=True)

    async def __aenter__(self) -> AsyncBalancedChannel:
        try:
            await self.channel_ready()
        except BaseException:
            # Nobody leaves a block that was not entered.
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
