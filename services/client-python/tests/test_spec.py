"""The builder of job specs: its defaults, and its checks."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

import borough
from borough import CommandCheck, Helper, HttpCheck, Identity, Restart, Secret, TcpCheck, Timing, Update
from borough.amounts import byte_count, cpu_millis, duration_ms, duration_text
from borough.placement import constraint_of
from borough.v1 import AfterCondition, ConstraintOperator, OnFailure, RestartMode


def test_the_defaults_are_those_of_job_files() -> None:
    spec = borough.job("web", ["run"])
    assert (spec.kind, spec.priority, spec.count, spec.min_member) == (borough.JobKind.SERVICE, 200, 1, 0)
    task = spec.task
    assert task is not None and task.resources is not None and task.log is not None and spec.restart is not None
    assert (task.resources.cpu_millis, task.resources.memory_bytes) == (100, 64 << 20)
    assert (task.grace_ms, task.weight, task.health) == (5_000, 1, None)
    assert (task.log.file_bytes_max, task.log.files_max) == (10 << 20, 3)
    assert (spec.restart.mode, spec.restart.attempts_max) == (RestartMode.ALWAYS, None)
    restart = spec.restart
    assert (restart.backoff_initial_ms, restart.backoff_max_ms, restart.reset_after_ms) == (500, 60_000, 120_000)
    assert (spec.drain_delay_ms, spec.lost_after_ms, spec.update, spec.user) == (0, None, None, "")
    batch = borough.job("sum", ["run"], kind="batch")
    assert batch.priority == 100 and batch.restart is not None
    assert (batch.restart.mode, batch.restart.attempts_max) == (RestartMode.ON_FAILURE, 3)
    assert borough.job("logs", ["run"], kind="daemon").count == 0
    assert borough.job("places", kind="alloc_set").task is not None


def test_what_is_given_arrives() -> None:
    spec = borough.job(
        "web",
        ["serve", "${PORT_HTTP_IN}", "${A}", "$${PLAIN}", "${BOROUGH_INDEX}", "${B}", "${KEY}"],
        user="alice",
        count=3,
        priority="monitoring",
        cpu="1500m",
        memory="1.5GiB",
        disk="10G",
        devices={"gpu": 0.5},
        ports={"http-in": None, "admin": 8081},
        health=HttpCheck("http-in", "/healthz?full=1", Timing(interval="30s", timeout=1.5)),
        environment={"A": "1", "B": "2"},
        labels={"team": "web"},
        grace=timedelta(seconds=90),
        drain_delay="1m30s",
        restart=Restart("on_failure", attempts=7),
        update=Update(surge_max=1, unavailable_max=0, on_failure="stop"),
        helpers=[Helper("migrate", "before", ["migrate", "${A}"], deadline="2m")],
        identities=["vault", Identity("aws", "https://sts.example.org", "10m")],
        secrets=[Secret("TOKEN", "api/token"), Secret("KEY", "tls/key.pem", "file")],
        after=["prepare"],
        constraints=["rack in [r1, r2]", "arch != arm64 prefer 10"],
        spread=["rack", "node.name"],
        affinity=[borough.apart("node.name", "app == cache")],
        tolerations=["maintenance"],
        progress_deadline="2m",
        lost_after=45,
    )
    task, update = spec.task, spec.update
    assert task is not None and task.resources is not None and update is not None
    assert (task.resources.cpu_millis, task.resources.memory_bytes) == (1_500, 3 << 29)
    assert (task.resources.disk_bytes, task.resources.device_millis) == (10**10, {"gpu": 500})
    assert [(port.name, port.number) for port in task.ports] == [("http-in", None), ("admin", 8081)]
    assert task.health is not None and task.health.http is not None
    assert (task.health.http.path, task.health.interval_ms, task.health.timeout_ms) == (
        "/healthz?full=1",
        30_000,
        1_500,
    )
    assert (task.grace_ms, spec.drain_delay_ms, spec.priority) == (90_000, 90_000, 300)
    assert (update.surge_max, update.unavailable_max, update.on_failure) == (1, 0, OnFailure.STOP)
    assert (update.healthy_after_ms, update.failures_max) == (10_000, 2)
    assert task.helpers[0].deadline_ms == 120_000
    identities = [(each.name, each.audience, each.ttl_ms) for each in task.identities]
    assert identities == [("vault", "vault", 3_600_000), ("aws", "https://sts.example.org", 600_000)]
    secrets = [(each.name, each.source, each.form.name) for each in task.secrets]
    assert secrets == [("TOKEN", "api/token", "VARIABLE"), ("KEY", "tls/key.pem", "FILE")]
    assert (spec.after[0].job, spec.after[0].condition) == ("prepare", AfterCondition.SUCCEEDED)
    assert [(each.attribute, each.weight) for each in spec.spread] == [("rack", 100), ("node.name", 50)]
    assert spec.constraints[1].preference == 10
    assert (spec.progress_deadline_ms, spec.lost_after_ms) == (120_000, 45_000)
    assert borough.JobSpec.from_message(spec.to_message()) == spec
    assert dataclasses.replace(spec, count=5).count == 5


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({"name": "Web"}, "name", '"Web"; accepted: 1 to 63 of a-z'),
        ({"name": "a" * 64}, "name", "1 to 63"),
        ({"count": -1}, "count", "-1; accepted: a whole number, 0 to 100000"),
        ({"count": 100_001}, "count", "0 to 100000"),
        ({"count": True}, "count", "True"),
        ({"command": []}, "task.command", '"nothing"; accepted'),
        ({"command": "run it"}, "task.command", '"run it"; accepted: a list'),
        ({"command": ["run", "${NOPE}"]}, "task.command[1]", '"${NOPE}"; accepted: a variable'),
        ({"command": ["a\0"]}, "task.command[0]", "NUL"),
        ({"kind": "cron"}, "kind", "service, batch, daemon, alloc_set"),
        ({"kind": "daemon", "count": 2}, "count", "none in a daemon job"),
        ({"priority": 400}, "priority", "0 to 399, or a band"),
        ({"priority": "urgent"}, "priority", "best_effort, batch, production, monitoring"),
        ({"cpu": 0}, "task.resources.cpu", "at least one thousandth"),
        ({"cpu": "two"}, "task.resources.cpu", '"two"; accepted: cores such as'),
        ({"cpu": 0.0005}, "task.resources.cpu", "0.0005"),
        ({"memory": "64"}, "task.resources.memory", "at least 1MiB"),
        ({"memory": "64 Mb"}, "task.resources.memory", "bytes such as"),
        ({"memory": float("nan")}, "task.resources.memory", "nan"),
        ({"devices": {"gpu": 1.5}}, 'task.resources.devices["gpu"]', "whole devices"),
        ({"ports": ["http", "http"]}, "task.ports", "each name once"),
        ({"ports": "http"}, "task.ports", "a list of names"),
        ({"ports": {"http": 80}}, "task.ports[0].number", "1024 to 65535"),
        ({"ports": {"a": 8080, "b": 8080}}, "task.ports", "each number once"),
        ({"ports": [f"p{at}" for at in range(33)]}, "task.ports", "at most 32"),
        (
            {"health": HttpCheck("http")},
            "task.health.http.port",
            '"http"; accepted: a port of the task, which has none',
        ),
        ({"ports": ["a"], "health": TcpCheck("b")}, "task.health.tcp.port", "one of the task's ports: a"),
        ({"ports": ["a"], "health": HttpCheck("a", "x y")}, "task.health.http.path", "a path such as"),
        ({"health": CommandCheck([])}, "task.health.command", "a program and its arguments"),
        ({"health": CommandCheck(["x"], Timing(interval=0.05, timeout=0.05))}, "task.health.interval", "100ms to 1h"),
        ({"health": CommandCheck(["x"], Timing(timeout=6))}, "task.health.timeout", "1ms to 5s"),
        ({"environment": {"9": "x"}}, 'task.environment["9"]', "letters, digits"),
        ({"environment": {"PORT_HTTP": "x"}}, 'task.environment["PORT_HTTP"]', "BOROUGH_ or PORT_"),
        ({"working_directory": "srv"}, "task.working_directory", "an absolute path"),
        ({"labels": {"*": "x"}}, 'labels["*"]', "starting with a letter or digit"),
        ({"labels": {"a": "x\ny"}}, 'labels["a"]', "on one line"),
        ({"grace": "5"}, "task.grace", "a duration such as 250ms"),
        ({"grace": "2h"}, "task.grace", "0s to 1h"),
        ({"weight": 0}, "task.weight", "1 to 255"),
        ({"restart": "sometimes"}, "restart.mode", "always, on_failure, never"),
        ({"restart": Restart(backoff=90)}, "restart.backoff_max", "at least `backoff`"),
        ({"update": Update(unavailable_max=0)}, "update.unavailable_max", "1 or more"),
        ({"update": Update(auto_promote=True)}, "update.auto_promote", "canaries"),
        ({"update": Update(canaries=2)}, "update.canaries", "0 to 1"),
        ({"update": Update(surge_max=1), "kind": "batch"}, "update.surge_max", "only a service can surge"),
        ({"helpers": [Helper("h", "beside", ["x"], deadline=5)]}, "task.helpers[0].deadline", "as long as"),
        ({"identities": [Identity("a", ttl=5)]}, "task.identities[0].ttl", "30s to 24h"),
        ({"identities": ["a", "a"]}, "task.identities[1].name", "each name once"),
        ({"identities": [Identity("a", "b c")]}, "task.identities[0].audience", "visible ASCII"),
        ({"secrets": [Secret("A", "../b")]}, "task.secrets[0].source", "below the secrets"),
        ({"secrets": [Secret("BOROUGH_A", "b")]}, "task.secrets[0].name", "BOROUGH_"),
        ({"secrets": [Secret("A", "b", "text")]}, "task.secrets[0].form", "variable or file"),
        ({"helpers": [Helper("h", "later", ["x"])]}, "task.helpers[0].when", "before, beside, after"),
        ({"after": ["web"]}, "after[0].job", "none can wait for itself"),
        ({"constraints": ["rack is r1"]}, "constraints[0]", "a text such as rack in"),
        ({"constraints": ["ssd exists prefer 101"]}, "constraints[0].preference", "1 to 100"),
        ({"spread": {"rack": 0}}, "spread[0].weight", "1 to 100"),
        ({"min_member": 2}, "min_member", "0 to 1"),
        ({"progress_deadline": 0.5}, "progress_deadline", "1s to 24h"),
        ({"description": "x" * 513}, "description", "at most 512 bytes"),
    ],
)
def test_a_wrong_field_is_named_with_its_value_and_what_is_accepted(
    given: dict[str, Any], field: str, says: str
) -> None:
    with pytest.raises(borough.InvalidError) as caught:
        borough.job(**({"name": "web", "command": ["run"]} | given))
    (violation,) = caught.value.fields
    assert violation.field == field and says in violation.description, violation


def test_every_wrong_field_is_named_at_once() -> None:
    with pytest.raises(borough.InvalidError) as caught:
        borough.job("W", [], count=-1, memory="x" * 200)
    assert {each.field for each in caught.value.fields} == {"name", "task.command", "count", "task.resources.memory"}
    assert str(caught.value).startswith("4 fields are wrong:\n  ")
    assert max(len(line) for line in str(caught.value).splitlines()) < 200


@pytest.mark.parametrize(
    ("reader", "text", "value"),
    [
        (cpu_millis, "500m", 500),
        (cpu_millis, "0.5", 500),
        (cpu_millis, 2, 2_000),
        (cpu_millis, 0.1, 100),
        (cpu_millis, "0.5m", None),
        (cpu_millis, "-1", None),
        (cpu_millis, float("inf"), None),
        (byte_count, "512k", 512_000),
        (byte_count, "64Mi", 64 << 20),
        (byte_count, "64MiB", 64 << 20),
        (byte_count, "1.5G", 1_500_000_000),
        (byte_count, "0.3", None),
        (byte_count, "1kib", None),
        (byte_count, 1048576, 1 << 20),
        (duration_ms, "250ms", 250),
        (duration_ms, "1m30s", 90_000),
        (duration_ms, "1d", 86_400_000),
        (duration_ms, "5", None),
        (duration_ms, "", None),
        (duration_ms, "s5", None),
        (duration_ms, 0.25, 250),
        (duration_ms, timedelta(milliseconds=1, microseconds=1), None),
    ],
)
def test_amounts_are_read_exactly(reader: Any, text: Any, value: int | None) -> None:
    assert reader(text) == value


def test_durations_are_shown_in_their_largest_unit() -> None:
    assert [duration_text(each) for each in (0, 1, 1_500, 60_000, 86_400_000)] == ["0s", "1ms", "1500ms", "1m", "24h"]


@pytest.mark.parametrize(
    ("text", "operator", "values", "preference"),
    [
        ("rack in [r1, r2]", ConstraintOperator.IN, ("r1", "r2"), None),
        ("rack not in [r3]", ConstraintOperator.NOT_IN, ("r3",), None),
        ("rack == x86_64", ConstraintOperator.IN, ("x86_64",), None),
        ('rack != "with space" prefer 3', ConstraintOperator.NOT_IN, ("with space",), 3),
        ("rack > 8", ConstraintOperator.GREATER_THAN, ("8",), None),
        ("rack<64", ConstraintOperator.LESS_THAN, ("64",), None),
        ("rack exists", ConstraintOperator.EXISTS, (), None),
        ("rack absent prefer 50", ConstraintOperator.ABSENT, (), 50),
    ],
)
def test_constraints_are_read(text: str, operator: Any, values: tuple[str, ...], preference: int | None) -> None:
    found = constraint_of(text)
    assert found is not None
    assert (found.operator, found.values, found.preference) == (operator, values, preference)
    assert found.attribute == "rack"
