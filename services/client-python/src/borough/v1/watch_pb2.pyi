from borough.v1 import common_pb2 as _common_pb2
from borough.v1 import job_pb2 as _job_pb2
from borough.v1 import name_pb2 as _name_pb2
from borough.v1 import node_pb2 as _node_pb2
from borough.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WatchRequest(_message.Message):
    __slots__ = ("context", "cell", "resume", "filter")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    resume: _common_pb2.Cursor
    filter: WatchFilter
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        resume: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
        filter: _Optional[_Union[WatchFilter, _Mapping]] = ...,
    ) -> None: ...

class WatchFilter(_message.Message):
    __slots__ = ("user", "job", "node", "jobs", "tasks", "nodes", "endpoints", "selector", "members", "sentences")
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SENTENCES_FIELD_NUMBER: _ClassVar[int]
    user: str
    job: str
    node: str
    jobs: bool
    tasks: bool
    nodes: bool
    endpoints: bool
    selector: _containers.RepeatedCompositeFieldContainer[_common_pb2.LabelMatch]
    members: bool
    sentences: bool
    def __init__(
        self,
        user: _Optional[str] = ...,
        job: _Optional[str] = ...,
        node: _Optional[str] = ...,
        jobs: bool = ...,
        tasks: bool = ...,
        nodes: bool = ...,
        endpoints: bool = ...,
        selector: _Optional[_Iterable[_Union[_common_pb2.LabelMatch, _Mapping]]] = ...,
        members: bool = ...,
        sentences: bool = ...,
    ) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = (
        "cursor",
        "job",
        "task",
        "node",
        "endpoint",
        "endpoint_withdrawn",
        "job_removed",
        "node_removed",
        "bookmark",
        "member_changed",
        "member_removed",
        "other",
        "actor",
        "action",
        "at_ms",
        "more",
        "subject",
        "text",
    )
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    JOB_REMOVED_FIELD_NUMBER: _ClassVar[int]
    NODE_REMOVED_FIELD_NUMBER: _ClassVar[int]
    BOOKMARK_FIELD_NUMBER: _ClassVar[int]
    MEMBER_CHANGED_FIELD_NUMBER: _ClassVar[int]
    MEMBER_REMOVED_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    cursor: _common_pb2.Cursor
    job: _job_pb2.Job
    task: _task_pb2.Task
    node: _node_pb2.Node
    endpoint: _name_pb2.Endpoint
    endpoint_withdrawn: _name_pb2.EndpointWithdrawn
    job_removed: JobRemoved
    node_removed: str
    bookmark: bool
    member_changed: str
    member_removed: str
    other: bool
    actor: str
    action: str
    at_ms: int
    more: bool
    subject: str
    text: str
    def __init__(
        self,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
        job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ...,
        task: _Optional[_Union[_task_pb2.Task, _Mapping]] = ...,
        node: _Optional[_Union[_node_pb2.Node, _Mapping]] = ...,
        endpoint: _Optional[_Union[_name_pb2.Endpoint, _Mapping]] = ...,
        endpoint_withdrawn: _Optional[_Union[_name_pb2.EndpointWithdrawn, _Mapping]] = ...,
        job_removed: _Optional[_Union[JobRemoved, _Mapping]] = ...,
        node_removed: _Optional[str] = ...,
        bookmark: bool = ...,
        member_changed: _Optional[str] = ...,
        member_removed: _Optional[str] = ...,
        other: bool = ...,
        actor: _Optional[str] = ...,
        action: _Optional[str] = ...,
        at_ms: _Optional[int] = ...,
        more: bool = ...,
        subject: _Optional[str] = ...,
        text: _Optional[str] = ...,
    ) -> None: ...

class JobRemoved(_message.Message):
    __slots__ = ("id", "user", "job")
    ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    id: str
    user: str
    job: str
    def __init__(self, id: _Optional[str] = ..., user: _Optional[str] = ..., job: _Optional[str] = ...) -> None: ...

class ListEventsRequest(_message.Message):
    __slots__ = ("context", "cell", "filter", "limit")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    filter: WatchFilter
    limit: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        filter: _Optional[_Union[WatchFilter, _Mapping]] = ...,
        limit: _Optional[int] = ...,
    ) -> None: ...

class ListEventsResponse(_message.Message):
    __slots__ = ("events", "cursor", "trimmed")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    TRIMMED_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    cursor: _common_pb2.Cursor
    trimmed: bool
    def __init__(
        self,
        events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
        trimmed: bool = ...,
    ) -> None: ...

class Event(_message.Message):
    __slots__ = ("cursor", "at_ms", "actor", "action", "subject", "text")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    cursor: _common_pb2.Cursor
    at_ms: int
    actor: str
    action: str
    subject: str
    text: str
    def __init__(
        self,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
        at_ms: _Optional[int] = ...,
        actor: _Optional[str] = ...,
        action: _Optional[str] = ...,
        subject: _Optional[str] = ...,
        text: _Optional[str] = ...,
    ) -> None: ...
