"""Job files as callers give them, for federated jobs. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from .errors import InvalidError
from .refs import JobRef

JobFile: TypeAlias = Mapping[str, Any] | str
"""A job file with its `federation` part: a mapping with the names of `docs/job-files.md`, or its text as JSON."""

ACCEPTED = "a job file: a mapping, or its text as JSON"


def job_file_read(file: JobFile, user: str) -> tuple[JobRef, str]:
    """The job that a file names, and the file as JSON. `user` counts for a file without one."""
    fields = fields_of(file)
    try:
        text = file if isinstance(file, str) else json.dumps(fields, default=plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidError.of("job_file", str(error), "values that JSON has") from None
    name, owner = fields.get("name"), fields.get("user", user)
    for field, value in (("job_file.name", name), ("job_file.user", owner)):
        if not isinstance(value, str) or not value:
            raise InvalidError.of(field, value, "a name such as web")
    return JobRef(str(owner), str(name)), text


def fields_of(file: JobFile) -> dict[str, Any]:
    """The fields of a file."""
    given: Any = file
    if isinstance(file, str):
        try:
            given = json.loads(file)
        except ValueError as error:
            raise InvalidError.of("job_file", str(error), ACCEPTED) from None
    if not isinstance(given, Mapping):
        raise InvalidError.of("job_file", given, ACCEPTED)
    return dict(given)


def plain(value: object) -> Any:
    """A value within a file as the `json` module takes it."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of the type {type(value).__name__}")
