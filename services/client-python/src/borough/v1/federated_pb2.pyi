from borough.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FederatedJobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FEDERATED_JOB_STATE_UNSPECIFIED: _ClassVar[FederatedJobState]
    FEDERATED_JOB_STATE_ACTIVE: _ClassVar[FederatedJobState]
    FEDERATED_JOB_STATE_STOPPING: _ClassVar[FederatedJobState]
    FEDERATED_JOB_STATE_STOPPED: _ClassVar[FederatedJobState]

class PartRollout(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PART_ROLLOUT_UNSPECIFIED: _ClassVar[PartRollout]
    PART_ROLLOUT_ROLLING: _ClassVar[PartRollout]
    PART_ROLLOUT_DONE: _ClassVar[PartRollout]
    PART_ROLLOUT_FAILED: _ClassVar[PartRollout]

class ReleasePhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RELEASE_PHASE_UNSPECIFIED: _ClassVar[ReleasePhase]
    RELEASE_PHASE_ROLLING: _ClassVar[ReleasePhase]
    RELEASE_PHASE_FAILED: _ClassVar[ReleasePhase]
    RELEASE_PHASE_REVERTING: _ClassVar[ReleasePhase]
    RELEASE_PHASE_REVERTED: _ClassVar[ReleasePhase]
    RELEASE_PHASE_DONE: _ClassVar[ReleasePhase]

class RebalancedTasks(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REBALANCED_TASKS_UNSPECIFIED: _ClassVar[RebalancedTasks]
    REBALANCED_TASKS_ALL: _ClassVar[RebalancedTasks]
    REBALANCED_TASKS_STUCK: _ClassVar[RebalancedTasks]

FEDERATED_JOB_STATE_UNSPECIFIED: FederatedJobState
FEDERATED_JOB_STATE_ACTIVE: FederatedJobState
FEDERATED_JOB_STATE_STOPPING: FederatedJobState
FEDERATED_JOB_STATE_STOPPED: FederatedJobState
PART_ROLLOUT_UNSPECIFIED: PartRollout
PART_ROLLOUT_ROLLING: PartRollout
PART_ROLLOUT_DONE: PartRollout
PART_ROLLOUT_FAILED: PartRollout
RELEASE_PHASE_UNSPECIFIED: ReleasePhase
RELEASE_PHASE_ROLLING: ReleasePhase
RELEASE_PHASE_FAILED: ReleasePhase
RELEASE_PHASE_REVERTING: ReleasePhase
RELEASE_PHASE_REVERTED: ReleasePhase
RELEASE_PHASE_DONE: ReleasePhase
REBALANCED_TASKS_UNSPECIFIED: RebalancedTasks
REBALANCED_TASKS_ALL: RebalancedTasks
REBALANCED_TASKS_STUCK: RebalancedTasks

class FederatedPart(_message.Message):
    __slots__ = (
        "cell",
        "count",
        "target",
        "version",
        "arrived",
        "job_id",
        "running",
        "healthy",
        "pending",
        "succeeded",
        "failed",
        "rollout",
        "seen_ms",
        "problem",
        "problem_since_ms",
        "failed_over_ms",
        "finished",
    )
    CELL_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    SEEN_MS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    FAILED_OVER_MS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    cell: str
    count: int
    target: int
    version: int
    arrived: bool
    job_id: str
    running: int
    healthy: int
    pending: int
    succeeded: int
    failed: int
    rollout: PartRollout
    seen_ms: int
    problem: str
    problem_since_ms: int
    failed_over_ms: int
    finished: bool
    def __init__(
        self,
        cell: _Optional[str] = ...,
        count: _Optional[int] = ...,
        target: _Optional[int] = ...,
        version: _Optional[int] = ...,
        arrived: bool = ...,
        job_id: _Optional[str] = ...,
        running: _Optional[int] = ...,
        healthy: _Optional[int] = ...,
        pending: _Optional[int] = ...,
        succeeded: _Optional[int] = ...,
        failed: _Optional[int] = ...,
        rollout: _Optional[_Union[PartRollout, str]] = ...,
        seen_ms: _Optional[int] = ...,
        problem: _Optional[str] = ...,
        problem_since_ms: _Optional[int] = ...,
        failed_over_ms: _Optional[int] = ...,
        finished: bool = ...,
    ) -> None: ...

class CellsReason(_message.Message):
    __slots__ = ("words", "cells")
    WORDS_FIELD_NUMBER: _ClassVar[int]
    CELLS_FIELD_NUMBER: _ClassVar[int]
    words: str
    cells: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, words: _Optional[str] = ..., cells: _Optional[_Iterable[str]] = ...) -> None: ...

class FederatedJob(_message.Message):
    __slots__ = (
        "id",
        "user",
        "name",
        "state",
        "count",
        "version",
        "revision",
        "submitted_ms",
        "changed_ms",
        "changed_by",
        "divided_revision",
        "unplaced",
        "shortfall",
        "cells",
        "running",
        "healthy",
        "pending",
        "parts",
        "reasons",
        "divided_ms",
        "release",
        "holds",
        "ended",
        "failed",
    )
    ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_BY_FIELD_NUMBER: _ClassVar[int]
    DIVIDED_REVISION_FIELD_NUMBER: _ClassVar[int]
    UNPLACED_FIELD_NUMBER: _ClassVar[int]
    SHORTFALL_FIELD_NUMBER: _ClassVar[int]
    CELLS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    DIVIDED_MS_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    id: str
    user: str
    name: str
    state: FederatedJobState
    count: int
    version: int
    revision: int
    submitted_ms: int
    changed_ms: int
    changed_by: str
    divided_revision: int
    unplaced: int
    shortfall: str
    cells: int
    running: int
    healthy: int
    pending: int
    parts: _containers.RepeatedCompositeFieldContainer[FederatedPart]
    reasons: _containers.RepeatedCompositeFieldContainer[CellsReason]
    divided_ms: int
    release: FederatedRelease
    holds: _containers.RepeatedCompositeFieldContainer[CellsReason]
    ended: bool
    failed: int
    def __init__(
        self,
        id: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
        state: _Optional[_Union[FederatedJobState, str]] = ...,
        count: _Optional[int] = ...,
        version: _Optional[int] = ...,
        revision: _Optional[int] = ...,
        submitted_ms: _Optional[int] = ...,
        changed_ms: _Optional[int] = ...,
        changed_by: _Optional[str] = ...,
        divided_revision: _Optional[int] = ...,
        unplaced: _Optional[int] = ...,
        shortfall: _Optional[str] = ...,
        cells: _Optional[int] = ...,
        running: _Optional[int] = ...,
        healthy: _Optional[int] = ...,
        pending: _Optional[int] = ...,
        parts: _Optional[_Iterable[_Union[FederatedPart, _Mapping]]] = ...,
        reasons: _Optional[_Iterable[_Union[CellsReason, _Mapping]]] = ...,
        divided_ms: _Optional[int] = ...,
        release: _Optional[_Union[FederatedRelease, _Mapping]] = ...,
        holds: _Optional[_Iterable[_Union[CellsReason, _Mapping]]] = ...,
        ended: bool = ...,
        failed: _Optional[int] = ...,
    ) -> None: ...

class FederatedRelease(_message.Message):
    __slots__ = ("version", "phase", "stage", "paused", "failed", "waits")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    version: int
    phase: ReleasePhase
    stage: int
    paused: bool
    failed: _containers.RepeatedCompositeFieldContainer[CellsReason]
    waits: str
    def __init__(
        self,
        version: _Optional[int] = ...,
        phase: _Optional[_Union[ReleasePhase, str]] = ...,
        stage: _Optional[int] = ...,
        paused: bool = ...,
        failed: _Optional[_Iterable[_Union[CellsReason, _Mapping]]] = ...,
        waits: _Optional[str] = ...,
        **kwargs,
    ) -> None: ...

class OrderFederatedReleaseRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name", "order", "stage")
    class Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ORDER_UNSPECIFIED: _ClassVar[OrderFederatedReleaseRequest.Order]
        PAUSE: _ClassVar[OrderFederatedReleaseRequest.Order]
        RESUME: _ClassVar[OrderFederatedReleaseRequest.Order]
        APPROVE: _ClassVar[OrderFederatedReleaseRequest.Order]
        REVERT: _ClassVar[OrderFederatedReleaseRequest.Order]

    ORDER_UNSPECIFIED: OrderFederatedReleaseRequest.Order
    PAUSE: OrderFederatedReleaseRequest.Order
    RESUME: OrderFederatedReleaseRequest.Order
    APPROVE: OrderFederatedReleaseRequest.Order
    REVERT: OrderFederatedReleaseRequest.Order
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    order: OrderFederatedReleaseRequest.Order
    stage: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
        order: _Optional[_Union[OrderFederatedReleaseRequest.Order, str]] = ...,
        stage: _Optional[int] = ...,
    ) -> None: ...

class OrderFederatedReleaseResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: FederatedJob
    def __init__(self, job: _Optional[_Union[FederatedJob, _Mapping]] = ...) -> None: ...

class RunFederatedJobRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name", "job_file", "expected_revision")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOB_FILE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    job_file: str
    expected_revision: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
        job_file: _Optional[str] = ...,
        expected_revision: _Optional[int] = ...,
    ) -> None: ...

class RunFederatedJobResponse(_message.Message):
    __slots__ = ("job", "changed")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    job: FederatedJob
    changed: bool
    def __init__(self, job: _Optional[_Union[FederatedJob, _Mapping]] = ..., changed: bool = ...) -> None: ...

class PlanFederatedJobRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name", "job_file", "rebalance")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOB_FILE_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    job_file: str
    rebalance: RebalancedTasks
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
        job_file: _Optional[str] = ...,
        rebalance: _Optional[_Union[RebalancedTasks, str]] = ...,
    ) -> None: ...

class RebalanceFederatedJobRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name", "which", "expected_revision")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    WHICH_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    which: RebalancedTasks
    expected_revision: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
        which: _Optional[_Union[RebalancedTasks, str]] = ...,
        expected_revision: _Optional[int] = ...,
    ) -> None: ...

class RebalanceFederatedJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: FederatedJob
    def __init__(self, job: _Optional[_Union[FederatedJob, _Mapping]] = ...) -> None: ...

class PlanFederatedJobResponse(_message.Message):
    __slots__ = ("before", "after", "changed")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    before: FederatedJob
    after: FederatedJob
    changed: bool
    def __init__(
        self,
        before: _Optional[_Union[FederatedJob, _Mapping]] = ...,
        after: _Optional[_Union[FederatedJob, _Mapping]] = ...,
        changed: bool = ...,
    ) -> None: ...

class ListFederatedJobsRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "stopped", "page", "member")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    stopped: bool
    page: _common_pb2.PageRequest
    member: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        stopped: bool = ...,
        page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...,
        member: _Optional[str] = ...,
    ) -> None: ...

class ListFederatedJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[FederatedJob]
    next_page: str
    def __init__(
        self, jobs: _Optional[_Iterable[_Union[FederatedJob, _Mapping]]] = ..., next_page: _Optional[str] = ...
    ) -> None: ...

class GetFederatedJobRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
    ) -> None: ...

class GetFederatedJobResponse(_message.Message):
    __slots__ = ("job", "job_file")
    JOB_FIELD_NUMBER: _ClassVar[int]
    JOB_FILE_FIELD_NUMBER: _ClassVar[int]
    job: FederatedJob
    job_file: str
    def __init__(
        self, job: _Optional[_Union[FederatedJob, _Mapping]] = ..., job_file: _Optional[str] = ...
    ) -> None: ...

class ScaleFederatedJobRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name", "count")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    count: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
        count: _Optional[int] = ...,
    ) -> None: ...

class ScaleFederatedJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: FederatedJob
    def __init__(self, job: _Optional[_Union[FederatedJob, _Mapping]] = ...) -> None: ...

class StopFederatedJobRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
    ) -> None: ...

class StopFederatedJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: FederatedJob
    def __init__(self, job: _Optional[_Union[FederatedJob, _Mapping]] = ...) -> None: ...

class ForgetFederatedJobRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
    ) -> None: ...

class ForgetFederatedJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: FederatedJob
    def __init__(self, job: _Optional[_Union[FederatedJob, _Mapping]] = ...) -> None: ...

class GetFederatedJobHistoryRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
    ) -> None: ...

class FederatedJobVersion(_message.Message):
    __slots__ = ("version", "at_ms", "by", "job_file")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    JOB_FILE_FIELD_NUMBER: _ClassVar[int]
    version: int
    at_ms: int
    by: str
    job_file: str
    def __init__(
        self,
        version: _Optional[int] = ...,
        at_ms: _Optional[int] = ...,
        by: _Optional[str] = ...,
        job_file: _Optional[str] = ...,
    ) -> None: ...

class GetFederatedJobHistoryResponse(_message.Message):
    __slots__ = ("versions",)
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedCompositeFieldContainer[FederatedJobVersion]
    def __init__(self, versions: _Optional[_Iterable[_Union[FederatedJobVersion, _Mapping]]] = ...) -> None: ...
