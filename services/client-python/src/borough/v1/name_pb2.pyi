from borough.v1 import common_pb2 as _common_pb2
from borough.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Endpoint(_message.Message):
    __slots__ = (
        "name",
        "user",
        "job",
        "index",
        "incarnation",
        "host",
        "ports",
        "health",
        "weight",
        "node",
        "healthy_since_ms",
        "domains",
        "labels",
        "draining",
    )
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    name: str
    user: str
    job: str
    index: int
    incarnation: int
    host: str
    ports: _containers.RepeatedCompositeFieldContainer[_task_pb2.Port]
    health: _task_pb2.Health
    weight: int
    node: str
    healthy_since_ms: int
    domains: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.ScalarMap[str, str]
    draining: bool
    def __init__(
        self,
        name: _Optional[str] = ...,
        user: _Optional[str] = ...,
        job: _Optional[str] = ...,
        index: _Optional[int] = ...,
        incarnation: _Optional[int] = ...,
        host: _Optional[str] = ...,
        ports: _Optional[_Iterable[_Union[_task_pb2.Port, _Mapping]]] = ...,
        health: _Optional[_Union[_task_pb2.Health, str]] = ...,
        weight: _Optional[int] = ...,
        node: _Optional[str] = ...,
        healthy_since_ms: _Optional[int] = ...,
        domains: _Optional[_Iterable[str]] = ...,
        labels: _Optional[_Mapping[str, str]] = ...,
        draining: bool = ...,
    ) -> None: ...

class ListEndpointsRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "job", "page", "selector")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    job: str
    page: _common_pb2.PageRequest
    selector: _containers.RepeatedCompositeFieldContainer[_common_pb2.LabelMatch]
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        job: _Optional[str] = ...,
        page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...,
        selector: _Optional[_Iterable[_Union[_common_pb2.LabelMatch, _Mapping]]] = ...,
    ) -> None: ...

class ListEndpointsResponse(_message.Message):
    __slots__ = ("endpoints", "cursor", "next_page")
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    cursor: _common_pb2.Cursor
    next_page: str
    def __init__(
        self,
        endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
        next_page: _Optional[str] = ...,
    ) -> None: ...

class WatchEndpointsRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "job", "resume")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    job: str
    resume: _common_pb2.Cursor
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        job: _Optional[str] = ...,
        resume: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class WatchEndpointsResponse(_message.Message):
    __slots__ = ("published", "withdrawn", "bookmark", "cursor", "more")
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    BOOKMARK_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    published: Endpoint
    withdrawn: EndpointWithdrawn
    bookmark: bool
    cursor: _common_pb2.Cursor
    more: bool
    def __init__(
        self,
        published: _Optional[_Union[Endpoint, _Mapping]] = ...,
        withdrawn: _Optional[_Union[EndpointWithdrawn, _Mapping]] = ...,
        bookmark: bool = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
        more: bool = ...,
    ) -> None: ...

class EndpointWithdrawn(_message.Message):
    __slots__ = ("user", "job", "index", "incarnation")
    USER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    user: str
    job: str
    index: int
    incarnation: int
    def __init__(
        self,
        user: _Optional[str] = ...,
        job: _Optional[str] = ...,
        index: _Optional[int] = ...,
        incarnation: _Optional[int] = ...,
    ) -> None: ...
