"""Values of wrong types and beyond bounds: every one ends as a `BoroughError`, before anything is sent."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import grpc
import pytest

import borough
from borough import CommandCheck, Helper, HttpCheck, Restart, TcpCheck, Timing, Update
from borough.v1 import Band, Grant, WindowSize
from fake import FakeGateway, Refuse, connect, run

SPEC = borough.job("web", ["run"])
NUMBERS = [5, -1, 1 << 70, 2.5, True]
WRONG = [*NUMBERS, "x", "-", "", b"x", None, [5], ["x"], [None], {5: 5}, {"a": 1}, {"a": "b"}, object()]


def refused(error: BaseException, field: str, value: str, accepted: str) -> bool:
    assert isinstance(error, borough.InvalidError)
    return any(
        each.field == field and each.description.startswith(f"{value}; accepted: ") and accepted in each.description
        for each in error.fields
    )


CALLS: list[tuple[str, Any, str, str, str]] = [
    ("a negative count", lambda c: c.jobs.scale("x", -1), "count", "-1", "0 to 4294967295"),
    ("a count that is too large", lambda c: c.jobs.scale("x", 2**40), "count", "1099511627776", "0 to 4294967295"),
    ("a count of text", lambda c: c.jobs.scale("x", "3"), "count", '"3"', "a whole number"),
    ("a negative version", lambda c: c.jobs.undo_rollout("x", version=-1), "version", "-1", "0 to 4294967295"),
    ("a label of a number", lambda c: c.jobs.label("x", {"b": "1", "a": 1}), 'labels["a"]', "1", "a text"),
    ("no labels", lambda c: c.jobs.label("x", 5), "labels", "5", "a map"),
    ("a spec that is a map", lambda c: c.jobs.submit({"name": "x"}), "spec", "{'name': 'x'}", "borough.job"),
    ("a plan of a map", lambda c: c.jobs.plan({}), "spec", "{}", "borough.job"),
    (
        "a count in a changed spec",
        lambda c: c.jobs.submit(dataclasses.replace(SPEC, count=-3)),
        "count",
        "-3",
        "0 to 4294967295",
    ),
    (
        "a part of a changed spec",
        lambda c: c.jobs.submit(dataclasses.replace(SPEC, task=dataclasses.replace(SPEC.task, weight="x"))),
        "task.weight",
        '"x"',
        "a whole number",
    ),
    ("input of text", lambda c: c.tasks.run("x/0", ["cat"], input="text"), "input", '"text"', "bytes"),
    ("an argument of a number", lambda c: c.tasks.run("x/0", ["cat", 3]), "command[1]", "3", "a text"),
    ("a task that is a number", lambda c: c.tasks.restart(3), "task", "3", "NAME/INDEX"),
    ("a job that is a number", lambda c: c.jobs.get(3), "job", "3", "NAME or USER/NAME"),
    ("a taint that is a text", lambda c: c.nodes.taint("n", ["x"]), "taints[0]", '"x"', "a Taint"),
]


@pytest.mark.parametrize("call, field, value, accepted", [each[1:] for each in CALLS], ids=[each[0] for each in CALLS])
def test_a_wrong_value_is_named(
    face: str, gateway: FakeGateway, call: Any, field: str, value: str, accepted: str
) -> None:
    async def work() -> None:
        async with connect(face, gateway.address) as client:
            with pytest.raises(borough.InvalidError) as caught:
                await call(client)
            assert refused(caught.value, field, value, accepted), caught.value

    run(work())
    assert not gateway.metadata, "nothing was sent"


def test_wrong_values_of_logs_are_named(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        async with connect(face, gateway.address) as client:
            with pytest.raises(borough.InvalidError) as caught:
                client.tasks.logs("x/0", tail_lines=-1)
            assert refused(caught.value, "tail_lines", "-1", "0 to")
            with pytest.raises(borough.InvalidError) as caught:
                client.tasks.logs("x/0", query=borough.LogQuery(since=-5))
            assert refused(caught.value, "since", "-5", "0 or more seconds")

    run(work())


def required(name: str) -> Any:
    """A fine value of a parameter without a default."""
    values: dict[str, Any] = {
        "job": "web",
        "task": "web/0",
        "command": ["run"],
        "count": 1,
        "node": "n",
        "spec": SPEC,
        "user": "ann",
        "band": Band.PRODUCTION,
        "grant": Grant(subject="user/ann"),
        "signal": 15,
        "settings": borough.CellSettings(),
        "taints": [],
        "job_file": {"name": "web", "federation": {}},
        "stage": 0,
        "member": "eu1",
        "gateways": ["eu1:7400"],
    }
    return values.get(name, "read")


def begin(call: Any, arguments: dict[str, Any]) -> None:
    """Makes a call up to its first answer."""
    found = call(**arguments)
    if inspect.isgenerator(found):
        next(found, None)
    elif hasattr(found, "close"):
        found.close()


GROUPS = ("jobs", "tasks", "nodes", "names", "quotas", "access", "audit", "cells", "federated", "members")


@pytest.mark.parametrize("group", GROUPS)
def test_every_argument_of_every_call_takes_a_wrong_value_as_an_error_of_the_library(
    gateway: FakeGateway, group: str
) -> None:
    for name in ("GetJob", "GetCell"):
        gateway.defaults[name] = lambda _: Refuse(grpc.StatusCode.NOT_FOUND)
    options = {"retry": borough.RetryPolicy(attempts=1), "deadline": 5.0, "patience": 0.01}
    tried = 0
    with borough.Client(gateway.address, user="ann", cell="alpha", **options) as client:
        calls = getattr(client, group)
        for name, call in inspect.getmembers(calls, inspect.ismethod):
            if name.startswith("_"):
                continue
            parameters = inspect.signature(call).parameters.values()
            fine = {each.name: required(each.name) for each in parameters if each.default is inspect.Parameter.empty}
            for parameter in parameters:
                # A function that is no function fails where it is called, as anywhere in Python.
                if parameter.name.startswith("on_"):
                    continue
                for value in WRONG:
                    tried += 1
                    try:
                        begin(call, fine | {parameter.name: value})
                    except borough.BoroughError:
                        pass
                    except Exception as error:
                        pytest.fail(f"{group}.{name}({parameter.name}={value!r}): {error!r}")
    assert tried > 10


@pytest.mark.parametrize("parameter", list(inspect.signature(borough.job).parameters))
def test_every_field_of_a_job_takes_a_wrong_value_as_an_error_of_the_library(parameter: str) -> None:
    for value in WRONG:
        try:
            borough.job(**{"name": "web", "command": ["run"]} | {parameter: value}).to_message()
        except borough.InvalidError as error:
            assert "; accepted: " in str(error)


PARTS: list[tuple[str, Any, dict[str, Any]]] = [
    ("health", HttpCheck, {"port": "http"}),
    ("health", TcpCheck, {"port": "http"}),
    ("health", CommandCheck, {"command": ["true"]}),
    ("health", Timing, {}),
    ("restart", Restart, {}),
    ("update", Update, {}),
    ("helpers", Helper, {"name": "a", "when": "before", "command": ["run"]}),
]


@pytest.mark.parametrize("field, kind, fine", PARTS, ids=[each[1].__name__ for each in PARTS])
def test_every_field_of_a_part_of_a_job_does_too(field: str, kind: Any, fine: dict[str, Any]) -> None:
    for name in (each.name for each in dataclasses.fields(kind)):
        for value in WRONG:
            part = kind(**fine | {name: value})
            if kind is Timing:
                part = TcpCheck("http", part)
            try:
                given = [part] if field == "helpers" else part
                borough.job("web", ["run"], ports=["http"], **{field: given}).to_message()
            except borough.InvalidError as error:
                assert "; accepted: " in str(error)


def test_every_setting_of_a_client_does_too(gateway: FakeGateway) -> None:
    for name in ("user", "cell", "token", "token_file", "tls", "deadline", "connect_timeout", "retry", "patience"):
        for value in WRONG:
            try:
                borough.Client(gateway.address, **{"user": "ann", "cell": "alpha"} | {name: value}).close()
            except borough.InvalidError:
                pass
            except Exception as error:
                pytest.fail(f"{name}={value!r}: {error!r}")
    for value in WRONG:
        with pytest.raises(borough.InvalidError):
            borough.Client(value, user="ann", cell="alpha")


def test_a_size_of_a_terminal_does_too(gateway: FakeGateway) -> None:
    with borough.Client(gateway.address, user="ann", cell="alpha") as client, pytest.raises(borough.InvalidError):
        client.tasks.exec("web/0", ["sh"], terminal=WindowSize(rows=-1, columns=80))
