"""Records and their messages, over versions that know more or less."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from borough import v1
from borough.record import Record

RECORDS = list(v1.RECORDS.values())


def values_of(descriptor: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    if descriptor.message_type is not None:
        return messages(descriptor.message_type._concrete_class, depth - 1)
    if descriptor.enum_type is not None:
        # Also numbers that no version knows yet.
        return st.integers(0, 20)
    kinds = {"string": st.text(max_size=4), "bytes": st.binary(max_size=4), "bool": st.booleans()}
    names = {9: "string", 12: "bytes", 8: "bool"}
    if descriptor.type in names:
        return kinds[names[descriptor.type]]
    return st.floats(0, 9) if descriptor.type == 1 else st.integers(0, 2**31 - 1)


@st.composite
def messages(draw: st.DrawFn, kind: type[Message], depth: int = 2) -> Message:
    message = kind()
    for descriptor in kind.DESCRIPTOR.fields:
        is_message = descriptor.message_type is not None
        if (is_message and depth <= 0) or draw(st.integers(0, 3)) == 0:
            continue
        if descriptor.is_repeated and is_message and descriptor.message_type.GetOptions().map_entry:
            value = descriptor.message_type.fields_by_name["value"]
            if value.message_type is None:
                key = 1 if descriptor.message_type.fields_by_name["key"].type != 9 else "k"
                getattr(message, descriptor.name)[key] = draw(values_of(value, depth))
        elif descriptor.is_repeated:
            getattr(message, descriptor.name).extend(draw(st.lists(values_of(descriptor, depth), max_size=2)))
        elif is_message:
            getattr(message, descriptor.name).CopyFrom(draw(values_of(descriptor, depth)))
        else:
            setattr(message, descriptor.name, draw(values_of(descriptor, depth)))
    if draw(st.booleans()):
        message.MergeFromString(b"\xa2\x38\x05later")
    return message


@given(st.sampled_from(RECORDS).flatmap(lambda record: messages(record.message_type)))
def test_a_record_sends_back_what_it_was_read_from(message: Message) -> None:
    record = v1.RECORDS[message.DESCRIPTOR.full_name].from_message(message)
    assert record.to_message() == message
    assert pickle.loads(pickle.dumps(record)) == record


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_an_empty_message_is_a_record_of_defaults(record: type[Record]) -> None:
    assert record.from_message(record.message_type()) == record()
    assert record().to_message() == record.message_type()
    assert record.__doc__


def test_a_number_of_a_later_version_is_a_member_of_its_own() -> None:
    later = v1.JobState(42)
    assert (later.name, later.value, int(later), later.is_known) == ("UNKNOWN_42", 42, 42, False)
    assert later is v1.JobState(42) and later != v1.JobState.RUNNING and v1.JobState.RUNNING.is_known
    assert list(v1.JobState)[-1] is v1.JobState.DEPENDENCY_FAILED
    with pytest.raises(ValueError):
        v1.JobState("running")


def test_records_are_values() -> None:
    endpoint = v1.Endpoint(name="0.web.alice.alpha", index=0)
    assert dataclasses.replace(endpoint, index=1).index == 1
    assert endpoint == v1.Endpoint(name="0.web.alice.alpha")
    with pytest.raises(dataclasses.FrozenInstanceError):
        endpoint.index = 2  # type: ignore[misc]


def test_words_of_python_are_no_names_of_fields() -> None:
    match = v1.LabelMatch(key="a", value="b", not_=True)
    assert getattr(match.to_message(), "not") is True
    assert v1.PlannedPlacement(from_="n1").to_message().SerializeToString()
