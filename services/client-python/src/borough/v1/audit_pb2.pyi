from borough.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AuditOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AUDIT_OUTCOME_UNSPECIFIED: _ClassVar[AuditOutcome]
    AUDIT_OUTCOME_DONE: _ClassVar[AuditOutcome]
    AUDIT_OUTCOME_REFUSED: _ClassVar[AuditOutcome]

AUDIT_OUTCOME_UNSPECIFIED: AuditOutcome
AUDIT_OUTCOME_DONE: AuditOutcome
AUDIT_OUTCOME_REFUSED: AuditOutcome

class ListAuditRequest(_message.Message):
    __slots__ = ("context", "cell", "page", "filter")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    page: _common_pb2.PageRequest
    filter: AuditFilter
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...,
        filter: _Optional[_Union[AuditFilter, _Mapping]] = ...,
    ) -> None: ...

class AuditFilter(_message.Message):
    __slots__ = ("by", "method", "object", "outcome", "since_ms", "until_ms")
    BY_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    by: str
    method: str
    object: str
    outcome: AuditOutcome
    since_ms: int
    until_ms: int
    def __init__(
        self,
        by: _Optional[str] = ...,
        method: _Optional[str] = ...,
        object: _Optional[str] = ...,
        outcome: _Optional[_Union[AuditOutcome, str]] = ...,
        since_ms: _Optional[int] = ...,
        until_ms: _Optional[int] = ...,
    ) -> None: ...

class ListAuditResponse(_message.Message):
    __slots__ = ("calls", "next_page", "behind")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[AuditedCall]
    next_page: str
    behind: bool
    def __init__(
        self,
        calls: _Optional[_Iterable[_Union[AuditedCall, _Mapping]]] = ...,
        next_page: _Optional[str] = ...,
        behind: bool = ...,
    ) -> None: ...

class AuditedCall(_message.Message):
    __slots__ = (
        "at_ms",
        "method",
        "by",
        "user",
        "request_id",
        "object",
        "revision_before",
        "revision_after",
        "refused",
        "chunk",
    )
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    REVISION_BEFORE_FIELD_NUMBER: _ClassVar[int]
    REVISION_AFTER_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    method: str
    by: str
    user: str
    request_id: str
    object: str
    revision_before: int
    revision_after: int
    refused: AuditRefusal
    chunk: int
    def __init__(
        self,
        at_ms: _Optional[int] = ...,
        method: _Optional[str] = ...,
        by: _Optional[str] = ...,
        user: _Optional[str] = ...,
        request_id: _Optional[str] = ...,
        object: _Optional[str] = ...,
        revision_before: _Optional[int] = ...,
        revision_after: _Optional[int] = ...,
        refused: _Optional[_Union[AuditRefusal, _Mapping]] = ...,
        chunk: _Optional[int] = ...,
        **kwargs,
    ) -> None: ...

class AuditRefusal(_message.Message):
    __slots__ = ("code", "reason", "times")
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    code: str
    reason: str
    times: int
    def __init__(
        self, code: _Optional[str] = ..., reason: _Optional[str] = ..., times: _Optional[int] = ...
    ) -> None: ...

class ListAuditChunksRequest(_message.Message):
    __slots__ = ("context", "cell", "after")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    after: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        after: _Optional[int] = ...,
    ) -> None: ...

class ListAuditChunksResponse(_message.Message):
    __slots__ = ("chunks", "behind")
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    chunks: _containers.RepeatedCompositeFieldContainer[AuditChunk]
    behind: bool
    def __init__(
        self, chunks: _Optional[_Iterable[_Union[AuditChunk, _Mapping]]] = ..., behind: bool = ...
    ) -> None: ...

class AuditChunk(_message.Message):
    __slots__ = ("number", "previous", "hash", "text")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    number: int
    previous: bytes
    hash: bytes
    text: str
    def __init__(
        self,
        number: _Optional[int] = ...,
        previous: _Optional[bytes] = ...,
        hash: _Optional[bytes] = ...,
        text: _Optional[str] = ...,
    ) -> None: ...
