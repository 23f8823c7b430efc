from borough.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IdentityKeyUse(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IDENTITY_KEY_USE_UNSPECIFIED: _ClassVar[IdentityKeyUse]
    IDENTITY_KEY_USE_NEXT: _ClassVar[IdentityKeyUse]
    IDENTITY_KEY_USE_SIGNS: _ClassVar[IdentityKeyUse]
    IDENTITY_KEY_USE_CHECKS: _ClassVar[IdentityKeyUse]

IDENTITY_KEY_USE_UNSPECIFIED: IdentityKeyUse
IDENTITY_KEY_USE_NEXT: IdentityKeyUse
IDENTITY_KEY_USE_SIGNS: IdentityKeyUse
IDENTITY_KEY_USE_CHECKS: IdentityKeyUse

class IdentityKey(_message.Message):
    __slots__ = ("number", "id", "signs_from_ms", "use")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    SIGNS_FROM_MS_FIELD_NUMBER: _ClassVar[int]
    USE_FIELD_NUMBER: _ClassVar[int]
    number: int
    id: str
    signs_from_ms: int
    use: IdentityKeyUse
    def __init__(
        self,
        number: _Optional[int] = ...,
        id: _Optional[str] = ...,
        signs_from_ms: _Optional[int] = ...,
        use: _Optional[_Union[IdentityKeyUse, str]] = ...,
    ) -> None: ...

class ListIdentityKeysRequest(_message.Message):
    __slots__ = ("context", "cell")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    def __init__(
        self, context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ..., cell: _Optional[str] = ...
    ) -> None: ...

class ListIdentityKeysResponse(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[IdentityKey]
    def __init__(self, keys: _Optional[_Iterable[_Union[IdentityKey, _Mapping]]] = ...) -> None: ...

class RotateIdentityKeysRequest(_message.Message):
    __slots__ = ("context", "cell", "ahead_ms", "withdraw")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    AHEAD_MS_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    ahead_ms: int
    withdraw: bool
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        ahead_ms: _Optional[int] = ...,
        withdraw: bool = ...,
    ) -> None: ...

class RotateIdentityKeysResponse(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[IdentityKey]
    def __init__(self, keys: _Optional[_Iterable[_Union[IdentityKey, _Mapping]]] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("subject", "roles", "allow", "deny", "revision")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    ALLOW_FIELD_NUMBER: _ClassVar[int]
    DENY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    subject: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    allow: _containers.RepeatedScalarFieldContainer[str]
    deny: _containers.RepeatedScalarFieldContainer[str]
    revision: int
    def __init__(
        self,
        subject: _Optional[str] = ...,
        roles: _Optional[_Iterable[str]] = ...,
        allow: _Optional[_Iterable[str]] = ...,
        deny: _Optional[_Iterable[str]] = ...,
        revision: _Optional[int] = ...,
    ) -> None: ...

class GrantChange(_message.Message):
    __slots__ = ("grant", "at_ms", "by")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    grant: Grant
    at_ms: int
    by: str
    def __init__(
        self, grant: _Optional[_Union[Grant, _Mapping]] = ..., at_ms: _Optional[int] = ..., by: _Optional[str] = ...
    ) -> None: ...

class ListGrantsRequest(_message.Message):
    __slots__ = ("context", "cell", "page")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    page: _common_pb2.PageRequest
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...,
    ) -> None: ...

class ListGrantsResponse(_message.Message):
    __slots__ = ("grants", "next_page")
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    next_page: str
    def __init__(
        self, grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ..., next_page: _Optional[str] = ...
    ) -> None: ...

class GetGrantRequest(_message.Message):
    __slots__ = ("context", "cell", "subject")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    subject: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        subject: _Optional[str] = ...,
    ) -> None: ...

class GetGrantResponse(_message.Message):
    __slots__ = ("grant", "changes")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    grant: Grant
    changes: _containers.RepeatedCompositeFieldContainer[GrantChange]
    def __init__(
        self,
        grant: _Optional[_Union[Grant, _Mapping]] = ...,
        changes: _Optional[_Iterable[_Union[GrantChange, _Mapping]]] = ...,
    ) -> None: ...

class SetGrantRequest(_message.Message):
    __slots__ = ("context", "cell", "grant", "expected_revision")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    grant: Grant
    expected_revision: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        grant: _Optional[_Union[Grant, _Mapping]] = ...,
        expected_revision: _Optional[int] = ...,
    ) -> None: ...

class SetGrantResponse(_message.Message):
    __slots__ = ("grant",)
    GRANT_FIELD_NUMBER: _ClassVar[int]
    grant: Grant
    def __init__(self, grant: _Optional[_Union[Grant, _Mapping]] = ...) -> None: ...

class CheckAccessRequest(_message.Message):
    __slots__ = ("context", "cell", "action", "owner", "subject", "groups")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    action: str
    owner: str
    subject: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        action: _Optional[str] = ...,
        owner: _Optional[str] = ...,
        subject: _Optional[str] = ...,
        groups: _Optional[_Iterable[str]] = ...,
    ) -> None: ...

class CheckAccessResponse(_message.Message):
    __slots__ = ("allowed", "reason", "caller", "groups")
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    allowed: bool
    reason: str
    caller: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(
        self,
        allowed: bool = ...,
        reason: _Optional[str] = ...,
        caller: _Optional[str] = ...,
        groups: _Optional[_Iterable[str]] = ...,
    ) -> None: ...

class ListHoldersRequest(_message.Message):
    __slots__ = ("context", "cell", "action", "owner")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    action: str
    owner: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        action: _Optional[str] = ...,
        owner: _Optional[str] = ...,
    ) -> None: ...

class ListHoldersResponse(_message.Message):
    __slots__ = ("holders", "denied")
    class Holder(_message.Message):
        __slots__ = ("subject", "by")
        SUBJECT_FIELD_NUMBER: _ClassVar[int]
        BY_FIELD_NUMBER: _ClassVar[int]
        subject: str
        by: str
        def __init__(self, subject: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    DENIED_FIELD_NUMBER: _ClassVar[int]
    holders: _containers.RepeatedCompositeFieldContainer[ListHoldersResponse.Holder]
    denied: _containers.RepeatedScalarFieldContainer[str]
    def __init__(
        self,
        holders: _Optional[_Iterable[_Union[ListHoldersResponse.Holder, _Mapping]]] = ...,
        denied: _Optional[_Iterable[str]] = ...,
    ) -> None: ...
