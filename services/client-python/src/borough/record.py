"""Records: the messages of the API as frozen dataclasses. The generated ones are in `borough.v1`."""

from __future__ import annotations

import enum
import keyword
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-not-found]

from .errors import InvalidError
from .requests import WRONG_VALUE, many_accepted, require_kind, within

R = TypeVar("R", bound="Record")


class OpenEnum(enum.IntEnum):
    """An enumeration that keeps numbers which a later version of the API has added.

    Such a member is called `UNKNOWN_` with its number, and compares as the number does.
    """

    @classmethod
    def _missing_(cls, value: object) -> OpenEnum | None:
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = f"UNKNOWN_{value}"
        member._value_ = value
        return cls._value2member_map_.setdefault(value, member)  # type: ignore[return-value]

    @property
    def is_known(self) -> bool:
        """Whether this version of the library knows the value."""
        return self.name in type(self).__members__


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A message of the API as a value. `dataclasses.replace` makes a changed copy."""

    message_type: ClassVar[type[Message]]

    unknown_fields: bytes = field(default=b"", repr=False)
    """Fields that a later version of the API has added, as they came. A record that is sent back keeps them."""

    @classmethod
    def from_message(cls: type[R], message: Any) -> R:
        """The record of a message of the wire."""
        values = {name: read(message) for name, read, _ in plan(cls)}
        if len(UnknownFieldSet(message)):
            values["unknown_fields"] = unknown_of(message)
        return cls(**values)

    def to_message(self) -> Any:
        """The message of the wire."""
        message = type(self).message_type()
        if self.unknown_fields:
            message.MergeFromString(self.unknown_fields)
        for name, _, write in plan(type(self)):
            value = getattr(self, name)
            try:
                write(message, value)
            except InvalidError as error:
                raise within(name, error) from None
            except WRONG_VALUE:
                descriptor = message.DESCRIPTOR.fields_by_name[name.removesuffix("_")]
                raise InvalidError.of(name, value, many_accepted(descriptor)) from None
        return message


def records(field: str, given: Iterable[Record], kind: type[Record]) -> list[Any]:
    """The messages of a list of records. Raises `InvalidError` for anything else."""
    require_kind(field, given, Iterable, f"a list of {kind.__name__}")
    messages = []
    for at, each in enumerate(given):
        require_kind(f"{field}[{at}]", each, kind, f"a {kind.__name__}")
        messages.append(each.to_message())
    return messages


def unknown_of(message: Message) -> bytes:
    """The fields of a message that its descriptor does not name, serialised."""
    rest = type(message)()
    rest.CopyFrom(message)
    for descriptor in message.DESCRIPTOR.fields:
        rest.ClearField(descriptor.name)
    return rest.SerializeToString()


Step = tuple[str, Callable[[Message], Any], Callable[[Message, Any], None]]


_plans: dict[type[Record], tuple[Step, ...]] = {}


def plan(record: type[Record]) -> tuple[Step, ...]:
    """How each field of a record is read from its message, and written to it."""
    known = _plans.get(record)
    if known is None:
        known = _plans[record] = tuple(step(descriptor) for descriptor in record.message_type.DESCRIPTOR.fields)
    return known


def step(descriptor: FieldDescriptor) -> Step:
    """The step of one field."""
    name = descriptor.name
    attribute = f"{name}_" if keyword.iskeyword(name) else name
    repeated = descriptor.is_repeated
    if repeated and descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry:
        return (attribute, *map_step(name, descriptor.message_type.fields_by_name["value"]))
    load, store = conversion(descriptor)
    if repeated:

        def read_many(message: Message) -> Any:
            return tuple(load(item) for item in getattr(message, name))

        def write_many(message: Message, value: Any) -> None:
            getattr(message, name).extend(store(item) for item in value)

        return attribute, read_many, write_many
    optional = descriptor.has_presence

    def read(message: Message) -> Any:
        return None if optional and not message.HasField(name) else load(getattr(message, name))

    def write(message: Message, value: Any) -> None:
        if value is None:
            return
        if descriptor.message_type is not None:
            getattr(message, name).CopyFrom(store(value))
        else:
            setattr(message, name, store(value))

    return attribute, read, write


def map_step(name: str, value: FieldDescriptor) -> tuple[Callable[[Message], Any], Callable[[Message, Any], None]]:
    """How a map is read and written."""
    load, store = conversion(value)

    def read(message: Message) -> Mapping[Any, Any]:
        return {key: load(item) for key, item in getattr(message, name).items()}

    def write(message: Message, items: Mapping[Any, Any]) -> None:
        target = getattr(message, name)
        for key, item in items.items():
            if value.message_type is not None:
                target[key].CopyFrom(store(item))
            else:
                target[key] = store(item)

    return read, write


def conversion(descriptor: FieldDescriptor) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """How one value is read and written."""
    from .v1 import ENUMS, RECORDS

    if descriptor.message_type is not None:
        return RECORDS[descriptor.message_type.full_name].from_message, Record.to_message
    if descriptor.enum_type is not None:
        return ENUMS[descriptor.enum_type.full_name], int
    return same, same


def same(value: Any) -> Any:
    """A value that is the same on both sides."""
    return value
