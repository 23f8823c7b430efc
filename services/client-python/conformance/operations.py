"""The operations of the clients' suite, each a method of the name that a step's `do` says."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any

import borough
from faces import Face, Watched
from federated import federated_call
from joins import join_call, keys_call

Step = dict[str, Any]

_KINDS: list[tuple[type[BaseException], str]] = [
    (borough.TokenRefusedError, "token_refused"),
    (borough.RefusedError, "refused"),
    (borough.NotGatewayError, "not_gateway"),
    (borough.DeadlineError, "deadline"),
    (borough.UnreachableError, "unreachable"),
    (borough.InvalidError, "invalid"),
    (borough.DryRun, "dry_run"),
    (borough.ClosedError, "cancelled"),
    (asyncio.CancelledError, "cancelled"),
]
_STATES = {
    borough.JobState.WAITING: "queued",
    borough.JobState.RUNNING: "running",
    borough.JobState.STOPPING: "running",
}


class Failed(Exception):
    """A step has not done what the scenario expects."""


def check(is_fine: bool, message: str) -> None:
    """Fails the step unless something holds."""
    if not is_fine:
        raise Failed(message)


def expect(step: Step, found: Step) -> None:
    """Compares what a call has said with what its step expects."""
    for key, value in step.get("expect", {}).items():
        check(found.get(key) == value, f"{key} is {found.get(key)}, expected {value}")


def seconds(step: Step) -> float:
    """How long a step may wait."""
    return float(step.get("within", 20_000)) / 1_000


async def until(is_reached: Callable[[], bool | Awaitable[bool]], step: Step, message: Callable[[], str]) -> None:
    """Waits for a condition."""
    end = time.monotonic() + seconds(step)
    while True:
        found = is_reached()
        if found if isinstance(found, bool) else await found:
            return
        check(time.monotonic() < end, message())
        await asyncio.sleep(0.02)


def spec_of(given: Step) -> borough.JobSpec:
    """Builds a job with the builder of the library."""
    probe = given.get("probe") or {}
    health: borough.HttpCheck | borough.TcpCheck | borough.CommandCheck | None = None
    if "exec" in probe:
        health = borough.CommandCheck(probe["exec"])
    elif "tcp" in probe:
        health = borough.TcpCheck(probe["tcp"])
    elif "http" in probe:
        health = borough.HttpCheck(probe["http"], probe.get("path", "/"))
    attempts = given.get("max_attempts")
    return borough.job(
        given["name"],
        given.get("command", ()),
        kind=given.get("kind", "service"),
        count=given.get("count"),
        priority=given.get("priority", given.get("band")),
        cpu=given.get("cpu_millis", 50) / 1_000,
        memory=given.get("memory_bytes", 32 << 20),
        ports=given.get("ports", ()),
        weight=given.get("weight", 1),
        labels=given.get("labels"),
        environment=given.get("env"),
        health=health,
        restart=None if attempts is None else borough.Restart(attempts=attempts),
    )


class Operations:
    """Carries out the steps of one scenario with one face of the client."""

    def __init__(self, world: Step, face: type[Face]) -> None:
        self.world, self.face_type = world, face
        self.submitted: set[str] = set()
        self.watches: dict[str, tuple[Watched, Callable[[], Awaitable[None]]]] = {}
        self.faces: list[Face] = []
        self.face = self.make({})

    def make(self, step: Step) -> Face:
        """A client as a `client` step describes it."""
        tls = self.world.get("tls") if step.get("tls") else None
        gateways = step.get("gateways", [tls["gateway"]] if tls else [0, 1])
        addresses = [self.world["gateways"][each] if isinstance(each, int) else each for each in gateways]
        token = step.get("token", None if tls else self.world["token"])
        attempts = step.get("attempts")
        config = borough.ClientConfig(
            gateways=addresses,
            user=str(step.get("user", self.world["user"])),
            cell=str(step.get("cell", self.world["cell"])),
            token=None if token == "none" else token,
            tls=borough.Tls(ca=tls["ca"], certificate=tls["certificate"], key=tls["key"]) if tls else None,
            deadline=step.get("deadline", 10_000) / 1_000,
            retry=borough.RetryPolicy() if attempts is None else borough.RetryPolicy(attempts=attempts),
        )
        face = self.face_type(config)
        if step.get("dry_run"):
            face.client = face.client.with_dry_run()
        self.faces.append(face)
        return face

    async def step(self, step: Step) -> Any:
        """Carries out one step, and compares its end with what the scenario expects."""
        operation, begun = getattr(self, f"do_{step['do']}", None), time.monotonic()
        check(operation is not None, f"an operation that this runner does not know: {step['do']}")
        expected = step.get("error")
        try:
            result = await operation(step)  # type: ignore[misc]
        except Failed:
            raise
        except (borough.BoroughError, asyncio.CancelledError) as error:
            check(expected is not None, f"{type(error).__name__}: {error}")
            self.compare(error, expected or {})
            result = None
        else:
            check(expected is None, f"no error came; expected {expected}")
        took = (time.monotonic() - begun) * 1_000
        check(took >= step.get("at_least", 0), f"it took {took:.0f} ms, expected {step.get('at_least')} or more")
        return result

    @staticmethod
    def compare(error: BaseException, expected: Step) -> None:
        """Compares an error with what a step expects of it."""
        kind = next(name for each, name in _KINDS if isinstance(error, each))
        refusal = getattr(error, "refusal", None)
        found = {
            "kind": kind,
            "code": refusal.code.name if refusal else None,
            "reason": refusal.reason if refusal else None,
            "changes": getattr(error, "changes", None),
        }
        shown = f"{type(error).__name__}: {error}"
        for key, value in expected.items():
            if key == "says":
                check(value in str(error), f'the message lacks "{value}": {shown}')
            elif key == "field":
                fields = [each.field for each in getattr(error, "fields", ())]
                check(any(value in each for each in fields), f"the fields are {fields}, expected {value}: {shown}")
            elif key == "effect":
                effects = [f"{each.subject}: {each.text}" for each in getattr(error, "effects", ())]
                is_fine = any(each.startswith(value) for each in effects)
                check(is_fine, f"the effects are {effects}, expected {value}: {shown}")
            else:
                check(found.get(key) == value, f"{key} is {found.get(key)}, expected {value}: {shown}")

    async def do_client(self, step: Step) -> None:
        """Replaces the client."""
        old, self.face = self.face, self.make(step)
        if not self.watches:
            self.faces.remove(old)
            await old.close()

    async def do_fault(self, step: Step) -> None:
        """Posts a fault to the control of the proxy."""
        fault = {key: value for key, value in step.items() if key != "do"}
        body = json.dumps(fault).encode()
        address = f"{self.world['control'].rstrip('/')}/fault"
        request = urllib.request.Request(address, data=body, headers={"content-type": "application/json"})

        def post() -> int:
            with urllib.request.urlopen(request, timeout=10) as answer:
                answer.read()
                return int(answer.status)

        status = await asyncio.to_thread(post)
        check(200 <= status < 300, f"the control of the proxy answers {status}")

    async def do_submit(self, step: Step) -> str:
        """Builds a job and submits it."""
        spec = spec_of(step["job"])
        self.submitted.add(spec.name)
        submission = await self.face.do(lambda client: client.jobs.submit(spec, request_id=step.get("request_id")))
        return str(submission.job.id)

    async def do_build(self, step: Step) -> None:
        """Only builds a job."""
        spec_of(step["job"])

    async def do_scale(self, step: Step) -> None:
        """Changes the count."""
        await self.face.do(lambda client: client.jobs.scale(step["job"], step["count"]))

    async def do_stop(self, step: Step) -> None:
        """Stops a job."""
        await self.face.do(lambda client: client.jobs.stop(step["job"]))

    async def do_get(self, step: Step) -> str:
        """Reads a job, and compares it."""
        job = await self.face.do(lambda client: client.jobs.get(step["job"]))
        found = {"count": job.count, "version": job.spec_version, "state": _STATES.get(job.state, "ended")}
        for key, value in step.get("expect", {}).items():
            check(found.get(key) == value, f"{key} is {found.get(key)}, expected {value}")
        return str(job.id)

    async def do_wait(self, step: Step) -> None:
        """Waits for a job."""
        is_end = step.get("for") == "ended"
        result = await self.face.do(
            lambda client: client.jobs.wait(step["job"], ended=is_end, timeout=seconds(step), check=False)
        )
        outcome = step.get("outcome")
        if outcome is not None:
            check(result.outcome.value == outcome, f"{result.outcome.value}, expected {outcome}: {result.text}")
        else:
            is_fine = result.is_reached or (is_end and result.outcome is not borough.Outcome.TIMEOUT)
            check(is_fine, f"{result.outcome.value}: {result.text} {result.details}")

    async def do_list(self, step: Step) -> None:
        """Goes over all pages of a list, and counts the rows of a job."""
        what, name, page = step["what"], step.get("job"), step.get("page") or None
        if what == "jobs":
            listed = await self.face.all(lambda client: client.jobs.list(user=client.config.user, page=page))
            rows = [(row.name, row.id) for row in listed]
        elif what == "tasks":
            listed = await self.face.all(lambda client: client.tasks.list(name, user=client.config.user, page=page))
            rows = [(row.job, row.index) for row in listed]
        elif what == "federated":
            listed = await self.face.all(lambda client: client.federated.list(user=client.config.user, page=page))
            rows = [(row.name, row.id) for row in listed]
        else:
            listed = await self.face.all(lambda client: client.names.list(name, user=client.config.user, page=page))
            rows = [(row.job, row.index) for row in listed]
        found = [row for row in rows if name is None or row[0] == name]
        check(len(set(found)) == len(found), f"rows come twice: {found}")
        expected = step.get("count", len(found))
        check(len(found) == expected, f"{len(found)} {what} of {name}, expected {expected}")

    async def do_federated(self, step: Step) -> None:
        """Makes a call about a federated job, and compares what it says."""
        expect(step, await federated_call(self.face, step))

    async def do_join(self, step: Step) -> None:
        """Makes a call about the join token of a node, and compares what it says."""
        expect(step, await join_call(self.face, step))

    async def do_keys(self, step: Step) -> None:
        """Makes a call about the keys of identities, and compares what it says."""
        expect(step, await keys_call(self.face, step))

    async def do_watch(self, step: Step) -> None:
        """Follows the endpoints of a job in the background."""
        self.watches[step["watch"]] = await self.face.watch(step["job"])

    def watched(self, step: Step) -> Watched:
        """The watch that a step names."""
        watched, _ = self.watches[step["watch"]]
        check(watched.error is None, f"the watch has ended with {watched.error!r}")
        return watched

    async def do_until(self, step: Step) -> None:
        """Waits until the published endpoints have just these indexes, and the weight and labels of the step."""
        wanted = sorted(step["live"])

        def live() -> list[int]:
            return sorted(endpoint.index for endpoint in self.watched(step).table)

        def is_complete() -> bool:
            return any(isinstance(item, borough.Snapshot) for item in self.watched(step).items)

        def is_alike() -> bool:
            table = list(self.watched(step).table)
            return all(
                each.weight == step.get("weight", each.weight) and each.labels == step.get("labels", each.labels)
                for each in table
            )

        await until(
            lambda: is_complete() and live() == wanted and is_alike(),
            step,
            lambda: f"live: {list(self.watched(step).table)}, expected {step}",
        )

    async def do_items(self, step: Step) -> None:
        """Counts the items of a kind so far."""
        kinds = {
            "resyncs": borough.Resync,
            "snapshots": borough.Snapshot,
            "absences": borough.Absent,
            "withdrawals": borough.Withdrawn,
        }

        def counts() -> dict[str, int]:
            items = list(self.watched(step).items)
            return {word: sum(isinstance(item, kind) for item in items) for word, kind in kinds.items()}

        def hold() -> bool:
            bounds = {word: step.get(word, {}) for word in kinds}
            found = counts()
            return all(
                bounds[word].get("min", 0) <= found[word] <= bounds[word].get("max", found[word]) for word in kinds
            )

        await until(hold, {"within": step.get("within", 0)}, lambda: f"found {counts()}, expected {step}")

    async def do_audit(self, step: Step) -> None:
        """Checks everything that a watch has yielded, and compares it with a fresh list."""
        watched = self.watched(step)
        audit_items(list(watched.items), list(watched.cursors))
        some = next((each for each in watched.table), None)
        snapshots = [item for item in watched.items if isinstance(item, borough.Snapshot)]
        named = some or next((each for item in snapshots for each in item.endpoints), None)
        if named is None:
            return

        async def is_equal() -> bool:
            rows = await self.face.all(lambda client: client.names.list(f"{named.user}/{named.job}"))
            return sorted(rows, key=lambda each: each.index) == list(watched.table)

        await until(is_equal, step, lambda: f"the watch has {list(watched.table)}, and a fresh list has not")

    async def do_unwatch(self, step: Step) -> None:
        """Ends a watch. It ends within five seconds, and leaves nothing."""
        _, end = self.watches.pop(step["watch"])
        try:
            await asyncio.wait_for(end(), 5)
        except (asyncio.TimeoutError, AssertionError) as error:
            raise Failed(f"the watch does not end cleanly: {error!r}") from None

    async def do_logs(self, step: Step) -> None:
        """Reads the output of a task until it contains a text."""
        text = step["contains"]
        if step.get("follow", True):
            found = await self.face.logs_contain(step["task"], text, seconds(step))
            check(found, f'the output of {step["task"]} lacks "{text}"')
            return

        async def contains() -> bool:
            data = await self.face.do(lambda client: client.tasks.logs(step["task"]).read_all())
            return text.encode() in data

        await until(contains, step, lambda: f'the output of {step["task"]} lacks "{text}"')

    async def do_exec(self, step: Step) -> None:
        """Runs a command in a task, and compares its output and its exit."""
        data = step.get("input", "").encode()
        result = await self.face.do(lambda client: client.tasks.run(step["task"], step["command"], input=data))
        if "output" in step:
            check(result.stdout.decode() == step["output"], f"the output is {result.stdout!r}")
        if "exit" in step:
            check(result.code == step["exit"], f"the exit is {result.code}, {result.signal}")

    async def do_signal(self, step: Step) -> None:
        """Sends a signal to the command of a task."""
        await self.face.do(lambda client: client.tasks.signal(step["task"], step["signal"]))

    async def do_same(self, step: Step) -> None:
        """Compares values."""
        check(len(set(step["values"])) == 1, f"the values differ: {step['values']}")

    async def do_resolve(self, step: Step) -> None:
        """Asks the resolver for addresses until it has so many, all different."""
        found = await self.face.resolve(step["job"], step.get("port"), step["count"], seconds(step))
        check(len(set(found)) == step["count"], f"the addresses are {found}, expected {step['count']}")

    async def do_together(self, step: Step) -> None:
        """Runs steps at the same time."""
        results = await asyncio.gather(*(self.step(each) for each in step["steps"]), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def do_pause(self, step: Step) -> None:
        """Lets time pass."""
        await asyncio.sleep(step["for"] / 1_000)

    async def clean(self) -> None:
        """Heals the proxy, ends the watches, stops the jobs that were submitted, and closes the clients."""
        await self.do_fault({"kind": "heal"})
        for _, end in self.watches.values():
            await end()
        config = borough.ClientConfig(
            gateways=[self.world["direct"]],
            user=self.world["user"],
            cell=self.world["cell"],
            token=self.world["token"],
        )
        async with borough.AsyncClient.of(config) as client:
            for name in sorted(self.submitted):
                try:
                    await client.jobs.stop(name)
                except borough.RefusedError as error:
                    # It was never admitted, or is over.
                    assert error.code in (borough.Code.NOT_FOUND, borough.Code.FAILED_PRECONDITION), error
        for face in self.faces:
            await face.close()


def audit_items(items: list[borough.EndpointItem], cursors: list[borough.Cursor | None]) -> None:
    """Checks that no incarnation comes back, nothing is published twice alike, and no cursor goes back."""
    gone: set[tuple[str, str, int, int]] = set()
    known: dict[tuple[str, str, int], borough.Endpoint] = {}
    for item in items:
        published: tuple[borough.Endpoint, ...] = ()
        if isinstance(item, borough.Snapshot):
            published = item.endpoints
            known = {}
        elif isinstance(item, borough.Published):
            published = (item.endpoint,)
        elif isinstance(item, borough.Withdrawn):
            gone.add((item.user, item.job, item.index, item.incarnation))
            known.pop((item.user, item.job, item.index), None)
        for each in published:
            place = (each.user, each.job, each.index)
            check((*place, each.incarnation) not in gone, f"{each.name} comes back after its withdrawal")
            check(known.get(place) != each, f"{each.name} is published twice alike")
            known[place] = each
    before: borough.Cursor | None = None
    for cursor in cursors:
        if cursor is None:
            continue
        is_back = before and before.store_epoch == cursor.store_epoch and cursor.stamp < before.stamp
        check(not is_back, f"the cursor goes back from {before} to {cursor}")
        before = cursor
