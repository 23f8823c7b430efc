"""The calls about federated jobs of the clients' suite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import borough
from faces import Face


async def federated_call(face: Face, step: dict[str, Any]) -> dict[str, Any]:
    """What a step's call says of the job."""
    name = step.get("job", "")
    revision = step.get("revision", 0)
    calls: dict[str, Callable[[Any], Any]] = {
        "run": lambda jobs: jobs.run(step["file"], expected_revision=revision),
        "get": lambda jobs: jobs.get(name),
        "scale": lambda jobs: jobs.scale(name, step["count"]),
        "stop": lambda jobs: jobs.stop(name),
        "pause": lambda jobs: jobs.pause_release(name),
        "resume": lambda jobs: jobs.resume_release(name),
        "approve": lambda jobs: jobs.approve_release(name, step["stage"]),
        "undo": lambda jobs: jobs.undo_release(name),
        "forget": lambda jobs: jobs.forget(name),
        "history": lambda jobs: jobs.history(name),
    }
    if step["call"] == "again":
        known = await face.do(lambda client: client.federated.describe(name))
        file, revision = known.job_file, known.job.revision
        answer = await face.do(lambda client: client.federated.run(file, expected_revision=revision))
    else:
        answer = await face.do(lambda client: calls[step["call"]](client.federated))
    if step["call"] == "history":
        return {"count": len(answer)}
    if isinstance(answer, borough.FederatedSubmission):
        return {"changed": answer.changed, **fields(answer.job)}
    return fields(answer)


def fields(job: borough.FederatedJob | None) -> dict[str, Any]:
    """What a step may expect of a job."""
    if job is None:
        return {}
    return {"count": job.count, "version": job.version, "revision": job.revision, "state": job.state.name.lower()}
