from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class TaintEffect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TAINT_EFFECT_UNSPECIFIED: _ClassVar[TaintEffect]
    TAINT_EFFECT_NO_SCHEDULE: _ClassVar[TaintEffect]
    TAINT_EFFECT_PREFER_NO_SCHEDULE: _ClassVar[TaintEffect]
    TAINT_EFFECT_NO_EXECUTE: _ClassVar[TaintEffect]

class HelperPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HELPER_PHASE_UNSPECIFIED: _ClassVar[HelperPhase]
    HELPER_PHASE_BEFORE: _ClassVar[HelperPhase]
    HELPER_PHASE_BESIDE: _ClassVar[HelperPhase]
    HELPER_PHASE_AFTER: _ClassVar[HelperPhase]

TAINT_EFFECT_UNSPECIFIED: TaintEffect
TAINT_EFFECT_NO_SCHEDULE: TaintEffect
TAINT_EFFECT_PREFER_NO_SCHEDULE: TaintEffect
TAINT_EFFECT_NO_EXECUTE: TaintEffect
HELPER_PHASE_UNSPECIFIED: HelperPhase
HELPER_PHASE_BEFORE: HelperPhase
HELPER_PHASE_BESIDE: HelperPhase
HELPER_PHASE_AFTER: HelperPhase

class Card(_message.Message):
    __slots__ = ("kind", "place", "id", "model", "memory_bytes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    place: int
    id: str
    model: str
    memory_bytes: int
    def __init__(
        self,
        kind: _Optional[str] = ...,
        place: _Optional[int] = ...,
        id: _Optional[str] = ...,
        model: _Optional[str] = ...,
        memory_bytes: _Optional[int] = ...,
    ) -> None: ...

class NumaDomain(_message.Message):
    __slots__ = ("place", "socket", "cpus", "memory_bytes")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    SOCKET_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    place: int
    socket: int
    cpus: _containers.RepeatedScalarFieldContainer[int]
    memory_bytes: int
    def __init__(
        self,
        place: _Optional[int] = ...,
        socket: _Optional[int] = ...,
        cpus: _Optional[_Iterable[int]] = ...,
        memory_bytes: _Optional[int] = ...,
    ) -> None: ...

class RequestContext(_message.Message):
    __slots__ = ("request_id", "user")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    user: str
    def __init__(self, request_id: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class Resources(_message.Message):
    __slots__ = ("cpu_millis", "memory_bytes", "disk_bytes", "disk_bytes_per_s", "network_bytes_per_s", "device_millis")
    class DeviceMillisEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...

    CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    NETWORK_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    DEVICE_MILLIS_FIELD_NUMBER: _ClassVar[int]
    cpu_millis: int
    memory_bytes: int
    disk_bytes: int
    disk_bytes_per_s: int
    network_bytes_per_s: int
    device_millis: _containers.ScalarMap[str, int]
    def __init__(
        self,
        cpu_millis: _Optional[int] = ...,
        memory_bytes: _Optional[int] = ...,
        disk_bytes: _Optional[int] = ...,
        disk_bytes_per_s: _Optional[int] = ...,
        network_bytes_per_s: _Optional[int] = ...,
        device_millis: _Optional[_Mapping[str, int]] = ...,
    ) -> None: ...

class Cursor(_message.Message):
    __slots__ = ("store_epoch", "stamp")
    STORE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STAMP_FIELD_NUMBER: _ClassVar[int]
    store_epoch: int
    stamp: bytes
    def __init__(self, store_epoch: _Optional[int] = ..., stamp: _Optional[bytes] = ...) -> None: ...

class LabelMatch(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    NOT_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., **kwargs) -> None: ...

class PageRequest(_message.Message):
    __slots__ = ("limit", "page")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    limit: int
    page: str
    def __init__(self, limit: _Optional[int] = ..., page: _Optional[str] = ...) -> None: ...
