from borough.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATE_UNSPECIFIED: _ClassVar[TaskState]
    TASK_STATE_PENDING: _ClassVar[TaskState]
    TASK_STATE_HELD: _ClassVar[TaskState]
    TASK_STATE_ASSIGNED: _ClassVar[TaskState]
    TASK_STATE_STARTING: _ClassVar[TaskState]
    TASK_STATE_RUNNING: _ClassVar[TaskState]
    TASK_STATE_STOPPING: _ClassVar[TaskState]
    TASK_STATE_RELEASING: _ClassVar[TaskState]
    TASK_STATE_LOST: _ClassVar[TaskState]
    TASK_STATE_DEAD: _ClassVar[TaskState]

class TaskCondition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_CONDITION_UNSPECIFIED: _ClassVar[TaskCondition]
    TASK_CONDITION_FAILED: _ClassVar[TaskCondition]
    TASK_CONDITION_SUCCEEDED: _ClassVar[TaskCondition]
    TASK_CONDITION_STOPPED: _ClassVar[TaskCondition]

class Health(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HEALTH_UNSPECIFIED: _ClassVar[Health]
    HEALTH_UNKNOWN: _ClassVar[Health]
    HEALTH_HEALTHY: _ClassVar[Health]
    HEALTH_UNHEALTHY: _ClassVar[Health]

class StopReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_REASON_UNSPECIFIED: _ClassVar[StopReason]
    STOP_REASON_JOB_STOPPED: _ClassVar[StopReason]
    STOP_REASON_JOB_SHRUNK: _ClassVar[StopReason]
    STOP_REASON_RESTART: _ClassVar[StopReason]
    STOP_REASON_UNHEALTHY: _ClassVar[StopReason]
    STOP_REASON_DRAINED: _ClassVar[StopReason]
    STOP_REASON_PREEMPTED: _ClassVar[StopReason]
    STOP_REASON_UPDATED: _ClassVar[StopReason]
    STOP_REASON_TAINTED: _ClassVar[StopReason]
    STOP_REASON_SHUTDOWN: _ClassVar[StopReason]
    STOP_REASON_NODE_LEFT: _ClassVar[StopReason]
    STOP_REASON_ALLOC_LEFT: _ClassVar[StopReason]
    STOP_REASON_SURGE_OVER: _ClassVar[StopReason]

class EndReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    END_REASON_UNSPECIFIED: _ClassVar[EndReason]
    END_REASON_EXITED: _ClassVar[EndReason]
    END_REASON_SIGNALED: _ClassVar[EndReason]
    END_REASON_OUT_OF_MEMORY: _ClassVar[EndReason]
    END_REASON_START_FAILED: _ClassVar[EndReason]
    END_REASON_STOPPED: _ClassVar[EndReason]
    END_REASON_NODE_LOST: _ClassVar[EndReason]
    END_REASON_NODE_REBOOTED: _ClassVar[EndReason]

class StartFailure(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    START_FAILURE_UNSPECIFIED: _ClassVar[StartFailure]
    START_FAILURE_NODE_FULL: _ClassVar[StartFailure]
    START_FAILURE_PORT_IN_USE: _ClassVar[StartFailure]
    START_FAILURE_SECRET_UNUSABLE: _ClassVar[StartFailure]

TASK_STATE_UNSPECIFIED: TaskState
TASK_STATE_PENDING: TaskState
TASK_STATE_HELD: TaskState
TASK_STATE_ASSIGNED: TaskState
TASK_STATE_STARTING: TaskState
TASK_STATE_RUNNING: TaskState
TASK_STATE_STOPPING: TaskState
TASK_STATE_RELEASING: TaskState
TASK_STATE_LOST: TaskState
TASK_STATE_DEAD: TaskState
TASK_CONDITION_UNSPECIFIED: TaskCondition
TASK_CONDITION_FAILED: TaskCondition
TASK_CONDITION_SUCCEEDED: TaskCondition
TASK_CONDITION_STOPPED: TaskCondition
HEALTH_UNSPECIFIED: Health
HEALTH_UNKNOWN: Health
HEALTH_HEALTHY: Health
HEALTH_UNHEALTHY: Health
STOP_REASON_UNSPECIFIED: StopReason
STOP_REASON_JOB_STOPPED: StopReason
STOP_REASON_JOB_SHRUNK: StopReason
STOP_REASON_RESTART: StopReason
STOP_REASON_UNHEALTHY: StopReason
STOP_REASON_DRAINED: StopReason
STOP_REASON_PREEMPTED: StopReason
STOP_REASON_UPDATED: StopReason
STOP_REASON_TAINTED: StopReason
STOP_REASON_SHUTDOWN: StopReason
STOP_REASON_NODE_LEFT: StopReason
STOP_REASON_ALLOC_LEFT: StopReason
STOP_REASON_SURGE_OVER: StopReason
END_REASON_UNSPECIFIED: EndReason
END_REASON_EXITED: EndReason
END_REASON_SIGNALED: EndReason
END_REASON_OUT_OF_MEMORY: EndReason
END_REASON_START_FAILED: EndReason
END_REASON_STOPPED: EndReason
END_REASON_NODE_LOST: EndReason
END_REASON_NODE_REBOOTED: EndReason
START_FAILURE_UNSPECIFIED: StartFailure
START_FAILURE_NODE_FULL: StartFailure
START_FAILURE_PORT_IN_USE: StartFailure
START_FAILURE_SECRET_UNUSABLE: StartFailure

class Port(_message.Message):
    __slots__ = ("name", "number")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    name: str
    number: int
    def __init__(self, name: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class Exit(_message.Message):
    __slots__ = ("reason", "code", "signal", "message", "at_ms", "incarnation", "node", "helper", "start_failure")
    REASON_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    HELPER_FIELD_NUMBER: _ClassVar[int]
    START_FAILURE_FIELD_NUMBER: _ClassVar[int]
    reason: EndReason
    code: int
    signal: int
    message: str
    at_ms: int
    incarnation: int
    node: str
    helper: str
    start_failure: StartFailure
    def __init__(
        self,
        reason: _Optional[_Union[EndReason, str]] = ...,
        code: _Optional[int] = ...,
        signal: _Optional[int] = ...,
        message: _Optional[str] = ...,
        at_ms: _Optional[int] = ...,
        incarnation: _Optional[int] = ...,
        node: _Optional[str] = ...,
        helper: _Optional[str] = ...,
        start_failure: _Optional[_Union[StartFailure, str]] = ...,
    ) -> None: ...

class Task(_message.Message):
    __slots__ = (
        "job_id",
        "user",
        "job",
        "index",
        "state",
        "node",
        "incarnation",
        "ports",
        "health",
        "stop",
        "exit",
        "failures",
        "not_before_ms",
        "spec_version",
        "revision",
        "changed_ms",
        "started_ms",
        "restarts",
        "pid",
        "cores",
        "usage",
        "host",
        "charge",
        "surges",
        "resize",
        "alloc",
        "inside",
        "helpers",
    )
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    SPEC_VERSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    CHARGE_FIELD_NUMBER: _ClassVar[int]
    SURGES_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    ALLOC_FIELD_NUMBER: _ClassVar[int]
    INSIDE_FIELD_NUMBER: _ClassVar[int]
    HELPERS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    user: str
    job: str
    index: int
    state: TaskState
    node: str
    incarnation: int
    ports: _containers.RepeatedCompositeFieldContainer[Port]
    health: Health
    stop: StopReason
    exit: Exit
    failures: int
    not_before_ms: int
    spec_version: int
    revision: int
    changed_ms: int
    started_ms: int
    restarts: int
    pid: int
    cores: _containers.RepeatedScalarFieldContainer[int]
    usage: Usage
    host: str
    charge: _common_pb2.Resources
    surges: bool
    resize: TaskResize
    alloc: TaskInAlloc
    inside: _containers.RepeatedCompositeFieldContainer[TaskInside]
    helpers: _containers.RepeatedCompositeFieldContainer[HelperStatus]
    def __init__(
        self,
        job_id: _Optional[str] = ...,
        user: _Optional[str] = ...,
        job: _Optional[str] = ...,
        index: _Optional[int] = ...,
        state: _Optional[_Union[TaskState, str]] = ...,
        node: _Optional[str] = ...,
        incarnation: _Optional[int] = ...,
        ports: _Optional[_Iterable[_Union[Port, _Mapping]]] = ...,
        health: _Optional[_Union[Health, str]] = ...,
        stop: _Optional[_Union[StopReason, str]] = ...,
        exit: _Optional[_Union[Exit, _Mapping]] = ...,
        failures: _Optional[int] = ...,
        not_before_ms: _Optional[int] = ...,
        spec_version: _Optional[int] = ...,
        revision: _Optional[int] = ...,
        changed_ms: _Optional[int] = ...,
        started_ms: _Optional[int] = ...,
        restarts: _Optional[int] = ...,
        pid: _Optional[int] = ...,
        cores: _Optional[_Iterable[int]] = ...,
        usage: _Optional[_Union[Usage, _Mapping]] = ...,
        host: _Optional[str] = ...,
        charge: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        surges: bool = ...,
        resize: _Optional[_Union[TaskResize, _Mapping]] = ...,
        alloc: _Optional[_Union[TaskInAlloc, _Mapping]] = ...,
        inside: _Optional[_Iterable[_Union[TaskInside, _Mapping]]] = ...,
        helpers: _Optional[_Iterable[_Union[HelperStatus, _Mapping]]] = ...,
    ) -> None: ...

class TaskInAlloc(_message.Message):
    __slots__ = ("set", "index", "resources")
    SET_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    set: str
    index: int
    resources: _common_pb2.Resources
    def __init__(
        self,
        set: _Optional[str] = ...,
        index: _Optional[int] = ...,
        resources: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
    ) -> None: ...

class TaskInside(_message.Message):
    __slots__ = ("job", "index", "resources")
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    job: str
    index: int
    resources: _common_pb2.Resources
    def __init__(
        self,
        job: _Optional[str] = ...,
        index: _Optional[int] = ...,
        resources: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
    ) -> None: ...

class HelperStatus(_message.Message):
    __slots__ = ("name", "when", "state", "restarts", "exit")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[HelperStatus.State]
        WAITING: _ClassVar[HelperStatus.State]
        RUNNING: _ClassVar[HelperStatus.State]
        ENDED: _ClassVar[HelperStatus.State]

    STATE_UNSPECIFIED: HelperStatus.State
    WAITING: HelperStatus.State
    RUNNING: HelperStatus.State
    ENDED: HelperStatus.State
    NAME_FIELD_NUMBER: _ClassVar[int]
    WHEN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    when: _common_pb2.HelperPhase
    state: HelperStatus.State
    restarts: int
    exit: HelperExit
    def __init__(
        self,
        name: _Optional[str] = ...,
        when: _Optional[_Union[_common_pb2.HelperPhase, str]] = ...,
        state: _Optional[_Union[HelperStatus.State, str]] = ...,
        restarts: _Optional[int] = ...,
        exit: _Optional[_Union[HelperExit, _Mapping]] = ...,
    ) -> None: ...

class HelperExit(_message.Message):
    __slots__ = ("code", "signal", "message", "at_ms")
    CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    code: int
    signal: int
    message: str
    at_ms: int
    def __init__(
        self,
        code: _Optional[int] = ...,
        signal: _Optional[int] = ...,
        message: _Optional[str] = ...,
        at_ms: _Optional[int] = ...,
    ) -> None: ...

class TaskResize(_message.Message):
    __slots__ = ("granted", "in_force", "spec_version", "at_ms", "refused")
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    SPEC_VERSION_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    granted: _common_pb2.Resources
    in_force: _common_pb2.Resources
    spec_version: int
    at_ms: int
    refused: str
    def __init__(
        self,
        granted: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        in_force: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        spec_version: _Optional[int] = ...,
        at_ms: _Optional[int] = ...,
        refused: _Optional[str] = ...,
    ) -> None: ...

class Usage(_message.Message):
    __slots__ = ("at_ms", "cpu_millis", "memory_bytes", "memory_peak_bytes", "processes")
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PEAK_BYTES_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    cpu_millis: int
    memory_bytes: int
    memory_peak_bytes: int
    processes: int
    def __init__(
        self,
        at_ms: _Optional[int] = ...,
        cpu_millis: _Optional[int] = ...,
        memory_bytes: _Optional[int] = ...,
        memory_peak_bytes: _Optional[int] = ...,
        processes: _Optional[int] = ...,
    ) -> None: ...

class ListTasksRequest(_message.Message):
    __slots__ = (
        "context",
        "cell",
        "user",
        "job",
        "node",
        "page",
        "states",
        "selector",
        "ended",
        "index",
        "wanted",
        "conditions",
    )
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    job: str
    node: str
    page: _common_pb2.PageRequest
    states: _containers.RepeatedScalarFieldContainer[TaskState]
    selector: _containers.RepeatedCompositeFieldContainer[_common_pb2.LabelMatch]
    ended: bool
    index: int
    wanted: bool
    conditions: _containers.RepeatedScalarFieldContainer[TaskCondition]
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        job: _Optional[str] = ...,
        node: _Optional[str] = ...,
        page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...,
        states: _Optional[_Iterable[_Union[TaskState, str]]] = ...,
        selector: _Optional[_Iterable[_Union[_common_pb2.LabelMatch, _Mapping]]] = ...,
        ended: bool = ...,
        index: _Optional[int] = ...,
        wanted: bool = ...,
        conditions: _Optional[_Iterable[_Union[TaskCondition, str]]] = ...,
    ) -> None: ...

class ListTasksResponse(_message.Message):
    __slots__ = ("tasks", "next_page", "cursor")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    next_page: str
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ...,
        next_page: _Optional[str] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class ExplainTaskRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "job", "index", "elsewhere")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    job: str
    index: int
    elsewhere: bool
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        job: _Optional[str] = ...,
        index: _Optional[int] = ...,
        elsewhere: bool = ...,
    ) -> None: ...

class ExplainTaskResponse(_message.Message):
    __slots__ = ("explanations", "cursor")
    EXPLANATIONS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    explanations: _containers.RepeatedCompositeFieldContainer[Explanation]
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        explanations: _Optional[_Iterable[_Union[Explanation, _Mapping]]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class Explanation(_message.Message):
    __slots__ = (
        "indexes",
        "summary",
        "nodes",
        "losses",
        "nearest",
        "victims",
        "victims_node",
        "headline",
        "silent_node",
        "silent_since_ms",
        "lost_at_ms",
        "failures",
        "exit",
        "next_start_ms",
        "details",
        "probe",
        "unhealthy_since_ms",
        "fits",
        "budget",
        "resize_refused",
        "helper",
    )
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    NEAREST_FIELD_NUMBER: _ClassVar[int]
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    VICTIMS_NODE_FIELD_NUMBER: _ClassVar[int]
    HEADLINE_FIELD_NUMBER: _ClassVar[int]
    SILENT_NODE_FIELD_NUMBER: _ClassVar[int]
    SILENT_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    LOST_AT_MS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    NEXT_START_MS_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    UNHEALTHY_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    FITS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    RESIZE_REFUSED_FIELD_NUMBER: _ClassVar[int]
    HELPER_FIELD_NUMBER: _ClassVar[int]
    indexes: _containers.RepeatedScalarFieldContainer[int]
    summary: str
    nodes: int
    losses: _containers.RepeatedCompositeFieldContainer[FilterLoss]
    nearest: _containers.RepeatedCompositeFieldContainer[NearestFit]
    victims: _containers.RepeatedCompositeFieldContainer[Victim]
    victims_node: str
    headline: str
    silent_node: str
    silent_since_ms: int
    lost_at_ms: int
    failures: int
    exit: Exit
    next_start_ms: int
    details: _containers.RepeatedScalarFieldContainer[str]
    probe: str
    unhealthy_since_ms: int
    fits: bool
    budget: str
    resize_refused: bool
    helper: str
    def __init__(
        self,
        indexes: _Optional[_Iterable[int]] = ...,
        summary: _Optional[str] = ...,
        nodes: _Optional[int] = ...,
        losses: _Optional[_Iterable[_Union[FilterLoss, _Mapping]]] = ...,
        nearest: _Optional[_Iterable[_Union[NearestFit, _Mapping]]] = ...,
        victims: _Optional[_Iterable[_Union[Victim, _Mapping]]] = ...,
        victims_node: _Optional[str] = ...,
        headline: _Optional[str] = ...,
        silent_node: _Optional[str] = ...,
        silent_since_ms: _Optional[int] = ...,
        lost_at_ms: _Optional[int] = ...,
        failures: _Optional[int] = ...,
        exit: _Optional[_Union[Exit, _Mapping]] = ...,
        next_start_ms: _Optional[int] = ...,
        details: _Optional[_Iterable[str]] = ...,
        probe: _Optional[str] = ...,
        unhealthy_since_ms: _Optional[int] = ...,
        fits: bool = ...,
        budget: _Optional[str] = ...,
        resize_refused: bool = ...,
        helper: _Optional[str] = ...,
    ) -> None: ...

class Victim(_message.Message):
    __slots__ = ("user", "job", "index", "priority", "holds", "reclaimed_from")
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    RECLAIMED_FROM_FIELD_NUMBER: _ClassVar[int]
    user: str
    job: str
    index: int
    priority: int
    holds: bool
    reclaimed_from: str
    def __init__(
        self,
        user: _Optional[str] = ...,
        job: _Optional[str] = ...,
        index: _Optional[int] = ...,
        priority: _Optional[int] = ...,
        holds: bool = ...,
        reclaimed_from: _Optional[str] = ...,
    ) -> None: ...

class FilterLoss(_message.Message):
    __slots__ = ("filter", "nodes")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    filter: str
    nodes: int
    def __init__(self, filter: _Optional[str] = ..., nodes: _Optional[int] = ...) -> None: ...

class NearestFit(_message.Message):
    __slots__ = ("change", "nodes")
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    change: str
    nodes: int
    def __init__(self, change: _Optional[str] = ..., nodes: _Optional[int] = ...) -> None: ...

class ReadLogsRequest(_message.Message):
    __slots__ = (
        "context",
        "cell",
        "user",
        "job",
        "index",
        "stream",
        "tail_lines",
        "follow",
        "incarnation",
        "stdout_from",
        "stderr_from",
        "window_bytes",
        "times",
        "since_ms",
        "helper",
    )
    class Stream(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STREAM_UNSPECIFIED: _ClassVar[ReadLogsRequest.Stream]
        STDOUT: _ClassVar[ReadLogsRequest.Stream]
        STDERR: _ClassVar[ReadLogsRequest.Stream]

    STREAM_UNSPECIFIED: ReadLogsRequest.Stream
    STDOUT: ReadLogsRequest.Stream
    STDERR: ReadLogsRequest.Stream
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TAIL_LINES_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FROM_FIELD_NUMBER: _ClassVar[int]
    STDERR_FROM_FIELD_NUMBER: _ClassVar[int]
    WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    HELPER_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    job: str
    index: int
    stream: ReadLogsRequest.Stream
    tail_lines: int
    follow: bool
    incarnation: int
    stdout_from: LogPosition
    stderr_from: LogPosition
    window_bytes: int
    times: bool
    since_ms: int
    helper: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        job: _Optional[str] = ...,
        index: _Optional[int] = ...,
        stream: _Optional[_Union[ReadLogsRequest.Stream, str]] = ...,
        tail_lines: _Optional[int] = ...,
        follow: bool = ...,
        incarnation: _Optional[int] = ...,
        stdout_from: _Optional[_Union[LogPosition, _Mapping]] = ...,
        stderr_from: _Optional[_Union[LogPosition, _Mapping]] = ...,
        window_bytes: _Optional[int] = ...,
        times: bool = ...,
        since_ms: _Optional[int] = ...,
        helper: _Optional[str] = ...,
    ) -> None: ...

class LogTime(_message.Message):
    __slots__ = ("at", "ms")
    AT_FIELD_NUMBER: _ClassVar[int]
    MS_FIELD_NUMBER: _ClassVar[int]
    at: int
    ms: int
    def __init__(self, at: _Optional[int] = ..., ms: _Optional[int] = ...) -> None: ...

class LogPosition(_message.Message):
    __slots__ = ("file", "offset")
    FILE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    file: int
    offset: int
    def __init__(self, file: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class ReadLogsResponse(_message.Message):
    __slots__ = ("stream", "data", "incarnation", "next", "gone_bytes", "end", "times")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    GONE_BYTES_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    stream: ReadLogsRequest.Stream
    data: bytes
    incarnation: int
    next: LogPosition
    gone_bytes: int
    end: bool
    times: _containers.RepeatedCompositeFieldContainer[LogTime]
    def __init__(
        self,
        stream: _Optional[_Union[ReadLogsRequest.Stream, str]] = ...,
        data: _Optional[bytes] = ...,
        incarnation: _Optional[int] = ...,
        next: _Optional[_Union[LogPosition, _Mapping]] = ...,
        gone_bytes: _Optional[int] = ...,
        end: bool = ...,
        times: _Optional[_Iterable[_Union[LogTime, _Mapping]]] = ...,
    ) -> None: ...

class ExecRequest(_message.Message):
    __slots__ = ("open", "stdin", "stdin_closed", "window")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    STDIN_CLOSED_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    open: ExecOpen
    stdin: bytes
    stdin_closed: bool
    window: WindowSize
    def __init__(
        self,
        open: _Optional[_Union[ExecOpen, _Mapping]] = ...,
        stdin: _Optional[bytes] = ...,
        stdin_closed: bool = ...,
        window: _Optional[_Union[WindowSize, _Mapping]] = ...,
    ) -> None: ...

class ExecOpen(_message.Message):
    __slots__ = ("context", "cell", "user", "job", "index", "command", "terminal")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    job: str
    index: int
    command: _containers.RepeatedScalarFieldContainer[str]
    terminal: WindowSize
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        job: _Optional[str] = ...,
        index: _Optional[int] = ...,
        command: _Optional[_Iterable[str]] = ...,
        terminal: _Optional[_Union[WindowSize, _Mapping]] = ...,
    ) -> None: ...

class WindowSize(_message.Message):
    __slots__ = ("rows", "columns")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...

class ExecResponse(_message.Message):
    __slots__ = ("stdout", "stderr", "exit")
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    stdout: bytes
    stderr: bytes
    exit: ExecExit
    def __init__(
        self,
        stdout: _Optional[bytes] = ...,
        stderr: _Optional[bytes] = ...,
        exit: _Optional[_Union[ExecExit, _Mapping]] = ...,
    ) -> None: ...

class ExecExit(_message.Message):
    __slots__ = ("code", "signal")
    CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    code: int
    signal: int
    def __init__(self, code: _Optional[int] = ..., signal: _Optional[int] = ...) -> None: ...

class SignalTaskRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "job", "index", "signal")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    job: str
    index: int
    signal: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        job: _Optional[str] = ...,
        index: _Optional[int] = ...,
        signal: _Optional[int] = ...,
    ) -> None: ...

class SignalTaskResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RestartTaskRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "job", "index")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    job: str
    index: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        job: _Optional[str] = ...,
        index: _Optional[int] = ...,
    ) -> None: ...

class RestartTaskResponse(_message.Message):
    __slots__ = ("cursor", "incarnation")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    cursor: _common_pb2.Cursor
    incarnation: int
    def __init__(
        self, cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ..., incarnation: _Optional[int] = ...
    ) -> None: ...

class StopTaskRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "job", "index", "expected_job", "expected_incarnation")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_JOB_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    job: str
    index: int
    expected_job: str
    expected_incarnation: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        job: _Optional[str] = ...,
        index: _Optional[int] = ...,
        expected_job: _Optional[str] = ...,
        expected_incarnation: _Optional[int] = ...,
    ) -> None: ...

class StopTaskResponse(_message.Message):
    __slots__ = ("cursor", "incarnation")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    cursor: _common_pb2.Cursor
    incarnation: int
    def __init__(
        self, cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ..., incarnation: _Optional[int] = ...
    ) -> None: ...
