from borough.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MemberHealth(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMBER_HEALTH_UNSPECIFIED: _ClassVar[MemberHealth]
    MEMBER_HEALTH_CURRENT: _ClassVar[MemberHealth]
    MEMBER_HEALTH_NOT_LOOKED: _ClassVar[MemberHealth]
    MEMBER_HEALTH_UNWATCHED: _ClassVar[MemberHealth]
    MEMBER_HEALTH_SILENT: _ClassVar[MemberHealth]
    MEMBER_HEALTH_REFUSED: _ClassVar[MemberHealth]
    MEMBER_HEALTH_OLDER_STORE: _ClassVar[MemberHealth]

MEMBER_HEALTH_UNSPECIFIED: MemberHealth
MEMBER_HEALTH_CURRENT: MemberHealth
MEMBER_HEALTH_NOT_LOOKED: MemberHealth
MEMBER_HEALTH_UNWATCHED: MemberHealth
MEMBER_HEALTH_SILENT: MemberHealth
MEMBER_HEALTH_REFUSED: MemberHealth
MEMBER_HEALTH_OLDER_STORE: MemberHealth

class MemberReport(_message.Message):
    __slots__ = ("store_epoch", "nodes", "nodes_ready", "capacity", "used", "jobs", "running", "pending")
    STORE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODES_READY_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    store_epoch: int
    nodes: int
    nodes_ready: int
    capacity: _common_pb2.Resources
    used: _common_pb2.Resources
    jobs: int
    running: int
    pending: int
    def __init__(
        self,
        store_epoch: _Optional[int] = ...,
        nodes: _Optional[int] = ...,
        nodes_ready: _Optional[int] = ...,
        capacity: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        used: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        jobs: _Optional[int] = ...,
        running: _Optional[int] = ...,
        pending: _Optional[int] = ...,
    ) -> None: ...

class Member(_message.Message):
    __slots__ = (
        "cell",
        "gateways",
        "labels",
        "cordoned",
        "revision",
        "joined_ms",
        "changed_ms",
        "changed_by",
        "health",
        "health_since_ms",
        "problem",
        "report",
        "report_age_ms",
        "draining",
    )
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    CELL_FIELD_NUMBER: _ClassVar[int]
    GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    CORDONED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    JOINED_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_BY_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    HEALTH_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    REPORT_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    cell: str
    gateways: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.ScalarMap[str, str]
    cordoned: bool
    revision: int
    joined_ms: int
    changed_ms: int
    changed_by: str
    health: MemberHealth
    health_since_ms: int
    problem: str
    report: MemberReport
    report_age_ms: int
    draining: bool
    def __init__(
        self,
        cell: _Optional[str] = ...,
        gateways: _Optional[_Iterable[str]] = ...,
        labels: _Optional[_Mapping[str, str]] = ...,
        cordoned: bool = ...,
        revision: _Optional[int] = ...,
        joined_ms: _Optional[int] = ...,
        changed_ms: _Optional[int] = ...,
        changed_by: _Optional[str] = ...,
        health: _Optional[_Union[MemberHealth, str]] = ...,
        health_since_ms: _Optional[int] = ...,
        problem: _Optional[str] = ...,
        report: _Optional[_Union[MemberReport, _Mapping]] = ...,
        report_age_ms: _Optional[int] = ...,
        draining: bool = ...,
    ) -> None: ...

class ListMembersRequest(_message.Message):
    __slots__ = ("context", "cell", "selector")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    selector: _containers.RepeatedCompositeFieldContainer[_common_pb2.LabelMatch]
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        selector: _Optional[_Iterable[_Union[_common_pb2.LabelMatch, _Mapping]]] = ...,
    ) -> None: ...

class ListMembersResponse(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class GetMemberRequest(_message.Message):
    __slots__ = ("context", "cell", "member")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    member: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        member: _Optional[str] = ...,
    ) -> None: ...

class GetMemberResponse(_message.Message):
    __slots__ = ("member",)
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    member: Member
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ...) -> None: ...

class JoinMemberRequest(_message.Message):
    __slots__ = ("context", "cell", "member", "gateways", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    member: str
    gateways: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.ScalarMap[str, str]
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        member: _Optional[str] = ...,
        gateways: _Optional[_Iterable[str]] = ...,
        labels: _Optional[_Mapping[str, str]] = ...,
    ) -> None: ...

class JoinMemberResponse(_message.Message):
    __slots__ = ("member",)
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    member: Member
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ...) -> None: ...

class ChangeMemberRequest(_message.Message):
    __slots__ = (
        "context",
        "cell",
        "member",
        "gateways",
        "labels",
        "labels_removed",
        "cordoned",
        "expected_revision",
        "draining",
    )
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LABELS_REMOVED_FIELD_NUMBER: _ClassVar[int]
    CORDONED_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    member: str
    gateways: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.ScalarMap[str, str]
    labels_removed: _containers.RepeatedScalarFieldContainer[str]
    cordoned: bool
    expected_revision: int
    draining: bool
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        member: _Optional[str] = ...,
        gateways: _Optional[_Iterable[str]] = ...,
        labels: _Optional[_Mapping[str, str]] = ...,
        labels_removed: _Optional[_Iterable[str]] = ...,
        cordoned: bool = ...,
        expected_revision: _Optional[int] = ...,
        draining: bool = ...,
    ) -> None: ...

class ChangeMemberResponse(_message.Message):
    __slots__ = ("member",)
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    member: Member
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ...) -> None: ...

class RemoveMemberRequest(_message.Message):
    __slots__ = ("context", "cell", "member")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    member: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        member: _Optional[str] = ...,
    ) -> None: ...

class RemoveMemberResponse(_message.Message):
    __slots__ = ("member",)
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    member: Member
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ...) -> None: ...
