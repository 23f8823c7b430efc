"""gRPC balances over a job by a channel that follows its endpoints."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

import borough
from borough import balance
from borough.v1 import Port, name_pb2
from fake import FakeGateway, Hang, Refuse, connect, cursor, run


class Echo(grpc.GenericRpcHandler):
    """A server that answers with its own name."""

    def __init__(self, name: str) -> None:
        self.name = name.encode()
        self.hold = threading.Event()
        self.server = grpc.server(ThreadPoolExecutor(8), handlers=[self])
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def service(self, details: Any) -> Any:
        if details.method == "/Echo/Many":
            return grpc.unary_stream_rpc_method_handler(self._many)
        return grpc.unary_unary_rpc_method_handler(lambda request, _: self.name + request)

    def _many(self, request: bytes, context: Any) -> Iterator[bytes]:
        yield self.name
        self.hold.wait(10)
        yield self.name


@contextmanager
def servers(*names: str) -> Iterator[list[Echo]]:
    running = [Echo(name) for name in names]
    try:
        yield running
    finally:
        for each in running:
            each.hold.set()
            each.server.stop(0).wait()


class Endpoints:
    """The endpoints that a gateway shows, and changes of them."""

    def __init__(self, gateway: FakeGateway, *live: tuple[int, Echo, int]) -> None:
        self.changed = threading.Event()
        self.later: list[Any] = []
        self.stamp = 1
        self.live = live
        gateway.defaults["WatchEndpoints"] = self.stream

    def stream(self, _: Any) -> Iterator[Any]:
        for index, server, weight in self.live:
            yield self.published(index, server, weight, more=True)
        yield name_pb2.WatchEndpointsResponse(cursor=cursor(1), bookmark=True)
        self.changed.wait(20)
        yield from self.later
        yield Hang()

    def published(self, index: int, server: Echo, weight: int = 1, *, more: bool = False) -> Any:
        ports = [Port(name="admin", number=9).to_message(), Port(name="grpc", number=server.port).to_message()]
        endpoint = name_pb2.Endpoint(
            user="alice", job="echo", index=index, incarnation=1, host="127.0.0.1", ports=ports, weight=weight
        )
        self.stamp += not more
        return name_pb2.WatchEndpointsResponse(cursor=cursor(self.stamp), published=endpoint, more=more)

    def withdrawn(self, index: int) -> Any:
        self.stamp += 1
        gone = name_pb2.EndpointWithdrawn(user="alice", job="echo", index=index, incarnation=1)
        return name_pb2.WatchEndpointsResponse(cursor=cursor(self.stamp), withdrawn=gone)


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def client(gateway: FakeGateway) -> Iterator[borough.Client]:
    with borough.Client(gateway.address, user="bob", cell="beta") as running:
        yield running


TARGET = "borough:///echo.alice.alpha"


def test_calls_go_to_the_endpoints_as_their_weights_say(gateway: FakeGateway, client: borough.Client) -> None:
    with servers("a", "b") as (one, other):
        Endpoints(gateway, (0, one, 3), (1, other, 1))
        with balance.channel(client, TARGET, port="grpc") as channel:
            echo = channel.unary_unary("/Echo/One")
            eventually(lambda: sum(each.is_ready for each in channel.pool._backends.values()) == 2)
            assert Counter(echo(b"x", timeout=5) for _ in range(40)) == {b"ax": 30, b"bx": 10}
            assert echo.with_call(b"y", timeout=5)[0] in (b"ay", b"by")
            assert echo.future(b"z", timeout=5).result() in (b"az", b"bz")
        asked = gateway.requests["WatchEndpoints"][0]
        assert (asked.cell, asked.user, asked.job) == ("alpha", "alice", "echo")


def test_an_endpoint_that_is_withdrawn_ends_its_calls_and_gets_no_further_one(
    gateway: FakeGateway, client: borough.Client
) -> None:
    with servers("a", "b") as (one, other):
        endpoints = Endpoints(gateway, (0, one, 1))
        endpoints.later = [endpoints.published(1, other), endpoints.withdrawn(0)]
        with balance.channel(client, TARGET, port="grpc") as channel:
            stream = channel.unary_stream("/Echo/Many")(b"", timeout=20)
            assert next(stream) == b"a"
            endpoints.changed.set()
            eventually(lambda: channel.pool.addresses() == [f"127.0.0.1:{other.port}"])
            echo = channel.unary_unary("/Echo/One")
            assert {echo(b"", timeout=5) for _ in range(10)} == {b"b"}
            # Nobody closes the connection while a call runs on it.
            eventually(lambda: not [each for each in threading.enumerate() if each.name == "borough-close"])
            one.hold.set()
            assert list(stream) == [b"a"], "a call that ran there has ended as it should"


def test_a_dead_endpoint_is_passed_over(gateway: FakeGateway, client: borough.Client) -> None:
    with servers("a", "b") as (one, other):
        Endpoints(gateway, (0, one, 1), (1, other, 1))
        with balance.channel(client, TARGET, port="grpc") as channel:
            eventually(lambda: len(channel.pool.addresses()) == 2)
            one.server.stop(0).wait()
            dead = channel.pool._backends[f"127.0.0.1:{one.port}"]
            live = channel.pool._backends[f"127.0.0.1:{other.port}"]
            eventually(lambda: not dead.is_ready and live.is_ready)
            echo = channel.unary_unary("/Echo/One")
            assert {echo(b"", timeout=5) for _ in range(20)} == {b"b"}


def test_a_call_waits_for_the_first_endpoint_and_not_for_ever(gateway: FakeGateway, client: borough.Client) -> None:
    with servers("a") as (one,):
        endpoints = Endpoints(gateway)
        endpoints.later = [endpoints.published(0, one)]
        with balance.channel(client, TARGET, port="grpc", patience=0.1) as channel:
            echo = channel.unary_unary("/Echo/One")
            with pytest.raises(balance.NoEndpointError):
                echo(b"")
            channel.patience = 20
            endpoints.changed.set()
            assert echo(b"x", timeout=5, wait_for_ready=True) == b"ax"
        with pytest.raises(balance.NoEndpointError):
            echo(b"")


def failure(call: Callable[[], Any]) -> tuple[grpc.StatusCode, str]:
    """The code and the message of a call that finds no endpoint, as callers of gRPC catch it."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert isinstance(caught.value, balance.NoEndpointError)
    return caught.value.code(), caught.value.details()


def test_a_call_without_an_endpoint_obeys_its_own_timeout(gateway: FakeGateway, client: borough.Client) -> None:
    Endpoints(gateway)
    # Nothing but the timeout of a call ends its wait before the test's own limit.
    with balance.channel(client, TARGET, patience=600) as channel:
        one = channel.unary_unary("/Echo/One")
        late = (grpc.StatusCode.DEADLINE_EXCEEDED, "the job alice/echo in the cell alpha has no endpoint")
        eventually(lambda: channel._presence.is_known)
        assert failure(lambda: one(b"", timeout=0.1)) == late
        assert failure(lambda: one(b"", 0.1)) == late
        assert failure(lambda: one(b"", timeout=-1)) == late
        assert failure(lambda: one.with_call(b"", timeout=0.1)) == late
        assert failure(lambda: one.future(b"", timeout=0.1)) == late
        assert failure(lambda: channel.unary_stream("/Echo/Many")(b"", timeout=0.1)) == late
        channel.patience = 0.1
        assert failure(lambda: one(b"", timeout=600))[0] is grpc.StatusCode.UNAVAILABLE


def test_what_the_wait_leaves_of_a_timeout_is_that_of_the_call(gateway: FakeGateway, client: borough.Client) -> None:
    seen: list[Any] = []

    class Picked:
        """An endpoint that comes late, and notes its calls."""

        channel: Any

        def end(self) -> None:
            pass

        @staticmethod
        def unary_unary(*_: Any, **__: Any) -> Any:
            return lambda *given, **options: seen.append((given, options))

    def pick(*_: Any) -> Any:
        time.sleep(0.05)
        picked = Picked()
        picked.channel = picked
        return picked

    Endpoints(gateway)
    with balance.channel(client, TARGET) as channel:
        channel.pool.pick = pick  # type: ignore[method-assign]
        channel.unary_unary("/Echo/One")(request=b"x", timeout=30, metadata=())
        channel.unary_unary("/Echo/One")(b"x", 30, ())
    (_, options), ((request, left, metadata), _) = seen
    assert options.keys() == {"request", "timeout", "metadata"} and 0 < options["timeout"] <= 29.95
    assert (request, metadata) == (b"x", ()) and 0 < left <= 29.95


def test_a_watch_that_is_refused_is_said_at_once(gateway: FakeGateway, client: borough.Client) -> None:
    gateway.defaults["WatchEndpoints"] = lambda _: [Refuse(grpc.StatusCode.NOT_FOUND, 'there is no cell "alpha" here')]
    with balance.channel(client, TARGET, patience=600) as channel:
        code, text = failure(lambda: channel.unary_unary("/Echo/One")(b""))
    assert code is grpc.StatusCode.UNAVAILABLE and 'there is no cell "alpha" here' in text


def test_a_port_that_no_endpoint_has_is_said(gateway: FakeGateway, client: borough.Client) -> None:
    with servers("a") as (one,):
        Endpoints(gateway, (0, one, 1))
        with balance.channel(client, TARGET, port="rpc", patience=600) as channel:
            eventually(lambda: bool(channel._presence.ports))
            code, text = failure(lambda: channel.unary_unary("/Echo/One")(b"", timeout=0.1))
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert text == 'no endpoint of the job alice/echo in the cell alpha has the port "rpc"; accepted: admin, grpc'


def test_asyncio_says_the_same(gateway: FakeGateway) -> None:
    async def entered(**options: Any) -> str:
        async with connect("asyncio", gateway.address) as client:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async with balance.aio_channel(client, TARGET, **options):
                    pass
        assert isinstance(caught.value, balance.NoEndpointError)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        return str(caught.value.details())

    async def work() -> None:
        with servers("a") as (one,):
            endpoints = Endpoints(gateway, (0, one, 1))
            assert 'has the port "rpc"; accepted: admin, grpc' in await entered(port="rpc", patience=0.5)
            endpoints.later = [endpoints.withdrawn(0)]
            async with (
                connect("asyncio", gateway.address) as client,
                balance.aio_channel(client, TARGET, port="grpc") as channel,
            ):
                endpoints.changed.set()
                while channel.addresses():
                    await asyncio.sleep(0.01)
                with pytest.raises(grpc.aio.AioRpcError, match="has no endpoint"):
                    await channel.unary_unary("/Echo/One")(b"", timeout=5)
        refusal = Refuse(grpc.StatusCode.NOT_FOUND, 'there is no cell "alpha" here')
        gateway.defaults["WatchEndpoints"] = lambda _: [refusal]
        assert 'there is no cell "alpha" here' in await entered(patience=600)

    run(work())


@pytest.mark.parametrize("target", ["echo", "borough:///echo", "borough://echo.alice.alpha", "borough:///a.b.C"])
def test_another_target_is_refused(client: borough.Client, target: str) -> None:
    with pytest.raises(borough.InvalidError, match=r"borough:///JOB\.USER\.CELL"):
        balance.channel(client, target)


def test_the_resolver_follows_the_job(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        with servers("a", "b") as (one, other):
            endpoints = Endpoints(gateway, (0, one, 1))
            endpoints.later = [endpoints.published(1, other), endpoints.withdrawn(0)]
            async with connect(face, gateway.address) as client, client.names.resolver("echo", port="grpc") as resolver:
                assert await resolver.addresses() == [f"127.0.0.1:{one.port}"]
                assert await resolver.changed(timeout=0.1) is None
                endpoints.changed.set()
                assert len(await resolver.changed(timeout=10)) == 2
                assert await resolver.changed(timeout=10) == [f"127.0.0.1:{other.port}"]

    run(work())


def test_calls_of_asyncio_follow_the_job(gateway: FakeGateway) -> None:
    async def work() -> None:
        with servers("a", "b") as (one, other):
            endpoints = Endpoints(gateway, (0, one, 1))
            endpoints.later = [endpoints.published(1, other), endpoints.withdrawn(0)]
            async with (
                connect("asyncio", gateway.address) as client,
                balance.aio_channel(client, TARGET, port="grpc") as channel,
            ):
                echo = channel.unary_unary("/Echo/One")
                assert await echo(b"x", timeout=5, wait_for_ready=True) == b"ax"
                stream = channel.unary_stream("/Echo/Many")(b"", timeout=20)
                assert await stream.read() == b"a"
                endpoints.changed.set()
                while channel.addresses() != [f"127.0.0.1:{other.port}"]:
                    await asyncio.sleep(0.01)
                assert {await echo(b"", timeout=5, wait_for_ready=True) for _ in range(10)} == {b"b"}
                one.hold.set()
                assert await stream.read() == b"a", "a call that runs there ends as it should"
                assert await stream.read() is grpc.aio.EOF
                assert channel.get_state() is grpc.ChannelConnectivity.READY
            with pytest.raises(balance.NoEndpointError):
                echo(b"")

    run(work())


def test_a_channel_of_asyncio_waits_no_longer_than_it_may(gateway: FakeGateway) -> None:
    async def work() -> None:
        Endpoints(gateway)
        async with connect("asyncio", gateway.address) as client:
            channel = balance.aio_channel(client, TARGET, patience=0.1)
            with pytest.raises(balance.NoEndpointError):
                await channel.channel_ready()
            await channel.close()

    run(work())


def test_a_dead_endpoint_is_passed_over_by_asyncio(gateway: FakeGateway) -> None:
    async def work() -> None:
        with servers("a", "b") as (one, other):
            Endpoints(gateway, (0, one, 1), (1, other, 1))
            async with (
                connect("asyncio", gateway.address) as client,
                balance.aio_channel(client, TARGET, port="grpc") as channel,
            ):
                ready = grpc.ChannelConnectivity.READY
                while [each.get_state(True) for each in channel._channels.values()] != [ready, ready]:
                    await asyncio.sleep(0.01)
                one.server.stop(0).wait()
                while channel._channels[f"127.0.0.1:{one.port}"].get_state() is ready:
                    await asyncio.sleep(0.01)
                echo = channel.unary_unary("/Echo/One")
                assert {await echo(b"", timeout=5) for _ in range(20)} == {b"b"}

    run(work())
