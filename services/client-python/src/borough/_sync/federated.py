# Generated from ../_async by `generate`. Do not edit.
"""Federated jobs: jobs whose tasks a federation divides among its member cells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..errors import IncompleteError
from ..job_file import JobFile, job_file_read
from ..refs import JobRef
from ..requests import UINT32_MAX, build, require_kind, whole
from ..results import FederatedDetails, FederatedPlan, FederatedSubmission
from ..v1 import FederatedJob, FederatedJobVersion, Order, federated_pb2, methods
from .call import Caller, number, page_of, present

# The gateway waits up to 12 seconds for a federation process; seconds.
_PLAN_DEADLINE = 30.0


def _rebalanced(stuck: bool) -> federated_pb2.RebalancedTasks:
    require_kind("stuck", stuck, bool, "True or False")
    return federated_pb2.REBALANCED_TASKS_STUCK if stuck else federated_pb2.REBALANCED_TASKS_ALL


class FederatedJobs:
    """The federated jobs of a federation. The client's cell is its home.

    A job is named as `NAME`, of the client's user, or as `USER/NAME`. A federation process carries out what is asked
    for. So an answer says what is wanted, and `describe` what has become of it.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def run(
        self, job_file: JobFile, *, expected_revision: int = 0, request_id: str | None = None
    ) -> FederatedSubmission:
        """Adds a federated job, or changes the one that has the name. The same again changes nothing.

        `job_file` is a mapping as a job file has it, such as `yaml.safe_load` reads. Its `federation` part says how
        cells get tasks: `{}` means every cell. JSON text does as well. A file without a user belongs to the client's.

        With `expected_revision`, the gateway refuses the job if it has changed since.
        """
        ref, text = job_file_read(job_file, self._caller.config.user)
        request = build(
            federated_pb2.RunFederatedJobRequest,
            job_file=text,
            expected_revision=expected_revision,
            **self._change(ref, request_id),
        )
        answer = self._caller.call(methods.RUN_FEDERATED_JOB, request)
        return FederatedSubmission(
            job=FederatedJob.from_message(present(methods.RUN_FEDERATED_JOB, answer, "job")), changed=answer.changed
        )

    def plan(self, job_file: JobFile) -> FederatedPlan:
        """What would become of a job if `run` ran it now. Nothing is changed.

        A federation process asks the cells for that. If none answers within 12 seconds, the call is refused with the
        reason `FEDERATION_SILENT`.
        """
        ref, text = job_file_read(job_file, self._caller.config.user)
        return self._plan(build(federated_pb2.PlanFederatedJobRequest, job_file=text, **self._read(ref)))

    def plan_rebalance(self, job: str | JobRef, *, stuck: bool = False) -> FederatedPlan:
        """What would become of a job if `rebalance` rebalanced it now. Nothing is changed."""
        which = _rebalanced(stuck)
        return self._plan(build(federated_pb2.PlanFederatedJobRequest, rebalance=which, **self._read(job)))

    def _plan(self, request: federated_pb2.PlanFederatedJobRequest) -> FederatedPlan:
        answer = self._caller.call(methods.PLAN_FEDERATED_JOB, request, deadline=_PLAN_DEADLINE)
        return FederatedPlan(
            before=FederatedJob.from_message(answer.before) if answer.HasField("before") else None,
            after=FederatedJob.from_message(present(methods.PLAN_FEDERATED_JOB, answer, "after")),
            changed=answer.changed,
        )

    def list(
        self, *, user: str = "", stopped: bool = False, member: str = "", page: int | None = None
    ) -> Iterator[FederatedJob]:
        """The federated jobs by user and name, without their parts: of one user, or of all.

        `stopped` also lists jobs that are stopped. `member` lists only jobs with tasks in this member cell, each with
        its part there. `page` is the number of rows that one call asks for, 1 to 1,000.
        """
        request = build(
            federated_pb2.ListFederatedJobsRequest,
            context=self._caller.read(),
            cell=self._caller.config.cell,
            user=user,
            stopped=stopped,
            member=member,
            page=page_of(page),
        )
        for row in self._caller.pages(methods.LIST_FEDERATED_JOBS, request, "jobs"):
            yield FederatedJob.from_message(row)

    def get(self, job: str | JobRef) -> FederatedJob:
        """One federated job with its parts. Refused with `NOT_FOUND` if it does not exist."""
        return (self.describe(job)).job

    def describe(self, job: str | JobRef) -> FederatedDetails:
        """One federated job with its parts and its job file. `run` takes the file again, changed or not."""
        request = build(federated_pb2.GetFederatedJobRequest, **self._read(job))
        answer = self._caller.call(methods.GET_FEDERATED_JOB, request)
        if not answer.job_file:
            raise IncompleteError(methods.GET_FEDERATED_JOB.name, "job_file")
        return FederatedDetails(
            job=FederatedJob.from_message(present(methods.GET_FEDERATED_JOB, answer, "job")),
            job_file=json.loads(answer.job_file),
        )

    def scale(self, job: str | JobRef, count: int, *, request_id: str | None = None) -> FederatedJob:
        """Changes the number of tasks in all cells together."""
        whole("count", count, 0, UINT32_MAX)
        request = build(federated_pb2.ScaleFederatedJobRequest, count=count, **self._change(job, request_id))
        answer = self._caller.call(methods.SCALE_FEDERATED_JOB, request)
        return FederatedJob.from_message(present(methods.SCALE_FEDERATED_JOB, answer, "job"))

    def rebalance(
        self, job: str | JobRef, *, stuck: bool = False, expected_revision: int = 0, request_id: str | None = None
    ) -> FederatedJob:
        """Has its tasks divided among the cells again, although nothing has changed.

        `stuck` moves only tasks that do not run and have no room in their cell. With `expected_revision`, the gateway
        refuses it if the job has changed since.
        """
        request = build(
            federated_pb2.RebalanceFederatedJobRequest,
            which=_rebalanced(stuck),
            expected_revision=expected_revision,
            **self._change(job, request_id),
        )
        answer = self._caller.call(methods.REBALANCE_FEDERATED_JOB, request)
        return FederatedJob.from_message(present(methods.REBALANCE_FEDERATED_JOB, answer, "job"))

    def stop(self, job: str | JobRef, *, request_id: str | None = None) -> FederatedJob:
        """Stops the parts in all cells. A cell that is silent stops its part when it is back."""
        request = build(federated_pb2.StopFederatedJobRequest, **self._change(job, request_id))
        answer = self._caller.call(methods.STOP_FEDERATED_JOB, request)
        return FederatedJob.from_message(present(methods.STOP_FEDERATED_JOB, answer, "job"))

    def pause_release(self, job: str | JobRef, *, request_id: str | None = None) -> FederatedJob:
        """Lets no further cell get the newest version."""
        return self._order(job, Order.PAUSE, 0, request_id)

    def resume_release(self, job: str | JobRef, *, request_id: str | None = None) -> FederatedJob:
        """Lets a paused release go on."""
        return self._order(job, Order.RESUME, 0, request_id)

    def approve_release(self, job: str | JobRef, stage: int, *, request_id: str | None = None) -> FederatedJob:
        """Lets the stage after `stage` begin. `stage` is the one that is under way, from 0: `job.release.stage`."""
        return self._order(job, Order.APPROVE, stage, request_id)

    def undo_release(self, job: str | JobRef, *, request_id: str | None = None) -> FederatedJob:
        """Lets all cells go back to the last proven version."""
        return self._order(job, Order.REVERT, 0, request_id)

    def _order(self, job: str | JobRef, order: Order, stage: int, request_id: str | None) -> FederatedJob:
        whole("stage", stage, 0, UINT32_MAX)
        request = build(federated_pb2.OrderFederatedReleaseRequest, stage=stage, **self._change(job, request_id))
        request.order = number("order", order)
        answer = self._caller.call(methods.ORDER_FEDERATED_RELEASE, request)
        return FederatedJob.from_message(present(methods.ORDER_FEDERATED_RELEASE, answer, "job"))

    def forget(self, job: str | JobRef, *, request_id: str | None = None) -> FederatedJob | None:
        """Forgets a federated job. Its parts go on in their cells as jobs of their own.

        Returns the job as it was; None if an earlier call with this `request_id` has forgotten it.
        """
        request = build(federated_pb2.ForgetFederatedJobRequest, **self._change(job, request_id))
        answer = self._caller.call(methods.FORGET_FEDERATED_JOB, request)
        return FederatedJob.from_message(answer.job) if answer.HasField("job") else None

    def history(self, job: str | JobRef) -> tuple[FederatedJobVersion, ...]:
        """The versions of a federated job that are kept, newest first; at most 20."""
        request = build(federated_pb2.GetFederatedJobHistoryRequest, **self._read(job))
        answer = self._caller.call(methods.GET_FEDERATED_JOB_HISTORY, request)
        return tuple(FederatedJobVersion.from_message(version) for version in answer.versions)

    def _read(self, job: str | JobRef) -> dict[str, Any]:
        """What every read of one job says."""
        ref = JobRef.of(job, self._caller.config.user)
        context = self._caller.read()
        return {"context": context, "cell": self._caller.config.cell, "user": ref.user, "name": ref.name}

    def _change(self, job: str | JobRef, request_id: str | None) -> dict[str, Any]:
        """What every change of one job says."""
        return self._read(job) | {"context": self._caller.change(request_id)}
