from borough.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_STATE_UNSPECIFIED: _ClassVar[NodeState]
    NODE_STATE_READY: _ClassVar[NodeState]
    NODE_STATE_RECOVERING: _ClassVar[NodeState]
    NODE_STATE_LOST: _ClassVar[NodeState]

class NodeCondition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_CONDITION_UNSPECIFIED: _ClassVar[NodeCondition]
    NODE_CONDITION_CORDONED: _ClassVar[NodeCondition]
    NODE_CONDITION_DRAINING: _ClassVar[NodeCondition]
    NODE_CONDITION_TAINTED: _ClassVar[NodeCondition]
    NODE_CONDITION_NOT_CONNECTED: _ClassVar[NodeCondition]
    NODE_CONDITION_SESSION_FAILING: _ClassVar[NodeCondition]
    NODE_CONDITION_SILENT: _ClassVar[NodeCondition]
    NODE_CONDITION_DRAINED: _ClassVar[NodeCondition]

NODE_STATE_UNSPECIFIED: NodeState
NODE_STATE_READY: NodeState
NODE_STATE_RECOVERING: NodeState
NODE_STATE_LOST: NodeState
NODE_CONDITION_UNSPECIFIED: NodeCondition
NODE_CONDITION_CORDONED: NodeCondition
NODE_CONDITION_DRAINING: NodeCondition
NODE_CONDITION_TAINTED: NodeCondition
NODE_CONDITION_NOT_CONNECTED: NodeCondition
NODE_CONDITION_SESSION_FAILING: NodeCondition
NODE_CONDITION_SILENT: NodeCondition
NODE_CONDITION_DRAINED: NodeCondition

class Node(_message.Message):
    __slots__ = (
        "id",
        "cell",
        "name",
        "state",
        "schedulable",
        "draining",
        "capacity",
        "used",
        "tasks",
        "port_first",
        "port_last",
        "ports_used",
        "attributes",
        "labels",
        "host",
        "boot_id",
        "agent_version",
        "revision",
        "changed_ms",
        "connected",
        "taints",
        "cards",
        "domains",
        "packages",
        "load",
        "identity",
        "session_failure",
        "silent_since_ms",
        "lost_at_ms",
        "drained",
    )
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    ID_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULABLE_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIRST_FIELD_NUMBER: _ClassVar[int]
    PORT_LAST_FIELD_NUMBER: _ClassVar[int]
    PORTS_USED_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_MS_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    CARDS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    PACKAGES_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    SESSION_FAILURE_FIELD_NUMBER: _ClassVar[int]
    SILENT_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    LOST_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    id: str
    cell: str
    name: str
    state: NodeState
    schedulable: bool
    draining: bool
    capacity: _common_pb2.Resources
    used: _common_pb2.Resources
    tasks: int
    port_first: int
    port_last: int
    ports_used: int
    attributes: _containers.ScalarMap[str, str]
    labels: _containers.ScalarMap[str, str]
    host: str
    boot_id: str
    agent_version: str
    revision: int
    changed_ms: int
    connected: bool
    taints: _containers.RepeatedCompositeFieldContainer[Taint]
    cards: _containers.RepeatedCompositeFieldContainer[_common_pb2.Card]
    domains: _containers.RepeatedCompositeFieldContainer[_common_pb2.NumaDomain]
    packages: _containers.RepeatedScalarFieldContainer[str]
    load: NodeLoad
    identity: str
    session_failure: SessionFailure
    silent_since_ms: int
    lost_at_ms: int
    drained: bool
    def __init__(
        self,
        id: _Optional[str] = ...,
        cell: _Optional[str] = ...,
        name: _Optional[str] = ...,
        state: _Optional[_Union[NodeState, str]] = ...,
        schedulable: bool = ...,
        draining: bool = ...,
        capacity: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        used: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ...,
        tasks: _Optional[int] = ...,
        port_first: _Optional[int] = ...,
        port_last: _Optional[int] = ...,
        ports_used: _Optional[int] = ...,
        attributes: _Optional[_Mapping[str, str]] = ...,
        labels: _Optional[_Mapping[str, str]] = ...,
        host: _Optional[str] = ...,
        boot_id: _Optional[str] = ...,
        agent_version: _Optional[str] = ...,
        revision: _Optional[int] = ...,
        changed_ms: _Optional[int] = ...,
        connected: bool = ...,
        taints: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ...,
        cards: _Optional[_Iterable[_Union[_common_pb2.Card, _Mapping]]] = ...,
        domains: _Optional[_Iterable[_Union[_common_pb2.NumaDomain, _Mapping]]] = ...,
        packages: _Optional[_Iterable[str]] = ...,
        load: _Optional[_Union[NodeLoad, _Mapping]] = ...,
        identity: _Optional[str] = ...,
        session_failure: _Optional[_Union[SessionFailure, _Mapping]] = ...,
        silent_since_ms: _Optional[int] = ...,
        lost_at_ms: _Optional[int] = ...,
        drained: bool = ...,
    ) -> None: ...

class SessionFailure(_message.Message):
    __slots__ = ("sessions", "error", "at_ms")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    sessions: int
    error: str
    at_ms: int
    def __init__(
        self, sessions: _Optional[int] = ..., error: _Optional[str] = ..., at_ms: _Optional[int] = ...
    ) -> None: ...

class NodeLoad(_message.Message):
    __slots__ = ("cpu_millis", "memory_bytes", "covered_cpu_millis", "covered_memory_bytes", "changed_ms")
    CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    COVERED_CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    COVERED_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHANGED_MS_FIELD_NUMBER: _ClassVar[int]
    cpu_millis: int
    memory_bytes: int
    covered_cpu_millis: int
    covered_memory_bytes: int
    changed_ms: int
    def __init__(
        self,
        cpu_millis: _Optional[int] = ...,
        memory_bytes: _Optional[int] = ...,
        covered_cpu_millis: _Optional[int] = ...,
        covered_memory_bytes: _Optional[int] = ...,
        changed_ms: _Optional[int] = ...,
    ) -> None: ...

class Taint(_message.Message):
    __slots__ = ("key", "value", "effect", "added_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    ADDED_MS_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    effect: _common_pb2.TaintEffect
    added_ms: int
    def __init__(
        self,
        key: _Optional[str] = ...,
        value: _Optional[str] = ...,
        effect: _Optional[_Union[_common_pb2.TaintEffect, str]] = ...,
        added_ms: _Optional[int] = ...,
    ) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("context", "cell", "page", "selector", "states", "conditions")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    page: _common_pb2.PageRequest
    selector: _containers.RepeatedCompositeFieldContainer[_common_pb2.LabelMatch]
    states: _containers.RepeatedScalarFieldContainer[NodeState]
    conditions: _containers.RepeatedScalarFieldContainer[NodeCondition]
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...,
        selector: _Optional[_Iterable[_Union[_common_pb2.LabelMatch, _Mapping]]] = ...,
        states: _Optional[_Iterable[_Union[NodeState, str]]] = ...,
        conditions: _Optional[_Iterable[_Union[NodeCondition, str]]] = ...,
    ) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("nodes", "next_page", "cursor")
    NODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    next_page: str
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...,
        next_page: _Optional[str] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class GetNodeRequest(_message.Message):
    __slots__ = ("context", "cell", "name")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    name: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        name: _Optional[str] = ...,
    ) -> None: ...

class GetNodeResponse(_message.Message):
    __slots__ = ("node", "cursor")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    node: Node
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        node: _Optional[_Union[Node, _Mapping]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class CordonNodeRequest(_message.Message):
    __slots__ = ("context", "cell", "name")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    name: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        name: _Optional[str] = ...,
    ) -> None: ...

class CordonNodeResponse(_message.Message):
    __slots__ = ("node", "cursor")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    node: Node
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        node: _Optional[_Union[Node, _Mapping]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class UncordonNodeRequest(_message.Message):
    __slots__ = ("context", "cell", "name")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    name: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        name: _Optional[str] = ...,
    ) -> None: ...

class UncordonNodeResponse(_message.Message):
    __slots__ = ("node", "cursor")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    node: Node
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        node: _Optional[_Union[Node, _Mapping]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("context", "cell", "name", "force")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    name: str
    force: bool
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        name: _Optional[str] = ...,
        force: bool = ...,
    ) -> None: ...

class DrainNodeResponse(_message.Message):
    __slots__ = ("node", "cursor")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    node: Node
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        node: _Optional[_Union[Node, _Mapping]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class TaintNodeRequest(_message.Message):
    __slots__ = ("context", "cell", "name", "taints")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    name: str
    taints: _containers.RepeatedCompositeFieldContainer[Taint]
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        name: _Optional[str] = ...,
        taints: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ...,
    ) -> None: ...

class TaintNodeResponse(_message.Message):
    __slots__ = ("node", "cursor")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    node: Node
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        node: _Optional[_Union[Node, _Mapping]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class TaintMatch(_message.Message):
    __slots__ = ("key", "value", "effect")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    effect: _common_pb2.TaintEffect
    def __init__(
        self,
        key: _Optional[str] = ...,
        value: _Optional[str] = ...,
        effect: _Optional[_Union[_common_pb2.TaintEffect, str]] = ...,
    ) -> None: ...

class UntaintNodeRequest(_message.Message):
    __slots__ = ("context", "cell", "name", "taints")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    name: str
    taints: _containers.RepeatedCompositeFieldContainer[TaintMatch]
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        name: _Optional[str] = ...,
        taints: _Optional[_Iterable[_Union[TaintMatch, _Mapping]]] = ...,
    ) -> None: ...

class AdmitNodeRequest(_message.Message):
    __slots__ = ("context", "cell", "name", "identity")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    name: str
    identity: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        name: _Optional[str] = ...,
        identity: _Optional[str] = ...,
    ) -> None: ...

class AdmitNodeResponse(_message.Message):
    __slots__ = ("node", "cursor")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    node: Node
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        node: _Optional[_Union[Node, _Mapping]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class LabelNodeRequest(_message.Message):
    __slots__ = ("context", "cell", "name", "labels", "remove")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    name: str
    labels: _containers.ScalarMap[str, str]
    remove: _containers.RepeatedScalarFieldContainer[str]
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        name: _Optional[str] = ...,
        labels: _Optional[_Mapping[str, str]] = ...,
        remove: _Optional[_Iterable[str]] = ...,
    ) -> None: ...

class LabelNodeResponse(_message.Message):
    __slots__ = ("node", "cursor")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    node: Node
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        node: _Optional[_Union[Node, _Mapping]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class RemoveNodeRequest(_message.Message):
    __slots__ = ("context", "cell", "name")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    name: str
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        name: _Optional[str] = ...,
    ) -> None: ...

class RemoveNodeResponse(_message.Message):
    __slots__ = ("cursor",)
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    cursor: _common_pb2.Cursor
    def __init__(self, cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...) -> None: ...

class UntaintNodeResponse(_message.Message):
    __slots__ = ("node", "cursor")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    node: Node
    cursor: _common_pb2.Cursor
    def __init__(
        self,
        node: _Optional[_Union[Node, _Mapping]] = ...,
        cursor: _Optional[_Union[_common_pb2.Cursor, _Mapping]] = ...,
    ) -> None: ...

class CreateJoinTokenRequest(_message.Message):
    __slots__ = ("context", "cell", "name", "token_digest", "lasts_ms", "identity_lasts_ms")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOKEN_DIGEST_FIELD_NUMBER: _ClassVar[int]
    LASTS_MS_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_LASTS_MS_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    name: str
    token_digest: bytes
    lasts_ms: int
    identity_lasts_ms: int
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        name: _Optional[str] = ...,
        token_digest: _Optional[bytes] = ...,
        lasts_ms: _Optional[int] = ...,
        identity_lasts_ms: _Optional[int] = ...,
    ) -> None: ...

class CreateJoinTokenResponse(_message.Message):
    __slots__ = ("join",)
    JOIN_FIELD_NUMBER: _ClassVar[int]
    join: NodeJoin
    def __init__(self, join: _Optional[_Union[NodeJoin, _Mapping]] = ...) -> None: ...

class ListJoinTokensRequest(_message.Message):
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

class ListJoinTokensResponse(_message.Message):
    __slots__ = ("joins", "next_page")
    JOINS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    joins: _containers.RepeatedCompositeFieldContainer[NodeJoin]
    next_page: str
    def __init__(
        self, joins: _Optional[_Iterable[_Union[NodeJoin, _Mapping]]] = ..., next_page: _Optional[str] = ...
    ) -> None: ...

class RevokeJoinTokenRequest(_message.Message):
    __slots__ = ("context", "cell", "name", "identity")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    context: _common_pb2.RequestContext
    cell: str
    name: str
    identity: bool
    def __init__(
        self,
        context: _Optional[_Union[_common_pb2.RequestContext, _Mapping]] = ...,
        cell: _Optional[str] = ...,
        name: _Optional[str] = ...,
        identity: bool = ...,
    ) -> None: ...

class RevokeJoinTokenResponse(_message.Message):
    __slots__ = ("join",)
    JOIN_FIELD_NUMBER: _ClassVar[int]
    join: NodeJoin
    def __init__(self, join: _Optional[_Union[NodeJoin, _Mapping]] = ...) -> None: ...

class NodeJoin(_message.Message):
    __slots__ = ("node", "token", "identity")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    node: str
    token: JoinToken
    identity: NodeIdentity
    def __init__(
        self,
        node: _Optional[str] = ...,
        token: _Optional[_Union[JoinToken, _Mapping]] = ...,
        identity: _Optional[_Union[NodeIdentity, _Mapping]] = ...,
    ) -> None: ...

class JoinToken(_message.Message):
    __slots__ = ("expires_ms", "made_ms", "by", "used_ms")
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    MADE_MS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    USED_MS_FIELD_NUMBER: _ClassVar[int]
    expires_ms: int
    made_ms: int
    by: str
    used_ms: int
    def __init__(
        self,
        expires_ms: _Optional[int] = ...,
        made_ms: _Optional[int] = ...,
        by: _Optional[str] = ...,
        used_ms: _Optional[int] = ...,
    ) -> None: ...

class NodeIdentity(_message.Message):
    __slots__ = ("renewed_ms", "expires_ms")
    RENEWED_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    renewed_ms: int
    expires_ms: int
    def __init__(self, renewed_ms: _Optional[int] = ..., expires_ms: _Optional[int] = ...) -> None: ...
