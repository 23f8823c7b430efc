"""Answers of calls that the client makes easier to use than their messages."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import BoroughError
from .v1 import Cursor, FederatedJob, FieldChange, Job, JobSpec, LabelMatch, Task


@dataclass(frozen=True, slots=True)
class JobDetails:
    """A job with its spec."""

    job: Job
    """The job."""
    spec: JobSpec
    """Its current spec."""
    cursor: Cursor
    """A watch of the cell from here misses nothing."""


@dataclass(frozen=True, slots=True)
class Submission:
    """The answer to a submission."""

    job: Job
    """The job as it was admitted."""
    changed: bool
    """Whether the submission changed the job."""
    diff: tuple[FieldChange, ...]
    """The fields of the spec that differ."""
    warnings: tuple[str, ...]
    """Reasons why the admitted job waits."""
    cursor: Cursor
    """A watch of the cell from here misses no effect of the submission."""


@dataclass(frozen=True, slots=True)
class FederatedSubmission:
    """The answer to the submission of a federated job."""

    job: FederatedJob
    """The job as it is wanted now."""
    changed: bool
    """Whether the submission changed the job."""


@dataclass(frozen=True, slots=True)
class FederatedPlan:
    """What would become of a federated job if it were run now."""

    before: FederatedJob | None
    """The job as it is now; None: there is none that runs."""
    after: FederatedJob
    """The job as it would be once its tasks are divided."""
    changed: bool
    """Whether the submission would change the job."""


@dataclass(frozen=True, slots=True)
class FederatedDetails:
    """A federated job with its job file."""

    job: FederatedJob
    """The job with its parts."""
    job_file: dict[str, Any]
    """Its job file with the `federation` part."""


class Outcome(str, enum.Enum):
    """What a wait for a job came to."""

    HEALTHY = "healthy"
    """Every task of a service is healthy, and no other runs any more. Of a rollout: its version has reached its tasks,
    or its canaries wait for their promotion."""
    SUCCEEDED = "succeeded"
    """Every task of a batch job has ended with exit code 0."""
    FAILED = "failed"
    """The job, or its rollout, can no longer reach what was waited for."""
    STOPPED = "stopped"
    """Somebody has stopped the job."""
    TIMEOUT = "timeout"
    """The time was over, or no progress came within the deadline of the job. The job goes on."""


@dataclass(frozen=True, slots=True)
class WaitResult:
    """The end of a wait for a job."""

    outcome: Outcome
    """What the wait came to."""
    job: Job
    """The job as it was last seen."""
    tasks: tuple[Task, ...]
    """Its tasks as they were last seen, by their indexes."""
    text: str
    """The state of the job, or why it cannot reach the goal, in one line."""
    details: tuple[str, ...] = ()
    """What delays the job: why no node fits, or the last lines of a failing task."""

    @property
    def is_reached(self) -> bool:
        """Whether the job has reached what was waited for."""
        return self.outcome in (Outcome.HEALTHY, Outcome.SUCCEEDED)


class WaitError(BoroughError):
    """A wait has ended, and the job has not reached what was waited for."""

    def __init__(self, result: WaitResult) -> None:
        super().__init__("\n".join([result.text, *(f"  {line}" for line in result.details)]))
        self.result = result
        """How the wait ended."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The end of a command in a task, with its output."""

    stdout: bytes
    """What it wrote to its standard output."""
    stderr: bytes
    """What it wrote to its standard error."""
    code: int | None
    """Its exit code; None: a signal ended it."""
    signal: int | None = None
    """The signal that ended it."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Conditions on labels. All of them must hold."""

    equal: Mapping[str, str] = field(default_factory=dict)
    """Labels with these values."""
    different: Mapping[str, str] = field(default_factory=dict)
    """Labels that have another value, or are missing."""

    def matches(self) -> list[LabelMatch]:
        """The conditions as the API takes them."""
        equal = [LabelMatch(key=key, value=value) for key, value in self.equal.items()]
        return equal + [LabelMatch(key=key, value=value, not_=True) for key, value in self.different.items()]
