"""Builds the messages of requests. A value that its field cannot hold ends as `InvalidError`, as any other. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from .errors import FieldViolation, InvalidError, refused_field

M = TypeVar("M", bound=Message)
P = ParamSpec("P")

WRONG_VALUE = (AttributeError, OverflowError, TypeError, ValueError)
"""What protobuf raises for a value that a field cannot hold."""

INT32_MAX = (1 << 31) - 1
"""The largest value of an enumeration."""

UINT32_MAX = (1 << 32) - 1
"""The most that a number of the protocol carries. What a cell takes of that, its gateways say."""

_SCALARS = {
    FieldDescriptor.TYPE_BOOL: "True or False",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_DOUBLE: "a number",
    FieldDescriptor.TYPE_INT32: f"a whole number, {-(1 << 31)} to {(1 << 31) - 1}",
    FieldDescriptor.TYPE_INT64: f"a whole number, {-(1 << 63)} to {(1 << 63) - 1}",
    FieldDescriptor.TYPE_STRING: "a text",
    FieldDescriptor.TYPE_UINT32: f"a whole number, 0 to {(1 << 32) - 1}",
    FieldDescriptor.TYPE_UINT64: f"a whole number, 0 to {(1 << 64) - 1}",
}


def build(kind: Callable[P, M], /, *given: P.args, **fields: P.kwargs) -> M:
    """The message with these fields. Raises `InvalidError` that names the fields with wrong values."""
    try:
        return kind(*given, **fields)
    except WRONG_VALUE:
        raise InvalidError(list(wrong_fields(kind, fields))) from None


def wrong_fields(kind: Any, fields: Mapping[str, Any]) -> list[FieldViolation]:
    """The fields with values that a message cannot hold."""
    found = []
    for name, value in fields.items():
        descriptor = kind.DESCRIPTOR.fields_by_name[name]
        if fits(kind, name, value):
            continue
        singles = parts(descriptor, name, value)
        wrong = [(path, part) for path, part, alone in singles if not fits(kind, name, alone)]
        if wrong:
            found += [refused_field(path, part, accepted_of(descriptor)) for path, part in wrong]
        else:
            found.append(refused_field(name, value, many_accepted(descriptor)))
    # An iterator that the first try has used up shows no longer which value was wrong.
    return found or [refused_field(", ".join(fields), "a wrong value", "the types that the method documents")]


def parts(descriptor: FieldDescriptor, name: str, value: Any) -> list[tuple[str, Any, Any]]:
    """Each part of a map or of a list: its path, the part, and the value of the field with this part alone."""
    if not descriptor.is_repeated:
        return []
    if isinstance(value, Mapping) and is_map(descriptor):
        return [(f'{name}["{key}"]', part, {key: part}) for key, part in value.items()]
    if isinstance(value, (list, tuple)) and not is_map(descriptor):
        return [(f"{name}[{at}]", part, [part]) for at, part in enumerate(value)]
    return []


def fits(kind: Any, name: str, value: Any) -> bool:
    """Whether a field can hold a value."""
    try:
        kind(**{name: value})
    except WRONG_VALUE:
        return False
    return True


def is_map(descriptor: FieldDescriptor) -> bool:
    """Whether a field is a map."""
    return descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry


def accepted_of(descriptor: FieldDescriptor) -> str:
    """What one value of a field may be."""
    if is_map(descriptor):
        return accepted_of(descriptor.message_type.fields_by_name["value"])
    if descriptor.message_type is not None:
        return f"a record of the kind {descriptor.message_type.name}"
    if descriptor.enum_type is not None:
        return f"a value of {descriptor.enum_type.name}"
    return _SCALARS.get(descriptor.type, "another type")


def many_accepted(descriptor: FieldDescriptor) -> str:
    """What the whole of a field may be."""
    if not descriptor.is_repeated:
        return accepted_of(descriptor)
    return f"a {'map with keys of text' if is_map(descriptor) else 'list'}, each value {accepted_of(descriptor)}"


def within(path: str, error: InvalidError) -> InvalidError:
    """The error about the fields of a part, with the path of that part."""
    return InvalidError([FieldViolation(f"{path}.{each.field}", each.description) for each in error.fields])


def require_kind(field: str, value: object, kind: type[Any] | tuple[type[Any], ...], accepted: str) -> None:
    """Raises `InvalidError` unless a value is of a kind."""
    if not isinstance(value, kind):
        raise InvalidError.of(field, value, accepted)


def whole(field: str, value: int, least: int, most: int) -> int:
    """A whole number within bounds. Raises `InvalidError` for another value."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidError.of(field, value, f"a whole number, {least} to {most}")
    return int(value)


def millis(field: str, seconds: float) -> int:
    """Milliseconds. Raises `InvalidError` for a value that is no time."""
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds < 1e15:
        raise InvalidError.of(field, seconds, "0 or more seconds")
    return int(seconds * 1_000)
