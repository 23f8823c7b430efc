"""What a task knows of itself, and its readiness."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import borough
from borough import task
from borough.v1 import name_pb2
from fake import FakeGateway, connect, run

ENVIRONMENT = {
    "HOST": "10.0.0.1",
    "BOROUGH_CELL": "alpha",
    "BOROUGH_USER": "alice",
    "BOROUGH_JOB": "web",
    "BOROUGH_INDEX": "2",
    "BOROUGH_ATTEMPT": "7",
    "BOROUGH_NODE": "n1",
    "BOROUGH_TASK_DIR": "/t",
    "PORT": "8080",
    "PORT_HTTP_MAIN": "8080",
    "PORT_ADMIN": "9090",
    "PORT_OF_CALL": "no number",
    "BOROUGH_ROLE": "worker",
    "BOROUGH_ROLE_INDEX": "1",
    "BOROUGH_ALLOC": "places/3",
    "BOROUGH_ALLOC_DIR": "/a",
    "BOROUGH_ALLOC_PORT_HTTP_IN": "20001",
    "BOROUGH_DEVICE_GPU": "GPU-a,GPU-b",
    "BOROUGH_DEVICE_GPU_MILLIS": "1000",
}


def test_a_task_knows_itself() -> None:
    info = task.current(ENVIRONMENT)
    assert (info.name, str(info.ref), info.attempt, info.node) == ("2.web.alice.alpha", "alice/web", 7, "n1")
    assert info.ports == {"http-main": 8080, "admin": 9090}
    assert info.port("http-main") == info.port("HTTP_MAIN") == 8080
    assert (info.directory, info.alloc_directory) == (Path("/t"), Path("/a"))
    assert (info.role, info.role_index, info.alloc, info.alloc_ports) == ("worker", 1, "places/3", {"http-in": 20001})
    assert info.devices == {"gpu": ("GPU-a", "GPU-b")}
    for name in (None, "nope"):
        with pytest.raises(KeyError, match="known: http-main, admin"):
            info.port(name)


def test_a_program_outside_of_borough_is_told_so() -> None:
    with pytest.raises(task.NotATaskError, match="BOROUGH_CELL is not set"):
        task.current({})
    with pytest.raises(task.NotATaskError, match="not a task of Borough"):
        task.current(ENVIRONMENT | {"BOROUGH_INDEX": "two"})


def test_the_peers_are_the_other_endpoints_of_the_job(gateway: FakeGateway) -> None:
    endpoints = [name_pb2.Endpoint(user="alice", job="web", index=index) for index in range(4)]
    gateway.defaults["ListEndpoints"] = lambda _: name_pb2.ListEndpointsResponse(endpoints=endpoints)
    info = task.current(ENVIRONMENT)
    with borough.Client(gateway.address, user="alice", cell="beta") as client:
        assert [each.index for each in info.peers(client)] == [0, 1, 3]

    async def work() -> None:
        async with connect("asyncio", gateway.address, cell="beta") as client:
            assert [each.index for each in await info.peers_async(client)] == [0, 1, 3]

    run(work())
    asked = gateway.requests["ListEndpoints"]
    assert {(each.cell, each.user, each.job) for each in asked} == {("alpha", "alice", "web")}


def test_readiness_answers_the_check_of_the_task() -> None:
    def status(port: int) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    with task.Readiness(0, "127.0.0.1") as readiness:
        assert status(readiness.port) == 503
        readiness.ready()
        assert status(readiness.port) == 200
        readiness.not_ready()
        assert status(readiness.port) == 503
    with pytest.raises(OSError):
        status(readiness.port)
    assert asyncio.iscoroutinefunction(task.TaskInfo.peers_async)
