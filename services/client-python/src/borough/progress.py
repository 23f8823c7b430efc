"""The progress of a job while somebody waits for it, as a pure function of its rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from .results import Outcome
from .v1 import EndReason, Exit, Health, Job, JobKind, JobState, RolloutState, StopReason, Task, TaskState

# Seconds without progress after which a wait for a service fails, unless the job says otherwise.
_PROGRESS_DEADLINE = 600.0
_OPEN_ROLLOUTS = (RolloutState.ROLLING, RolloutState.PAUSED)
_ENDED = {
    JobState.SUCCEEDED: Outcome.SUCCEEDED,
    JobState.FAILED: Outcome.FAILED,
    JobState.STOPPED: Outcome.STOPPED,
    JobState.DEPENDENCY_FAILED: Outcome.FAILED,
}


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """How long a wait may last, in seconds."""

    timeout: float | None = None
    """The whole wait; None: without end."""
    progress: float | None = None
    """Without progress; None: the deadline of the job."""

    def progress_of(self, of_job_ms: int | None) -> float:
        """The progress deadline of a job."""
        if self.progress is not None:
            return self.progress
        return _PROGRESS_DEADLINE if of_job_ms is None else of_job_ms / 1_000


@dataclass(frozen=True, slots=True)
class Goal:
    """The aim of a wait: that a job is up, is over, or that a version has reached its tasks."""

    is_over: bool = False
    version: int = 0

    @classmethod
    def over(cls) -> Goal:
        """No task runs any more."""
        return cls(is_over=True)

    @classmethod
    def of(cls, job: Job) -> Goal:
        """That the job is up: by the rollout that is under way, if one is."""
        rollout = job.rollout
        if rollout is None or rollout.state not in _OPEN_ROLLOUTS or job.kind == JobKind.BATCH:
            return cls()
        return cls(version=rollout.version)


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a wait."""

    outcome: Outcome
    text: str


@dataclass
class KnownJob:
    """The rows of a job, as far as known."""

    job: Job
    tasks: dict[int, Task] = field(default_factory=dict)
    stopped_by: str = ""
    version: int = 0
    """The version of a rollout that is waited for; 0: none."""
    failed: Task | None = None
    """The task of that version that failed most often in a row, as it was then. Attempts of the version before take its
    place when the version is taken back."""

    def expect(self, goal: Goal, before: KnownJob | None = None) -> None:
        """Says what the rows are read for, and keeps what earlier rows of the job have shown."""
        self.version = goal.version
        if before is not None and before.job.id == self.job.id:
            self.failed, self.stopped_by = before.failed, before.stopped_by
        for task in self.tasks.values():
            self._visit(task)

    def _visit(self, task: Task) -> None:
        most = self.failed.failures if self.failed is not None else 0
        is_its = task.exit is not None and task.exit.incarnation == task.incarnation
        if self.version and task.spec_version == self.version and is_its and task.failures > most:
            self.failed = task

    @property
    def is_rollout_failed(self) -> bool:
        """Whether the rollout that is waited for has failed, also while its version is taken back."""
        rollout = self.job.rollout
        if rollout is None or not self.version:
            return False
        has_failed = rollout.version == self.version and rollout.state == RolloutState.FAILED
        return has_failed or (rollout.reverts == self.version and bool(rollout.failure))

    @property
    def name(self) -> str:
        """The job as `USER/NAME`."""
        return f"{self.job.user}/{self.job.name}"

    def job_changed(self, job: Job, actor: str, own: str) -> bool:
        """Replaces an older row of this job. Returns whether it did."""
        if job.id != self.job.id or job.revision <= self.job.revision:
            return False
        self.job = job
        user = actor.removeprefix("user/")
        if job.state in (JobState.STOPPING, JobState.STOPPED) and user not in (actor, own):
            self.stopped_by = self.stopped_by or user
        return True

    def task_changed(self, task: Task) -> bool:
        """Replaces an older row of a task of this job. Returns whether it did."""
        known = self.tasks.get(task.index)
        if task.job_id != self.job.id or (known is not None and task.revision <= known.revision):
            return False
        self.tasks[task.index] = task
        self._visit(task)
        return True

    def wanted(self) -> list[Task]:
        """The tasks that the job's owner wants."""
        end = self.job.count if self.job.daemon is None else self.job.daemon.indexes
        tasks = (self.tasks[index] for index in sorted(self.tasks) if index < end)
        # An index of a daemon job is kept when its node goes, and then no task is wanted there.
        return [task for task in tasks if task.state != TaskState.DEAD or task.stop != StopReason.NODE_LEFT]

    def healthy(self) -> int:
        """How many wanted tasks are healthy."""
        return sum(is_healthy(task) for task in self.wanted())

    def surplus(self) -> int:
        """How many tasks that a smaller count no longer wants have not ended. A lost one may never report its end."""
        over = (TaskState.DEAD, TaskState.PENDING, TaskState.LOST)
        first = self._count_with_surge()
        return sum(task.state not in over for index, task in self.tasks.items() if index >= first)

    def _count_with_surge(self) -> int:
        if self.job.daemon is not None:
            return self.job.daemon.indexes
        # An older gateway says only what surges for a rollout.
        for_rollout = self.job.rollout.surge if self.job.rollout is not None else 0
        return self.job.count + max(self.job.surge, for_rollout)

    def in_state(self, *states: TaskState) -> int:
        """How many wanted tasks are in one of these states."""
        return sum(task.state in states for task in self.wanted())

    def pending(self) -> int:
        """How many tasks wait. Tasks that were never placed have no row."""
        return max(0, self.job.count - len(self.wanted())) + self.in_state(TaskState.PENDING)

    def succeeded(self) -> int:
        """How many tasks have ended with exit code 0."""
        return sum(task.state == TaskState.DEAD and exit_code(task) == 0 for task in self.wanted())

    def failing(self) -> Task | None:
        """The task with the most failures in a row."""
        failing = [task for task in self.wanted() if task.failures > 0 and not is_healthy(task)]
        return max(failing, key=lambda task: (task.failures, -task.index), default=None)

    def unhealthy(self) -> Task | None:
        """The task that has run for longest without being healthy."""
        running = [task for task in self.wanted() if task.state == TaskState.RUNNING and not is_healthy(task)]
        return min(running, key=lambda task: task.started_ms or 0, default=None)

    def finish(self, goal: Goal) -> Finish | None:
        """How the wait ends now; None while it goes on."""
        state = self.job.state
        if state not in JobState.__members__.values() or state == JobState.UNSPECIFIED:
            return None
        if goal.is_over:
            outcome = _ENDED.get(state)
            return Finish(outcome, self.text(goal)) if outcome else None
        if state == JobState.SUCCEEDED:
            return Finish(Outcome.SUCCEEDED, self.text(goal))
        if state == JobState.FAILED:
            return Finish(Outcome.FAILED, f"{self.name} failed{self._worst()}{self._failed_text()}")
        if state in (JobState.STOPPING, JobState.STOPPED):
            by = f" by {self.stopped_by}" if self.stopped_by else ""
            return Finish(Outcome.STOPPED, f"{self.name} was stopped meanwhile{by}")
        if state == JobState.DEPENDENCY_FAILED:
            return Finish(Outcome.FAILED, f"{self.name} never starts: a job in its `after` failed")
        if state != JobState.RUNNING or self.job.kind == JobKind.BATCH:
            return None
        return self._rollout_finish(goal.version) if goal.version else self._service_finish(goal)

    def _service_finish(self, goal: Goal) -> Finish | None:
        dead = next((task for task in self.wanted() if is_dead_for_good(task)), None)
        if dead is not None:
            return Finish(Outcome.FAILED, f"task {self.name}/{dead.index} is dead{self._worst()}")
        daemon = self.job.daemon
        is_served = daemon is None or (daemon.looked and daemon.left == 0)
        if is_served and self.healthy() >= self.job.count and self.surplus() == 0:
            return Finish(Outcome.HEALTHY, self.text(goal))
        return None

    def _rollout_finish(self, version: int) -> Finish | None:
        """The end of a wait for a version. One that is taken back is lost when every task is back."""
        goal, rollout = Goal(version=version), self.job.rollout
        if rollout is None:
            return Finish(Outcome.HEALTHY, self.text(goal))
        why = rollout.failure
        if rollout.version == version:
            if rollout.state == RolloutState.DONE:
                return self._service_finish(goal)
            if rollout.state == RolloutState.FAILED:
                text = f"{self.name}: the rollout of version {version} failed: {why}{self._last_end()}"
                return Finish(Outcome.FAILED, text)
            # A person may take any time to look at canaries.
            return Finish(Outcome.HEALTHY, self.text(goal)) if rollout.canaries_healthy_ms > 0 else None
        if rollout.reverts == version:
            return self._reverted(version)
        if rollout.version > version:
            text = f"{self.name}: version {rollout.version} by {rollout.by} superseded version {version}"
            return Finish(Outcome.FAILED, text)
        return None

    def _reverted(self, version: int) -> Finish | None:
        rollout = self.job.rollout
        if rollout is None or rollout.state in _OPEN_ROLLOUTS:
            return None
        if rollout.state == RolloutState.FAILED:
            text = f"version {version} failed, and so did the way back as version {rollout.version}: {rollout.failure}"
        elif rollout.failure:
            text = f"version {version} was taken back: {rollout.failure}"
        else:
            text = f"{rollout.by} took version {version} back"
        return Finish(Outcome.FAILED, f"{self.name}: {text}{self._last_end()}")

    def _last_end(self) -> str:
        """How the attempt of the version ended that failed; empty without one."""
        return f"; it ended with {end_text(self.failed.exit)}" if self.failed is not None else ""

    def text(self, goal: Goal) -> str:
        """The state of the job, in one line."""
        return f"{self.name}: {', '.join(self._parts(goal))}"

    def _parts(self, goal: Goal) -> list[str]:
        count, kind = self.job.count, self.job.kind
        if goal.is_over:
            left = sum(task.state not in (TaskState.DEAD, TaskState.PENDING) for task in self.tasks.values())
            return [f"{tally(left, 'task')} left"]
        if goal.version:
            updated = sum(is_healthy(task) and task.spec_version >= goal.version for task in self.wanted())
            parts = [f"{updated}/{count} healthy with version {goal.version}"]
            if self.job.rollout is not None and self.job.rollout.state == RolloutState.PAUSED:
                parts.append("paused")
            return parts
        is_batch = kind == JobKind.BATCH
        healthy = self.healthy()
        parts = [f"{self.succeeded()}/{count} done" if is_batch else f"{healthy}/{count} healthy"]
        if self.job.state == JobState.WAITING:
            parts.append("waits for the jobs in its `after`")
        running = self.in_state(TaskState.RUNNING)
        counts = [
            (self.pending(), "pending"),
            (self.in_state(TaskState.HELD, TaskState.ASSIGNED, TaskState.STARTING), "starting"),
            (running if is_batch else running - healthy, "running" if is_batch else "not healthy yet"),
            (self.in_state(TaskState.STOPPING, TaskState.RELEASING) + self.surplus(), "stopping"),
            (self.in_state(TaskState.LOST), "lost"),
        ]
        parts += [f"{number} {word}" for number, word in counts if number > 0]
        worst = self._worst().removeprefix(": ")
        return [*parts, worst] if worst else parts

    def _worst(self) -> str:
        """The task with the most failures in a row and how it ended; empty without failures."""
        task = self.failing()
        if task is None:
            return ""
        times = "" if task.failures < 2 else f", {task.failures} times"
        return f": task {task.index} ended with {end_text(task.exit)}{times}"

    def _failed_text(self) -> str:
        """Which tasks have failed for good, if several have."""
        failed = [task.index for task in self.wanted() if is_dead_for_good(task) and exit_code(task) != 0]
        shown = ", ".join(str(index) for index in failed[:10]) + (", ..." if len(failed) > 10 else "")
        return f"; {tally(len(failed), 'task')} failed ({shown})" if len(failed) > 1 else ""


class ProgressTimer:
    """Measures the time since the last progress of a job."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._healthy = 0
        self._surplus: int | None = None

    def left(self, known: KnownJob, goal: Goal, deadline: float, now: float) -> float:
        """The seconds until the deadline passes; 0 if it has.

        Each further healthy task, and each further end of a surplus task, starts it again. It does not run while the
        job waits for other jobs, nor for batch work, nor for a rollout, which has a deadline of its own.
        """
        healthy, surplus = known.healthy(), known.surplus()
        is_up = not goal.is_over and not goal.version
        applies = is_up and known.job.kind != JobKind.BATCH and known.job.state == JobState.RUNNING
        if not applies or healthy > self._healthy or self._surplus is None or surplus < self._surplus:
            self._since = now
            self._healthy = max(self._healthy, healthy)
            self._surplus = surplus
        return max(0.0, self._since + deadline - now)


def is_healthy(task: Task) -> bool:
    """Whether its agent has seen it run for a while, and its check passes if it has one."""
    return task.state == TaskState.RUNNING and task.health == Health.HEALTHY


def is_dead_for_good(task: Task) -> bool:
    """Whether the task will not start again. One that a shrink stopped starts again when the job grows."""
    was_stopped = task.exit is not None and task.exit.reason == EndReason.STOPPED
    return task.state == TaskState.DEAD and task.stop == StopReason.UNSPECIFIED and not was_stopped


def exit_code(task: Task) -> int | None:
    """The exit code of its last attempt; None without one."""
    return task.exit.code if task.exit is not None else None


def end_text(end: Exit | None) -> str:
    """How an attempt ended, for people."""
    if end is None:
        return "an unknown exit"
    if end.code is not None:
        return f"exit code {end.code}"
    if end.signal is not None:
        return f"signal {end.signal}"
    word = end.reason.name.lower().replace("_", " ")
    return f"{word}: {end.message}" if end.message else word


def tally(number: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
