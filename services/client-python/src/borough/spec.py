"""Builds job specs with the defaults of job files, and checks them before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .amounts import Bytes, Cpu, Duration
from .checks import Checks
from .placement import Constraints, Spreads, Tolerations, affinity_read, constraints_read, spread_read, tolerations_read
from .proof import Identity, Secret, identities_read, secrets_read
from .refs import COUNT_MAX
from .v1 import (
    Affinity,
    After,
    AfterCondition,
    CommandProbe,
    HealthCheck,
    HelperPhase,
    HelperSpec,
    HttpProbe,
    JobKind,
    JobSpec,
    LogSpec,
    OnFailure,
    PortSpec,
    Resources,
    RestartMode,
    RestartSpec,
    SecretForm,
    TaskSpec,
    TcpProbe,
    UpdateSpec,
)

_DAY_MS = 86_400_000
_KINDS = {
    "service": JobKind.SERVICE,
    "batch": JobKind.BATCH,
    "daemon": JobKind.DAEMON,
    "alloc_set": JobKind.ALLOC_SET,
}
_BANDS = {"best_effort": 0, "batch": 100, "production": 200, "monitoring": 300}
_MODES = {"always": RestartMode.ALWAYS, "on_failure": RestartMode.ON_FAILURE, "never": RestartMode.NEVER}
_PHASES = {"before": HelperPhase.BEFORE, "beside": HelperPhase.BESIDE, "after": HelperPhase.AFTER}
_ON_FAILURE = {"revert": OnFailure.REVERT, "stop": OnFailure.STOP}


@dataclass(frozen=True, slots=True)
class Timing:
    """When an agent checks the health of a task."""

    interval: Duration = 5
    """The time between two checks."""
    timeout: Duration = 2
    """A check that takes longer fails."""
    failures: int = 3
    """Failures in a row that restart the task."""
    initial_grace: Duration = 10
    """The time after the start in which failures do not count."""


@dataclass(frozen=True, slots=True)
class HttpCheck:
    """Healthy if a GET of a path answers 200 to 399."""

    port: str
    """The name of a port of the task."""
    path: str = "/"
    """The path with its query."""
    timing: Timing = field(default_factory=Timing)
    """When it is checked."""


@dataclass(frozen=True, slots=True)
class TcpCheck:
    """Healthy if a connection opens."""

    port: str
    """The name of a port of the task."""
    timing: Timing = field(default_factory=Timing)
    """When it is checked."""


@dataclass(frozen=True, slots=True)
class CommandCheck:
    """Healthy if a command in the environment of the task exits with 0."""

    command: Sequence[str]
    """The program and its arguments."""
    timing: Timing = field(default_factory=Timing)
    """When it is checked."""


Check = HttpCheck | TcpCheck | CommandCheck
"""How the health of a task is checked."""


@dataclass(frozen=True, slots=True)
class Restart:
    """What happens when a task ends by itself. None means the default of the kind of job."""

    mode: str | None = None
    """`always`, `on_failure` or `never`."""
    attempts: int | None = None
    """The most restarts in a row; None: three of batch jobs, no limit of others."""
    backoff: Duration = 0.5
    """The pause before the first restart. Each further failure in a row doubles it."""
    backoff_max: Duration = 60
    """The longest pause."""
    reset_after: Duration = 120
    """After an attempt of this length, the next failure is the first in a row."""


@dataclass(frozen=True, slots=True)
class Update:
    """How a changed spec reaches the tasks of a running job."""

    unavailable_max: int | None = None
    """Tasks that may be without a healthy attempt; None: one, or none with a surge."""
    unavailable_percent_max: int | None = None
    """The same as a share of the count, rounded down. The larger of both counts."""
    healthy_after: Duration = 10
    """How long a new attempt must be healthy before it counts."""
    failures_max: int = 2
    """Failures in a row of one task that a rollout bears."""
    on_failure: str = "revert"
    """`revert`: the job goes back to the last version that was rolled out. `stop`: no further task is replaced."""
    surge_max: int | None = None
    """Tasks that a rollout runs beside the job's own until it is done."""
    surge_percent_max: int | None = None
    """The same as a share of the count, rounded up."""
    canaries: int = 0
    """Tasks beside the job's own that try the new version before any other has it."""
    auto_promote: bool = False
    """Whether healthy canaries promote their version."""
    disruptions_max: int | None = None
    """The most healthy tasks that one rollout ends in all."""


@dataclass(frozen=True, slots=True)
class Helper:
    """A program that runs before, beside or after the command of a task."""

    name: str
    """Unique within the task."""
    when: str
    """`before`, `beside` or `after`."""
    command: Sequence[str]
    """The program and its arguments."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables over those of the task."""
    cpu: Cpu = "100m"
    """Cores that its node holds for it."""
    memory: Bytes = "64MiB"
    """Memory that its node holds for it."""
    deadline: Duration | None = None
    """How long it may run; None: 10 minutes before the command, 30 s after it. One beside it has none."""


def job(
    name: str,
    command: Sequence[str] = (),
    *,
    user: str = "",
    kind: str = "service",
    count: int | None = None,
    priority: int | str | None = None,
    cpu: Cpu = "100m",
    memory: Bytes = "64MiB",
    disk: Bytes = 0,
    devices: Mapping[str, Cpu] | None = None,
    ports: Sequence[str] | Mapping[str, int | None] = (),
    health: Check | None = None,
    environment: Mapping[str, str] | None = None,
    working_directory: str | None = None,
    labels: Mapping[str, str] | None = None,
    description: str = "",
    weight: int = 1,
    grace: Duration = 5,
    drain_delay: Duration = 0,
    restart: Restart | str | None = None,
    update: Update | None = None,
    helpers: Iterable[Helper] = (),
    identities: Iterable[Identity | str] = (),
    secrets: Iterable[Secret] = (),
    after: Iterable[str | After] = (),
    constraints: Constraints = (),
    spread: Spreads = (),
    affinity: Iterable[Affinity] = (),
    tolerations: Tolerations = (),
    min_member: int = 0,
    scheduler: str = "",
    profile: str = "",
    queue: str = "",
    alloc_set: str = "",
    lost_after: Duration | None = None,
    progress_deadline: Duration | None = None,
    log_file_bytes: Bytes = "10MiB",
    log_files: int = 3,
) -> JobSpec:
    """A job spec with the defaults of job files: a service of one task with a tenth of a core and 64 MiB.

    `docs/job-files.md` says what each field means; they have the same names here. `priority` is a number or a band,
    such as `production`. `ports` are names, or names with fixed numbers. `user` is that of the client unless given.
    For what this function does not cover, such as `overrides` and `roles`, use `dataclasses.replace` on its result.

    Raises `InvalidError` with every wrong field, its value and what would be accepted.
    """
    checks = Checks()
    job_kind = checks.choice("kind", kind, _KINDS)
    is_batch, is_daemon = job_kind is JobKind.BATCH, job_kind is JobKind.DAEMON
    if is_daemon:
        checks.require(count is None, "count", count, "none in a daemon job: each node that matches has one task")
    named_ports = ports_read(checks, ports)
    environment_read = checks.environment("task.environment", environment or {})
    task = TaskSpec(
        command=() if job_kind is JobKind.ALLOC_SET and not command else tuple(checks.command("task.command", command)),
        environment=environment_read,
        working_directory=directory(checks, working_directory),
        resources=resources(checks, cpu, memory, disk, devices or {}),
        ports=named_ports,
        health=health_check(checks, health, named_ports),
        grace_ms=checks.delay("task.grace", grace),
        log=LogSpec(
            file_bytes_max=checks.bytes("task.log.file_bytes", log_file_bytes),
            files_max=checks.whole("task.log.files", log_files, 1, 100),
        ),
        weight=checks.whole("task.weight", weight, 1, 255),
        helpers=helpers_read(checks, helpers),
        identities=identities_read(checks, identities),
        secrets=secrets_read(checks, secrets, set(environment_read)),
    )
    known = variables(named_ports) | set(task.environment)
    known |= {secret.name for secret in task.secrets if secret.form is SecretForm.FILE}
    checks.variables_used("task.command", task.command, known)
    for at, helper in enumerate(task.helpers):
        checks.variables_used(f"task.helpers[{at}].command", helper.command, known | set(helper.environment))
    tasks = 0 if is_daemon else checks.whole("count", 1 if count is None else count, 0, COUNT_MAX)
    spec = JobSpec(
        user=checks.name("user", user) if user else "",
        name=checks.name("name", name),
        kind=job_kind,
        priority=priority_of(checks, priority, 100 if is_batch else 200),
        count=tasks,
        min_member=checks.whole("min_member", min_member, 0, max(tasks, 1)),
        after=after_read(checks, after, name),
        constraints=constraints_read(checks, "constraints", constraints),
        spread=spread_read(checks, spread),
        task=task,
        restart=restart_spec(checks, restart, is_batch=is_batch),
        drain_delay_ms=checks.delay("drain_delay", drain_delay),
        lost_after_ms=None if lost_after is None else checks.delay("lost_after", lost_after, 1_000, _DAY_MS),
        labels=checks.labels("labels", labels or {}),
        affinity=affinity_read(checks, affinity),
        tolerations=tolerations_read(checks, tolerations),
        scheduler=checks.name("scheduler", scheduler) if scheduler else "",
        profile=checks.line("profile", profile, 200),
        queue=checks.line("queue", queue),
        description=checks.line("description", description, 512),
        progress_deadline_ms=(
            None if progress_deadline is None else checks.delay("progress_deadline", progress_deadline, 1_000, _DAY_MS)
        ),
        update=None if update is None else update_spec(checks, update, job_kind, tasks),
        alloc_set=checks.name("alloc_set", alloc_set) if alloc_set else "",
    )
    checks.done()
    return spec


def priority_of(checks: Checks, priority: int | str | None, default: int) -> int:
    """The number of a priority or of a band."""
    if priority is None:
        return default
    if isinstance(priority, str):
        return checks.choice("priority", priority, _BANDS)
    return checks.whole("priority", priority, 0, 399, ", or a band such as production")


def ports_read(checks: Checks, ports: Sequence[str] | Mapping[str, int | None]) -> tuple[PortSpec, ...]:
    """Ports with their names, and with their numbers if they are fixed."""
    names = checks.items("task.ports", ports, "a list of names such as [http], or a map of names and numbers")
    if not all(isinstance(name, str) for name in names):
        checks.refuse("task.ports", names, "names of text")
        return ()
    given = dict(ports) if isinstance(ports, Mapping) else dict.fromkeys(names)
    checks.require(len(given) == len(names), "task.ports", names, "each name once")
    checks.require(len(given) <= 32, "task.ports", f"{len(given)} ports", "at most 32")
    found = []
    for at, (name, number) in enumerate(given.items()):
        checks.name(f"task.ports[{at}].name", name)
        if number is not None:
            checks.whole(f"task.ports[{at}].number", number, 1_024, 65_535)
        found.append(PortSpec(name=name, number=number))
    numbers = [port.number for port in found if port.number is not None]
    checks.require(len(set(numbers)) == len(numbers), "task.ports", numbers, "each number once")
    return tuple(found)


def variables(ports: tuple[PortSpec, ...]) -> set[str]:
    """The variables that a task has for its ports."""
    names = {"PORT_" + port.name.upper().replace("-", "_") for port in ports}
    return names | {"PORT"} if names else names


def directory(checks: Checks, path: str | None) -> str | None:
    """The working directory of a task."""
    is_fine = path is None or (isinstance(path, str) and path.startswith("/") and "\0" not in path)
    checks.require(is_fine, "task.working_directory", path, "an absolute path")
    return path


def resources(checks: Checks, cpu: Cpu, memory: Bytes, disk: Bytes, devices: Mapping[str, Cpu]) -> Resources:
    """What a task asks for."""
    millis = {}
    for kind, amount in checks.mapping("task.resources.devices", devices, "a map of kinds and amounts").items():
        path = f'task.resources.devices["{kind}"]'
        millis[kind] = checks.cpu(path, amount)
        is_fine = millis[kind] <= 1_000 or millis[kind] % 1_000 == 0
        checks.require(is_fine, path, amount, "whole devices, or a share of one such as 0.5")
    return Resources(
        cpu_millis=checks.cpu("task.resources.cpu", cpu),
        memory_bytes=checks.memory("task.resources.memory", memory),
        disk_bytes=checks.bytes("task.resources.disk", disk),
        device_millis=millis,
    )


def health_check(checks: Checks, check: Check | None, ports: tuple[PortSpec, ...]) -> HealthCheck | None:
    """A check with its timing."""
    accepted = "an HttpCheck, a TcpCheck or a CommandCheck"
    if check is None or not checks.of_kind("task.health", check, (HttpCheck, TcpCheck, CommandCheck), accepted):
        return None
    probe: dict[str, Any] = {}
    if isinstance(check, CommandCheck):
        command = checks.command("task.health.command", check.command)
        checks.variables_used("task.health.command", command, set())
        probe["command"] = CommandProbe(command=tuple(command))
    else:
        word = "http" if isinstance(check, HttpCheck) else "tcp"
        names = [port.name for port in ports]
        accepted = f"one of the task's ports: {', '.join(names)}" if names else "a port of the task, which has none"
        checks.require(check.port in names, f"task.health.{word}.port", check.port, accepted)
        if isinstance(check, HttpCheck):
            path = check.path if isinstance(check.path, str) else ""
            is_fine = path.startswith("/") and all("!" <= each <= "~" for each in path)
            accepted = "a path such as /healthz, in printable ASCII without spaces"
            checks.require(is_fine, "task.health.http.path", check.path, accepted)
            probe["http"] = HttpProbe(port=check.port, path=check.path)
        else:
            probe["tcp"] = TcpProbe(port=check.port)
    timing = check.timing if checks.of_kind("task.health.timing", check.timing, Timing, "a Timing") else Timing()
    interval = checks.delay("task.health.interval", timing.interval, 100)
    return HealthCheck(
        interval_ms=interval,
        timeout_ms=checks.delay("task.health.timeout", timing.timeout, 1, interval),
        failures_max=checks.whole("task.health.failures", timing.failures, 1, 1_000),
        initial_grace_ms=checks.delay("task.health.initial_grace", timing.initial_grace),
        **probe,
    )


def helpers_read(checks: Checks, helpers: Iterable[Helper]) -> tuple[HelperSpec, ...]:
    """The helpers of a task."""
    found = []
    for at, each in enumerate(checks.items("task.helpers", helpers, "a list of Helper")):
        if checks.of_kind(f"task.helpers[{at}]", each, Helper, "a Helper"):
            found.append(helper_spec(checks, f"task.helpers[{at}]", each))
    return tuple(found)


def helper_spec(checks: Checks, path: str, helper: Helper) -> HelperSpec:
    """A helper of a task."""
    phase = checks.choice(f"{path}.when", helper.when, _PHASES)
    if phase is HelperPhase.BESIDE and helper.deadline is not None:
        accepted = "none: a helper beside the command runs as long as the command does"
        checks.refuse(f"{path}.deadline", helper.deadline, accepted)
    return HelperSpec(
        name=checks.name(f"{path}.name", helper.name),
        when=phase,
        command=tuple(checks.command(f"{path}.command", helper.command)),
        environment=checks.environment(f"{path}.environment", helper.environment),
        cpu_millis=checks.cpu(f"{path}.cpu", helper.cpu),
        memory_bytes=checks.memory(f"{path}.memory", helper.memory),
        deadline_ms=None if helper.deadline is None else checks.delay(f"{path}.deadline", helper.deadline, 1_000),
    )


def after_read(checks: Checks, after: Iterable[str | After], own: str) -> tuple[After, ...]:
    """The jobs that a job waits for. A name alone: it must have succeeded."""
    given = checks.items("after", after, "a list of names of jobs, or of After")
    found = [After(job=each, condition=AfterCondition.SUCCEEDED) if isinstance(each, str) else each for each in given]
    for at, each in enumerate(found):
        if not checks.of_kind(f"after[{at}]", each, After, "the name of a job, or an After"):
            continue
        checks.name(f"after[{at}].job", each.job)
        checks.require(each.job != own, f"after[{at}].job", each.job, "another job: none can wait for itself")
    return tuple(found)


def restart_spec(checks: Checks, restart: Restart | str | None, *, is_batch: bool) -> RestartSpec:
    """What happens when a task ends by itself."""
    checks.of_kind("restart", restart, (Restart, str, type(None)), "one of always, on_failure, never, or a Restart")
    mode = restart if isinstance(restart, str) else None
    given = restart if isinstance(restart, Restart) else Restart(mode=mode)
    attempts = given.attempts
    if attempts is not None:
        checks.whole("restart.attempts", attempts, 0, 4_294_967_295)
    elif is_batch:
        attempts = 3
    backoff = checks.delay("restart.backoff", given.backoff, 10)
    longest = checks.delay("restart.backoff_max", given.backoff_max, 10)
    checks.require(backoff <= longest, "restart.backoff_max", given.backoff_max, "at least `backoff`")
    return RestartSpec(
        mode=checks.choice("restart.mode", given.mode or ("on_failure" if is_batch else "always"), _MODES),
        attempts_max=attempts,
        backoff_initial_ms=backoff,
        backoff_max_ms=longest,
        reset_after_ms=checks.delay("restart.reset_after", given.reset_after),
    )


def update_spec(checks: Checks, update: Update, kind: JobKind, count: int) -> UpdateSpec:
    """How a changed spec reaches the tasks."""

    def bounded(name: str, value: int | None, least: int, most: int) -> int | None:
        return None if value is None else checks.whole(f"update.{name}", value, least, most)

    if not checks.of_kind("update", update, Update, "an Update"):
        return UpdateSpec()
    surges = bool(update.surge_max or update.surge_percent_max or update.canaries)
    accepted = "none: only a service can surge"
    checks.require(not surges or kind is JobKind.SERVICE, "update.surge_max", update.surge_max or 0, accepted)
    accepted = "1 or more, or 0 with a `surge_max` or `canaries` of 1 or more"
    is_stuck = update.unavailable_max == 0 and not surges
    checks.require(not is_stuck, "update.unavailable_max", 0, accepted)
    accepted = "`True` with `canaries` of 1 or more: without one, nothing waits for a promotion"
    has_canaries = checks.whole("update.canaries", update.canaries, 0, count or COUNT_MAX // 2) > 0
    checks.require(has_canaries or not update.auto_promote, "update.auto_promote", True, accepted)
    return UpdateSpec(
        unavailable_max=bounded("unavailable_max", update.unavailable_max, 0, COUNT_MAX),
        unavailable_percent_max=bounded("unavailable_percent_max", update.unavailable_percent_max, 1, 100),
        healthy_after_ms=checks.delay("update.healthy_after", update.healthy_after),
        failures_max=checks.whole("update.failures_max", update.failures_max, 0, 100),
        on_failure=checks.choice("update.on_failure", update.on_failure, _ON_FAILURE),
        surge_max=bounded("surge_max", update.surge_max, 0, COUNT_MAX),
        surge_percent_max=bounded("surge_percent_max", update.surge_percent_max, 0, 100),
        canaries=update.canaries,
        auto_promote=update.auto_promote,
        disruptions_max=bounded("disruptions_max", update.disruptions_max, 0, COUNT_MAX),
    )
