"""Fixtures of the tests."""

import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

import fake

# The same cases in each run: what a change breaks is broken by the change. A slow machine breaks nothing.
settings.register_profile("suite", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


@pytest.fixture
def gateway() -> Iterator[fake.FakeGateway]:
    with fake.gateway() as running:
        yield running


@pytest.fixture(params=list(fake.FACES))
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def closed_port() -> str:
    """An address at which nobody listens: the port was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"
