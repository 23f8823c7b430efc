from borough.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MergedService(_message.Message):
    __slots__ = ("user", "name", "selector", "shares", "revision", "changed_ms", "changed_by")
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_BY_FIELD_NUMBER: _ClassVar[int]
    user: str
    name: str
    selector: _containers.RepeatedCompositeFieldContainer[_common_pb2.LabelMatch]
    shares: _containers.RepeatedCompositeFieldContainer[JobShare]
    revision: int
    changed_ms: int
    changed_by: str
    def __init__(
        self,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
        selector: _Optional[_Iterable[_Union[_common_pb2.LabelMatch, _Mapping]]] = ...,
        shares: _Optional[_Iterable[_Union[JobShare, _Mapping]]] = ...,
        revision: _Optional[int] = ...,
        changed_ms: _Optional[int] = ...,
        changed_by: _Optional[str] = ...,
    ) -> None: ...

class JobShare(_message.Message):
    __slots__ = ("job", "percent")
    JOB_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    job: str
    percent: int
    def __init__(self, job: _Optional[str] = ..., percent: _Optional[int] = ...) -> None: ...

class MergedJob(_message.Message):
    __slots__ = ("job", "endpoints", "usable", "share_percent", "part_ppm")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    USABLE_FIELD_NUMBER: _ClassVar[int]
    SHARE_PERCENT_FIELD_NUMBER: _ClassVar[int]
    PART_PPM_FIELD_NUMBER: _ClassVar[int]
    job: str
    endpoints: int
    usable: int
    share_percent: int
    part_ppm: int
    def __init__(
        self,
        job: _Optional[str] = ...,
        endpoints: _Optional[int] = ...,
        usable: _Optional[int] = ...,
        share_percent: _Optional[int] = ...,
        part_ppm: _Optional[int] = ...,
    ) -> None: ...

class ListMergedServicesRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "page")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    page: _common_pb2.PageRequest
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...,
    ) -> None: ...

class ListMergedServicesResponse(_message.Message):
    __slots__ = ("services", "next_page")
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    services: _containers.RepeatedCompositeFieldContainer[MergedService]
    next_page: str
    def __init__(
        self, services: _Optional[_Iterable[_Union[MergedService, _Mapping]]] = ..., next_page: _Optional[str] = ...
    ) -> None: ...

class GetMergedServiceRequest(_message.Message):
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

class GetMergedServiceResponse(_message.Message):
    __slots__ = ("service", "jobs", "unselected")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    UNSELECTED_FIELD_NUMBER: _ClassVar[int]
    service: MergedService
    jobs: _containers.RepeatedCompositeFieldContainer[MergedJob]
    unselected: _containers.RepeatedScalarFieldContainer[str]
    def __init__(
        self,
        service: _Optional[_Union[MergedService, _Mapping]] = ...,
        jobs: _Optional[_Iterable[_Union[MergedJob, _Mapping]]] = ...,
        unselected: _Optional[_Iterable[str]] = ...,
    ) -> None: ...

class SetMergedServiceRequest(_message.Message):
    __slots__ = ("context", "cell", "user", "name", "selector", "shares", "expected_revision")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    user: str
    name: str
    selector: _containers.RepeatedCompositeFieldContainer[_common_pb2.LabelMatch]
    shares: _containers.RepeatedCompositeFieldContainer[JobShare]
    expected_revision: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        user: _Optional[str] = ...,
        name: _Optional[str] = ...,
        selector: _Optional[_Iterable[_Union[_common_pb2.LabelMatch, _Mapping]]] = ...,
        shares: _Optional[_Iterable[_Union[JobShare, _Mapping]]] = ...,
        expected_revision: _Optional[int] = ...,
    ) -> None: ...

class SetMergedServiceResponse(_message.Message):
    __slots__ = ("service",)
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    service: MergedService
    def __init__(self, service: _Optional[_Union[MergedService, _Mapping]] = ...) -> None: ...

class RemoveMergedServiceRequest(_message.Message):
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

class RemoveMergedServiceResponse(_message.Message):
    __slots__ = ("service",)
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    service: MergedService
    def __init__(self, service: _Optional[_Union[MergedService, _Mapping]] = ...) -> None: ...
