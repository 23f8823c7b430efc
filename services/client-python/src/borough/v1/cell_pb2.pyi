from borough.v1 import common_pb2 as _common_pb2
from borough.v1 import job_pb2 as _job_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CellState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CELL_STATE_UNSPECIFIED: _ClassVar[CellState]
    CELL_STATE_OPEN: _ClassVar[CellState]
    CELL_STATE_DRAINING: _ClassVar[CellState]
    CELL_STATE_MOVED: _ClassVar[CellState]
    CELL_STATE_IMPORTING: _ClassVar[CellState]

CELL_STATE_UNSPECIFIED: CellState
CELL_STATE_OPEN: CellState
CELL_STATE_DRAINING: CellState
CELL_STATE_MOVED: CellState
CELL_STATE_IMPORTING: CellState

class Cell(_message.Message):
    __slots__ = (
        "name",
        "state",
        "store_epoch",
        "store",
        "nodes",
        "nodes_ready",
        "capacity",
        "used",
        "jobs",
        "tasks",
        "schedulers",
        "staleness_ms",
        "settings",
        "warnings",
        "load",
        "members",
    )
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STORE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODES_READY_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULERS_FIELD_NUMBER: _ClassVar[int]
    STALENESS_MS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: CellState
    store_epoch: int
    store: str
    nodes: int
    nodes_ready: int
    capacity: _common_pb2.Resources
    used: _common_pb2.Resources
    jobs: int
    tasks: _job_pb2.TaskCounts
    schedulers: _containers.RepeatedCompositeFieldContainer[SchedulerWorker]
    staleness_ms: int
    settings: CellSettings
    warnings: _containers.RepeatedScalarFieldContainer[str]
    load: CellLoad
    members: int
    def __init__(
        self,
        name: _Optional[str] = ...,
        state: _Optional[_Union[CellState, str]] = ...,
        store_epoch: _Optional[int] = ...,
        store: _Optional[str] = ...,
        nodes: _Optional[int] = ...,
        nodes_ready: _Optional[int] = ...,
        capacity: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        used: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        jobs: _Optional[int] = ...,
        tasks: _Optional[_Union[_job_pb2.TaskCounts, _Mapping]] = ...,
        schedulers: _Optional[_Iterable[_Union[SchedulerWorker, _Mapping]]] = ...,
        staleness_ms: _Optional[int] = ...,
        settings: _Optional[_Union[CellSettings, _Mapping]] = ...,
        warnings: _Optional[_Iterable[str]] = ...,
        load: _Optional[_Union[CellLoad, _Mapping]] = ...,
        members: _Optional[int] = ...,
    ) -> None: ...

class CellLoad(_message.Message):
    __slots__ = ("nodes", "cpu_millis", "memory_bytes")
    NODES_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    nodes: int
    cpu_millis: int
    memory_bytes: int
    def __init__(
        self, nodes: _Optional[int] = ..., cpu_millis: _Optional[int] = ..., memory_bytes: _Optional[int] = ...
    ) -> None: ...

class CellSettings(_message.Message):
    __slots__ = (
        "profile",
        "failure_domains",
        "lost_per_minute_max",
        "job_retention_ms",
        "journal_retention_ms",
        "queueing",
        "queues",
        "schedulers",
        "fresh_start_ms",
        "reclaim",
        "journal_bytes_max",
        "ended_jobs_max",
        "audit_retention_ms",
        "revision",
        "dns_ttl_ms",
        "dns_negative_ttl_ms",
        "drain_delay_ms",
        "oversell_production",
        "oversell_batch",
    )
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    LOST_PER_MINUTE_MAX_FIELD_NUMBER: _ClassVar[int]
    JOB_RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    QUEUEING_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    SCHEDULERS_FIELD_NUMBER: _ClassVar[int]
    FRESH_START_MS_FIELD_NUMBER: _ClassVar[int]
    RECLAIM_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    ENDED_JOBS_MAX_FIELD_NUMBER: _ClassVar[int]
    AUDIT_RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DNS_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    DNS_NEGATIVE_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    DRAIN_DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    OVERSELL_PRODUCTION_FIELD_NUMBER: _ClassVar[int]
    OVERSELL_BATCH_FIELD_NUMBER: _ClassVar[int]
    profile: str
    failure_domains: FailureDomains
    lost_per_minute_max: int
    job_retention_ms: int
    journal_retention_ms: int
    queueing: str
    queues: Queues
    schedulers: SchedulerRules
    fresh_start_ms: int
    reclaim: bool
    journal_bytes_max: int
    ended_jobs_max: int
    audit_retention_ms: int
    revision: int
    dns_ttl_ms: int
    dns_negative_ttl_ms: int
    drain_delay_ms: int
    oversell_production: int
    oversell_batch: int
    def __init__(
        self,
        profile: _Optional[str] = ...,
        failure_domains: _Optional[_Union[FailureDomains, _Mapping]] = ...,
        lost_per_minute_max: _Optional[int] = ...,
        job_retention_ms: _Optional[int] = ...,
        journal_retention_ms: _Optional[int] = ...,
        queueing: _Optional[str] = ...,
        queues: _Optional[_Union[Queues, _Mapping]] = ...,
        schedulers: _Optional[_Union[SchedulerRules, _Mapping]] = ...,
        fresh_start_ms: _Optional[int] = ...,
        reclaim: bool = ...,
        journal_bytes_max: _Optional[int] = ...,
        ended_jobs_max: _Optional[int] = ...,
        audit_retention_ms: _Optional[int] = ...,
        revision: _Optional[int] = ...,
        dns_ttl_ms: _Optional[int] = ...,
        dns_negative_ttl_ms: _Optional[int] = ...,
        drain_delay_ms: _Optional[int] = ...,
        oversell_production: _Optional[int] = ...,
        oversell_batch: _Optional[int] = ...,
    ) -> None: ...

class SchedulerRules(_message.Message):
    __slots__ = ("of",)
    class OfEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    OF_FIELD_NUMBER: _ClassVar[int]
    of: _containers.ScalarMap[str, str]
    def __init__(self, of: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Queues(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    def __init__(self, queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("path", "weight", "guaranteed_per_mille", "limit_per_mille")
    PATH_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    GUARANTEED_PER_MILLE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_PER_MILLE_FIELD_NUMBER: _ClassVar[int]
    path: str
    weight: int
    guaranteed_per_mille: int
    limit_per_mille: int
    def __init__(
        self,
        path: _Optional[str] = ...,
        weight: _Optional[int] = ...,
        guaranteed_per_mille: _Optional[int] = ...,
        limit_per_mille: _Optional[int] = ...,
    ) -> None: ...

class FailureDomains(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keys: _Optional[_Iterable[str]] = ...) -> None: ...

class UpdateCellRequest(_message.Message):
    __slots__ = ("context", "name", "settings", "expected_revision")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    name: str
    settings: CellSettings
    expected_revision: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        name: _Optional[str] = ...,
        settings: _Optional[_Union[CellSettings, _Mapping]] = ...,
        expected_revision: _Optional[int] = ...,
    ) -> None: ...

class UpdateCellResponse(_message.Message):
    __slots__ = ("cell", "cursor")
    CELL_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    cell: Cell
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        cell: _Optional[_Union[Cell, _Mapping]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class SchedulerWorker(_message.Message):
    __slots__ = ("shard", "owner", "epoch", "scheduler", "stats", "standby")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    STANDBY_FIELD_NUMBER: _ClassVar[int]
    shard: int
    owner: str
    epoch: int
    scheduler: str
    stats: WorkerStats
    standby: bool
    def __init__(
        self,
        shard: _Optional[int] = ...,
        owner: _Optional[str] = ...,
        epoch: _Optional[int] = ...,
        scheduler: _Optional[str] = ...,
        stats: _Optional[_Union[WorkerStats, _Mapping]] = ...,
        standby: bool = ...,
    ) -> None: ...

class WorkerStats(_message.Message):
    __slots__ = (
        "at_ms",
        "waiting",
        "unschedulable",
        "rate_per_s",
        "placed",
        "commits",
        "conflicts",
        "scored_per_task",
        "cached_share",
        "age_versions",
        "age_ms",
        "part_first",
        "part_nodes",
        "batch_tasks",
        "shards",
    )
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    UNSCHEDULABLE_FIELD_NUMBER: _ClassVar[int]
    RATE_PER_S_FIELD_NUMBER: _ClassVar[int]
    PLACED_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    SCORED_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    CACHED_SHARE_FIELD_NUMBER: _ClassVar[int]
    AGE_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    PART_FIRST_FIELD_NUMBER: _ClassVar[int]
    PART_NODES_FIELD_NUMBER: _ClassVar[int]
    BATCH_TASKS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    waiting: int
    unschedulable: int
    rate_per_s: float
    placed: int
    commits: int
    conflicts: int
    scored_per_task: float
    cached_share: float
    age_versions: int
    age_ms: int
    part_first: int
    part_nodes: int
    batch_tasks: int
    shards: int
    def __init__(
        self,
        at_ms: _Optional[int] = ...,
        waiting: _Optional[int] = ...,
        unschedulable: _Optional[int] = ...,
        rate_per_s: _Optional[float] = ...,
        placed: _Optional[int] = ...,
        commits: _Optional[int] = ...,
        conflicts: _Optional[int] = ...,
        scored_per_task: _Optional[float] = ...,
        cached_share: _Optional[float] = ...,
        age_versions: _Optional[int] = ...,
        age_ms: _Optional[int] = ...,
        part_first: _Optional[int] = ...,
        part_nodes: _Optional[int] = ...,
        batch_tasks: _Optional[int] = ...,
        shards: _Optional[int] = ...,
    ) -> None: ...

class ListCellsRequest(_message.Message):
    __slots__ = ("context", "load")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    load: bool
    def __init__(
        self, context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ..., load: bool = ...
    ) -> None: ...

class ListCellsResponse(_message.Message):
    __slots__ = ("cells",)
    CELLS_FIELD_NUMBER: _ClassVar[int]
    cells: _containers.RepeatedCompositeFieldContainer[Cell]
    def __init__(self, cells: _Optional[_Iterable[_Union[Cell, _Mapping]]] = ...) -> None: ...

class GetCellRequest(_message.Message):
    __slots__ = ("context", "name", "load")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    name: str
    load: bool
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        name: _Optional[str] = ...,
        load: bool = ...,
    ) -> None: ...

class GetCellResponse(_message.Message):
    __slots__ = ("cell", "cursor")
    CELL_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    cell: Cell
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        cell: _Optional[_Union[Cell, _Mapping]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...
