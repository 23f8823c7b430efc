"""The progress of a job while somebody waits for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from borough.progress import Goal, KnownJob, ProgressTimer, WaitLimits
from borough.results import Outcome
from borough.v1 import (
    DaemonStatus,
    EndReason,
    Exit,
    Health,
    Job,
    JobKind,
    JobState,
    Rollout,
    RolloutState,
    StopReason,
    Task,
    TaskState,
)

UP = Goal()


def service(count: int, **more: Any) -> KnownJob:
    fields: dict[str, Any] = {"kind": JobKind.SERVICE, "state": JobState.RUNNING} | more
    return KnownJob(Job(id="j1", user="alice", name="web", count=count, revision=1, **fields))


def task(index: int, state: TaskState, health: Health = Health.UNKNOWN, **more: Any) -> Task:
    return Task(**{"job_id": "j1", "index": index, "state": state, "health": health, "revision": 1} | more)


def end(known: KnownJob, goal: Goal = UP) -> Outcome | None:
    finish = known.finish(goal)
    return finish.outcome if finish else None


HEALTHY = (TaskState.RUNNING, Health.HEALTHY)


def test_a_service_is_up_when_every_task_is_healthy() -> None:
    known = service(2)
    assert known.text(UP) == "alice/web: 0/2 healthy, 2 pending"
    known.task_changed(task(0, *HEALTHY))
    known.task_changed(task(1, TaskState.RUNNING))
    assert end(known) is None
    assert known.text(UP) == "alice/web: 1/2 healthy, 1 not healthy yet"
    known.task_changed(task(1, *HEALTHY, revision=2))
    assert end(known) is Outcome.HEALTHY
    assert end(service(0)) is Outcome.HEALTHY


def test_older_rows_and_those_of_other_jobs_are_not_taken() -> None:
    known = service(1)
    assert known.task_changed(task(0, *HEALTHY, revision=5))
    assert not known.task_changed(task(0, TaskState.PENDING))
    assert not known.task_changed(task(0, TaskState.PENDING, revision=5))
    assert not known.task_changed(task(0, TaskState.DEAD, job_id="j2", revision=9))
    assert not known.job_changed(Job(id="j2", revision=9), "", "alice")
    assert not known.job_changed(replace(known.job, count=7), "", "alice")
    assert end(known) is Outcome.HEALTHY


def test_a_smaller_service_is_up_when_the_other_tasks_have_ended() -> None:
    known = service(1)
    for each in (task(0, *HEALTHY), task(1, TaskState.STOPPING), task(2, *HEALTHY), task(3, TaskState.LOST)):
        known.task_changed(each)
    assert end(known) is None
    assert known.text(UP) == "alice/web: 1/1 healthy, 2 stopping"
    for index in (1, 2):
        known.task_changed(task(index, TaskState.DEAD, revision=2))
    assert end(known) is Outcome.HEALTHY
    known.job = replace(known.job, count=0)
    assert end(known) is None, "the last one runs"


def test_a_crash_is_shown_while_waiting_and_at_the_end() -> None:
    known = service(1)
    crash = Exit(reason=EndReason.EXITED, code=3)
    known.task_changed(task(0, TaskState.PENDING, exit=crash, failures=4))
    assert known.text(UP) == "alice/web: 0/1 healthy, 1 pending, task 0 ended with exit code 3, 4 times"
    known.task_changed(task(0, TaskState.DEAD, exit=crash, failures=4, revision=2))
    finish = known.finish(UP)
    assert finish is not None and finish.outcome is Outcome.FAILED
    assert finish.text == "task alice/web/0 is dead: task 0 ended with exit code 3, 4 times"


def test_a_task_that_a_shrink_stopped_comes_back() -> None:
    known = service(1)
    stopped = Exit(reason=EndReason.STOPPED, signal=15)
    known.task_changed(task(0, TaskState.DEAD, exit=stopped, stop=StopReason.JOB_SHRUNK))
    assert end(known) is None


def test_a_batch_job_is_up_when_it_has_succeeded_and_over_in_any_case() -> None:
    known = service(3, kind=JobKind.BATCH)
    known.task_changed(task(0, TaskState.DEAD, exit=Exit(reason=EndReason.EXITED, code=0)))
    assert known.text(UP) == "alice/web: 1/3 done, 2 pending"
    known.task_changed(task(1, TaskState.RUNNING))
    known.task_changed(task(2, *HEALTHY))
    assert known.text(UP) == "alice/web: 1/3 done, 2 running"
    assert end(known) is None and end(known, Goal.over()) is None
    for state, outcome in (
        (JobState.SUCCEEDED, Outcome.SUCCEEDED),
        (JobState.FAILED, Outcome.FAILED),
        (JobState.STOPPED, Outcome.STOPPED),
        (JobState.DEPENDENCY_FAILED, Outcome.FAILED),
    ):
        known.job = replace(known.job, state=state)
        assert end(known) is outcome and end(known, Goal.over()) is outcome


def test_a_job_that_stops_is_lost_for_a_wait_and_not_over_yet() -> None:
    known = service(1)
    stopping = replace(known.job, state=JobState.STOPPING, revision=2)
    assert known.job_changed(stopping, "user/bob", "alice")
    finish = known.finish(UP)
    assert finish is not None and finish.text == "alice/web was stopped meanwhile by bob"
    assert end(known, Goal.over()) is None
    own = service(1)
    own.job_changed(stopping, "user/alice", "alice")
    finish = own.finish(UP)
    assert finish is not None and finish.text == "alice/web was stopped meanwhile"


def test_a_state_of_a_later_version_is_waited_out() -> None:
    for state in (JobState(42), JobState.UNSPECIFIED):
        assert end(service(0, state=state)) is None
        assert end(service(0, state=state), Goal.over()) is None


def test_a_daemon_job_is_up_when_every_node_is_served() -> None:
    known = service(1, kind=JobKind.DAEMON, daemon=DaemonStatus(looked=False, indexes=3))
    known.task_changed(task(2, *HEALTHY))
    assert end(known) is None
    known.job = replace(known.job, daemon=DaemonStatus(looked=True, indexes=3))
    assert end(known) is Outcome.HEALTHY


def rolling(known: KnownJob, **fields: Any) -> KnownJob:
    rollout = Rollout(**{"state": RolloutState.ROLLING, "version": 2} | fields)
    known.job = replace(known.job, rollout=rollout)
    return known


def test_a_rollout_is_waited_for_until_its_version_is_everywhere_or_lost() -> None:
    known = rolling(service(1))
    goal = Goal.of(known.job)
    assert goal == Goal(version=2)
    assert Goal.of(replace(known.job, kind=JobKind.BATCH)) == UP
    known.task_changed(task(0, *HEALTHY, spec_version=1))
    assert known.text(goal) == "alice/web: 0/1 healthy with version 2" and end(known, goal) is None
    assert end(rolling(known, state=RolloutState.DONE), goal) is Outcome.HEALTHY
    assert end(rolling(known, canaries=1, canaries_healthy_ms=5), goal) is Outcome.HEALTHY
    assert end(rolling(known, version=1), goal) is None
    for fields, says in (
        ({"state": RolloutState.FAILED, "failure": "task 0 failed"}, "the rollout of version 2 failed: task 0 failed"),
        ({"version": 3, "reverts": 2, "state": RolloutState.DONE, "failure": "x"}, "version 2 was taken back: x"),
        ({"version": 3, "reverts": 2, "state": RolloutState.DONE, "by": "user/bob"}, "user/bob took version 2 back"),
        ({"version": 3, "reverts": 2, "state": RolloutState.FAILED}, "so did the way back as version 3"),
        ({"version": 3, "by": "user/bob"}, "version 3 by user/bob superseded version 2"),
    ):
        finish = rolling(known, **fields).finish(goal)
        assert finish is not None and finish.outcome is Outcome.FAILED and says in finish.text
    assert end(rolling(known, version=3, reverts=2), goal) is None, "the way back goes on"


def test_what_failed_of_a_version_is_kept_when_it_is_taken_back() -> None:
    known = rolling(service(2))
    goal = Goal.of(known.job)
    known.expect(goal)
    crash = Exit(reason=EndReason.EXITED, code=7, incarnation=3)
    known.task_changed(task(0, TaskState.PENDING, exit=crash, incarnation=3, failures=2, spec_version=2))
    assert not known.is_rollout_failed
    rolling(known, version=3, reverts=2, failure="task 0 failed")
    assert known.is_rollout_failed and end(known, goal) is None
    known.task_changed(task(0, *HEALTHY, incarnation=4, spec_version=3, revision=2))
    later = replace(known, tasks={}, failed=None)
    later.expect(goal, known)
    rolling(later, version=3, reverts=2, failure="task 0 failed", state=RolloutState.DONE)
    finish = later.finish(goal)
    assert finish is not None and later.failed is not None and later.failed.failures == 2
    assert finish.text == "alice/web: version 2 was taken back: task 0 failed; it ended with exit code 7"


def test_each_further_healthy_task_starts_the_deadline_again_and_a_crash_does_not() -> None:
    known, timer = service(3), ProgressTimer(100)

    def left(now: float, goal: Goal = UP) -> float:
        return timer.left(known, goal, 10, now)

    assert (left(100), left(109)) == (10, 1)
    known.task_changed(task(0, *HEALTHY))
    assert left(109) == 10
    # It fails and becomes healthy again: that is no progress.
    known.task_changed(task(0, TaskState.PENDING, revision=2))
    assert left(112) == 7
    known.task_changed(task(0, *HEALTHY, revision=3))
    assert (left(118), left(119)) == (1, 0)


def test_tasks_that_end_are_progress_and_batch_work_has_no_deadline() -> None:
    known, timer = service(0), ProgressTimer(0)
    known.task_changed(task(0, TaskState.STOPPING))
    assert (timer.left(known, UP, 10, 0), timer.left(known, UP, 10, 9)) == (10, 1)
    known.task_changed(task(0, TaskState.DEAD, revision=2))
    assert timer.left(known, UP, 10, 9) == 10
    known.job = replace(known.job, state=JobState.WAITING)
    assert timer.left(known, UP, 10, 90) == 10
    known.job = replace(known.job, state=JobState.RUNNING)
    assert timer.left(known, UP, 10, 100) == 0
    assert timer.left(known, Goal.over(), 10, 500) == 10
    known.job = replace(known.job, kind=JobKind.BATCH)
    assert timer.left(known, UP, 10, 900) == 10


def test_the_option_counts_before_the_job_and_the_job_before_ten_minutes() -> None:
    assert WaitLimits().progress_of(None) == 600
    assert WaitLimits().progress_of(30_000) == 30
    assert WaitLimits(progress=5).progress_of(30_000) == 5
