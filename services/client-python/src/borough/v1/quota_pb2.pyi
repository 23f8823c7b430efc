from borough.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Band(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BAND_UNSPECIFIED: _ClassVar[Band]
    BAND_BEST_EFFORT: _ClassVar[Band]
    BAND_BATCH: _ClassVar[Band]
    BAND_PRODUCTION: _ClassVar[Band]
    BAND_MONITORING: _ClassVar[Band]

BAND_UNSPECIFIED: Band
BAND_BEST_EFFORT: Band
BAND_BATCH: Band
BAND_PRODUCTION: Band
BAND_MONITORING: Band

class QuotaLimit(_message.Message):
    __slots__ = ("resources", "tasks_max", "from_ms", "until_ms", "parent", "borrow")
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    TASKS_MAX_FIELD_NUMBER: _ClassVar[int]
    FROM_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    BORROW_FIELD_NUMBER: _ClassVar[int]
    resources: _common_pb2.Resources
    tasks_max: int
    from_ms: int
    until_ms: int
    parent: str
    borrow: QuotaBorrow
    def __init__(
        self,
        resources: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        tasks_max: _Optional[int] = ...,
        from_ms: _Optional[int] = ...,
        until_ms: _Optional[int] = ...,
        parent: _Optional[str] = ...,
        borrow: _Optional[_Union[QuotaBorrow, _Mapping]] = ...,
    ) -> None: ...

class QuotaBorrow(_message.Message):
    __slots__ = ("all", "resources", "tasks")
    ALL_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    all: bool
    resources: _common_pb2.Resources
    tasks: int
    def __init__(
        self,
        all: bool = ...,
        resources: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        tasks: _Optional[int] = ...,
    ) -> None: ...

class Quota(_message.Message):
    __slots__ = ("user", "band", "limit", "used", "used_tasks", "revision", "in_force")
    USER_FIELD_NUMBER: _ClassVar[int]
    BAND_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    USED_TASKS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    user: str
    band: Band
    limit: QuotaLimit
    used: _common_pb2.Resources
    used_tasks: int
    revision: int
    in_force: bool
    def __init__(
        self,
        user: _Optional[str] = ...,
        band: _Optional[_Union[Band, str]] = ...,
        limit: _Optional[_Union[QuotaLimit, _Mapping]] = ...,
        used: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        used_tasks: _Optional[int] = ...,
        revision: _Optional[int] = ...,
        in_force: bool = ...,
    ) -> None: ...

class QuotaChange(_message.Message):
    __slots__ = ("revision", "at_ms", "by", "limit")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    revision: int
    at_ms: int
    by: str
    limit: QuotaLimit
    def __init__(
        self,
        revision: _Optional[int] = ...,
        at_ms: _Optional[int] = ...,
        by: _Optional[str] = ...,
        limit: _Optional[_Union[QuotaLimit, _Mapping]] = ...,
    ) -> None: ...

class ListQuotasRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "page", "parent")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    page: _common_pb2.PageRequest
    parent: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...,
        parent: _Optional[str] = ...,
    ) -> None: ...

class ListQuotasResponse(_message.Message):
    __slots__ = ("quotas", "next_page", "granted")
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    quotas: _containers.RepeatedCompositeFieldContainer[Quota]
    next_page: str
    granted: _containers.RepeatedCompositeFieldContainer[GrantedTogether]
    def __init__(
        self,
        quotas: _Optional[_Iterable[_Union[Quota, _Mapping]]] = ...,
        next_page: _Optional[str] = ...,
        granted: _Optional[_Iterable[_Union[GrantedTogether, _Mapping]]] = ...,
    ) -> None: ...

class GrantedTogether(_message.Message):
    __slots__ = ("bands", "granted", "capacity", "percent", "excess")
    BANDS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    EXCESS_FIELD_NUMBER: _ClassVar[int]
    bands: _containers.RepeatedScalarFieldContainer[Band]
    granted: _common_pb2.Resources
    capacity: _common_pb2.Resources
    percent: int
    excess: _containers.RepeatedScalarFieldContainer[str]
    def __init__(
        self,
        bands: _Optional[_Iterable[_Union[Band, str]]] = ...,
        granted: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        capacity: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        percent: _Optional[int] = ...,
        excess: _Optional[_Iterable[str]] = ...,
    ) -> None: ...

class GetQuotaRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "band")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    BAND_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    band: Band
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        band: _Optional[_Union[Band, str]] = ...,
    ) -> None: ...

class GetQuotaResponse(_message.Message):
    __slots__ = ("quota", "changes")
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    quota: Quota
    changes: _containers.RepeatedCompositeFieldContainer[QuotaChange]
    def __init__(
        self,
        quota: _Optional[_Union[Quota, _Mapping]] = ...,
        changes: _Optional[_Iterable[_Union[QuotaChange, _Mapping]]] = ...,
    ) -> None: ...

class SetQuotaRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "band", "limit", "expected_revision")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    BAND_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    band: Band
    limit: QuotaLimit
    expected_revision: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        band: _Optional[_Union[Band, str]] = ...,
        limit: _Optional[_Union[QuotaLimit, _Mapping]] = ...,
        expected_revision: _Optional[int] = ...,
    ) -> None: ...

class SetQuotaResponse(_message.Message):
    __slots__ = ("quota",)
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    quota: Quota
    def __init__(self, quota: _Optional[_Union[Quota, _Mapping]] = ...) -> None: ...
