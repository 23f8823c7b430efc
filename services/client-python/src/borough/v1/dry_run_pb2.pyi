from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DryRunRequest(_message.Message):
    __slots__ = ("method", "request")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    method: str
    request: bytes
    def __init__(self, method: _Optional[str] = ..., request: _Optional[bytes] = ...) -> None: ...

class DryRunResponse(_message.Message):
    __slots__ = ("changes", "effects", "effects_left_out")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    changes: bool
    effects: _containers.RepeatedCompositeFieldContainer[DryRunEffect]
    effects_left_out: int
    def __init__(
        self,
        changes: bool = ...,
        effects: _Optional[_Iterable[_Union[DryRunEffect, _Mapping]]] = ...,
        effects_left_out: _Optional[int] = ...,
    ) -> None: ...

class DryRunEffect(_message.Message):
    __slots__ = ("subject", "text")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    subject: str
    text: str
    def __init__(self, subject: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...
