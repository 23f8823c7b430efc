"""Names of jobs and tasks, as callers write them: `web`, `alice/web`, `web/0`, `alice/web/0`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import InvalidError

COUNT_MAX = 100_000
"""The most tasks of a job."""

NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,62})")
NAME_ACCEPTED = "1 to 63 of a-z, 0-9 and '-', starting with a letter"


@dataclass(frozen=True, slots=True, order=True)
class JobRef:
    """A job by its user and name."""

    user: str
    name: str

    @classmethod
    def of(cls, text: str | JobRef, user: str) -> JobRef:
        """The job that `NAME` or `USER/NAME` means; `user` counts for a name alone."""
        if isinstance(text, JobRef):
            return text
        parts = text.split("/") if isinstance(text, str) else []
        if not parts or len(parts) > 2 or not all(NAME.fullmatch(part) for part in parts):
            raise InvalidError.of("job", text, f"NAME or USER/NAME, each of {NAME_ACCEPTED}")
        return cls(parts[0] if len(parts) == 2 else user, parts[-1])

    def __str__(self) -> str:
        return f"{self.user}/{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class TaskRef:
    """A task by its job and index."""

    job: JobRef
    index: int
    """Its number within the job, from 0."""

    @classmethod
    def of(cls, text: str | TaskRef, user: str) -> TaskRef:
        """The task that `NAME/INDEX` or `USER/NAME/INDEX` means."""
        if isinstance(text, TaskRef):
            return text
        job, slash, index = text.rpartition("/") if isinstance(text, str) else ("", "", "")
        if not slash or not index.isascii() or not index.isdigit():
            raise InvalidError.of("task", text, "NAME/INDEX or USER/NAME/INDEX, such as web/0")
        return cls(JobRef.of(job, user), int(index))

    def __str__(self) -> str:
        return f"{self.job}/{self.index}"
