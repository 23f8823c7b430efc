# Generated from ../_async by `generate`. Do not edit.
"""Jobs: submit, plan, scale, stop, list and wait for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..progress import Goal, WaitLimits
from ..refs import JobRef
from ..requests import UINT32_MAX, build, millis, require_kind, whole
from ..results import JobDetails, Outcome, Selector, Submission, WaitError, WaitResult
from ..v1 import Cursor, FieldChange, Job, JobSpec, JobState, JobVersion, Plan, RolloutOrder, job_pb2, methods
from .call import Caller, messages_of, number, numbers, page_of, present
from .wait import JobWait


class Jobs:
    """The jobs of a cell. A job is named as `NAME`, of the client's user, or as `USER/NAME`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def submit(
        self,
        spec: JobSpec,
        *,
        expected_revision: int = 0,
        expected_job: str = "",
        request_id: str | None = None,
    ) -> Submission:
        """Admits a job, or changes a running one. `borough.job` builds the spec.

        With `expected_revision`, and the id of the job in `expected_job`, the gateway refuses the submission if the job
        has changed since. A spec without a user is submitted for the client's.
        """
        message = spec_message(spec)
        request = build(
            job_pb2.SubmitJobRequest,
            context=self._caller.change(request_id),
            cell=self._caller.config.cell,
            expected_revision=expected_revision,
            expected_job=expected_job,
        )
        request.spec.MergeFrom(message)
        request.spec.user = request.spec.user or self._caller.config.user
        answer = self._caller.call(methods.SUBMIT_JOB, request)
        return Submission(
            job=Job.from_message(present(methods.SUBMIT_JOB, answer, "job")),
            changed=answer.changed,
            diff=tuple(FieldChange.from_message(change) for change in answer.diff),
            warnings=tuple(answer.warnings),
            cursor=Cursor.from_message(answer.cursor),
        )

    def plan(self, spec: JobSpec) -> Plan:
        """What submitting `spec` would change, and where its tasks would run."""
        request = build(job_pb2.PlanJobRequest, context=self._caller.read(), cell=self._caller.config.cell)
        request.spec.MergeFrom(spec_message(spec))
        request.spec.user = request.spec.user or self._caller.config.user
        return Plan.from_message(self._caller.call(methods.PLAN_JOB, request))

    def scale(self, job: str | JobRef, count: int, *, expected_job: str = "", request_id: str | None = None) -> Job:
        """Changes the number of tasks. With the id in `expected_job`, a later job of the name is refused."""
        whole("count", count, 0, UINT32_MAX)
        request = build(
            job_pb2.ScaleJobRequest, count=count, expected_job=expected_job, **self._change(job, request_id)
        )
        answer = self._caller.call(methods.SCALE_JOB, request)
        return Job.from_message(present(methods.SCALE_JOB, answer, "job"))

    def stop(self, job: str | JobRef, *, expected_job: str = "", request_id: str | None = None) -> Job:
        """Stops a job. Returns when the stop is committed, before the tasks have ended."""
        request = build(job_pb2.StopJobRequest, expected_job=expected_job, **self._change(job, request_id))
        answer = self._caller.call(methods.STOP_JOB, request)
        return Job.from_message(present(methods.STOP_JOB, answer, "job"))

    def purge(self, job: str | JobRef, *, request_id: str | None = None) -> int:
        """Forgets every ended job of a name: rows, specs and history. Returns how many jobs these were."""
        answer = self._caller.call(methods.PURGE_JOB, build(job_pb2.PurgeJobRequest, **self._change(job, request_id)))
        return answer.jobs

    def label(
        self,
        job: str | JobRef,
        labels: Mapping[str, str] | None = None,
        *,
        remove: Iterable[str] = (),
        request_id: str | None = None,
    ) -> Job:
        """Sets labels of a job, and removes those with the keys in `remove`. No task restarts."""
        request = build(job_pb2.LabelJobRequest, labels=labels or {}, remove=remove, **self._change(job, request_id))
        answer = self._caller.call(methods.LABEL_JOB, request)
        return Job.from_message(present(methods.LABEL_JOB, answer, "job"))

    def pause_rollout(self, job: str | JobRef, *, request_id: str | None = None) -> Job:
        """Lets the rollout of a job replace no further attempts."""
        return self._order(job, RolloutOrder.PAUSE, 0, request_id)

    def resume_rollout(self, job: str | JobRef, *, request_id: str | None = None) -> Job:
        """Lets a paused rollout go on."""
        return self._order(job, RolloutOrder.RESUME, 0, request_id)

    def undo_rollout(self, job: str | JobRef, *, version: int = 0, request_id: str | None = None) -> Job:
        """Goes back to an earlier version, by a rollout. 0: the newest that differs from the one in force."""
        return self._order(job, RolloutOrder.UNDO, version, request_id)

    def promote_rollout(self, job: str | JobRef, *, request_id: str | None = None) -> Job:
        """Brings a version with healthy canaries to the job's own tasks."""
        return self._order(job, RolloutOrder.PROMOTE, 0, request_id)

    def _order(self, job: str | JobRef, order: RolloutOrder, version: int, request_id: str | None) -> Job:
        request = build(job_pb2.OrderRolloutRequest, version=version, **self._change(job, request_id))
        request.order = number("order", order)
        answer = self._caller.call(methods.ORDER_ROLLOUT, request)
        return Job.from_message(present(methods.ORDER_ROLLOUT, answer, "job"))

    def get(self, job: str | JobRef) -> Job:
        """One job. Refused with `NOT_FOUND` if it does not exist."""
        return (self.describe(job)).job

    def describe(self, job: str | JobRef) -> JobDetails:
        """One job with its spec, and the cursor for a watch that misses nothing."""
        answer = self._caller.call(methods.GET_JOB, build(job_pb2.GetJobRequest, **self._read(job)))
        return JobDetails(
            job=Job.from_message(present(methods.GET_JOB, answer, "job")),
            spec=JobSpec.from_message(answer.spec),
            cursor=Cursor.from_message(present(methods.GET_JOB, answer, "cursor")),
        )

    def list(
        self,
        *,
        user: str = "",
        ended: bool = False,
        states: Iterable[JobState] = (),
        selector: Selector | None = None,
        usage: bool = False,
        page: int | None = None,
    ) -> Iterator[Job]:
        """The jobs of a cell, by user and name: of one user, or of all.

        `ended` also lists jobs that are over, `states` only those in one of these states. `usage` sums what their tasks
        are charged for and use. `page` is the number of rows that one call asks for, 1 to 1,000.
        """
        request = build(
            job_pb2.ListJobsRequest,
            context=self._caller.read(),
            cell=self._caller.config.cell,
            user=user,
            ended=ended,
            page=page_of(page),
            selector=messages_of(selector),
            states=numbers("states", states),
            usage=usage,
        )
        for row in self._caller.pages(methods.LIST_JOBS, request, "jobs"):
            yield Job.from_message(row)

    def history(self, job: str | JobRef) -> tuple[JobVersion, ...]:
        """Every job that had this name, with its spec versions, newest first."""
        answer = self._caller.call(methods.GET_JOB_HISTORY, build(job_pb2.GetJobHistoryRequest, **self._read(job)))
        return tuple(JobVersion.from_message(version) for version in answer.versions)

    def wait(
        self,
        job: str | JobRef,
        *,
        ended: bool = False,
        timeout: float | None = None,
        progress_deadline: float | None = None,
        check: bool = True,
        on_progress: Callable[[str], None] | None = None,
    ) -> WaitResult:
        """Waits as `borough job run` does: until a service is healthy or its rollout is done, or a batch job has
        succeeded.

        The wait ends early if the job can no longer get there, if `timeout` seconds are over, or if a service makes no
        progress for `progress_deadline` seconds. That deadline is the job's own unless given. With `ended` it waits
        until the job is over. With `check`, every end that is not the goal raises `WaitError`; otherwise the result
        says what it is. `on_progress` gets a line whenever the state changes. The job itself goes on in any case.
        """
        ref = JobRef.of(job, self._caller.config.user)
        for name, limit in (("timeout", timeout), ("progress_deadline", progress_deadline)):
            if limit is not None:
                millis(name, limit)
        waiting = JobWait(self._caller, ref, WaitLimits(timeout, progress_deadline), on_progress)
        result = waiting.run(Goal.over() if ended else None)
        if check and not result.is_reached and not (ended and result.outcome is not Outcome.TIMEOUT):
            raise WaitError(result)
        return result

    def _read(self, job: str | JobRef) -> dict[str, Any]:
        """What every read of one job says."""
        ref = JobRef.of(job, self._caller.config.user)
        context = self._caller.read()
        return {"context": context, "cell": self._caller.config.cell, "user": ref.user, "name": ref.name}

    def _change(self, job: str | JobRef, request_id: str | None) -> dict[str, Any]:
        """What every change of one job says."""
        return self._read(job) | {"context": self._caller.change(request_id)}


def spec_message(spec: JobSpec) -> job_pb2.JobSpec:
    """The message of a spec."""
    require_kind("spec", spec, JobSpec, "a JobSpec, which `borough.job` builds")
    message: job_pb2.JobSpec = spec.to_message()
    return message
