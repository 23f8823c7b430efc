"""Reads the endpoint keys of Borough with nothing but docs/endpoint-keys.md: no library, and no code of Borough.

Each line of standard input has a key and a value in hexadecimal digits. Each line of standard output says in JSON what
they mean. A program would take both from its FoundationDB client, which also unpacks the tuple of the key.
"""

import json
import sys

ENDPOINT, STAMP, FORMAT = 50, 51, 1
HEALTH = ("unknown", "healthy", "unhealthy")


def tuple_unpack(key):
    """The texts and numbers of a FoundationDB tuple."""
    at, elements = 0, []
    while at < len(key):
        code = key[at]
        at += 1
        if code == 0x02:
            # A text ends with a zero. A zero followed by 255 would be part of it.
            end = key.index(0, at)
            while key[end + 1 : end + 2] == b"\xff":
                end = key.index(0, end + 2)
            elements.append(key[at:end].replace(b"\x00\xff", b"\x00").decode())
            at = end + 1
        elif 0x14 <= code <= 0x1C:
            size = code - 0x14
            elements.append(int.from_bytes(key[at : at + size], "big"))
            at += size
        else:
            raise ValueError(f"a tuple element of type {code} at byte {at - 1}")
    return elements


def cbor_read(data, at):
    """One item of CBOR at a place, and the place behind it."""
    major, low = data[at] >> 5, data[at] & 31
    at += 1
    if low < 24:
        number = low
    elif low <= 27:
        size = 1 << (low - 24)
        number = int.from_bytes(data[at : at + size], "big")
        at += size
    else:
        raise ValueError(f"an item of additional information {low}")
    if major == 0:
        return number, at
    if major in (2, 3):
        text = data[at : at + number]
        return (text if major == 2 else text.decode()), at + number
    if major == 4:
        items = []
        for _ in range(number):
            item, at = cbor_read(data, at)
            items.append(item)
        return items, at
    raise ValueError(f"an item of major type {major}")


def meaning(key, value):
    """What a key and its value mean."""
    cell, kind, user, job, *rest = tuple_unpack(key)
    if value[0] != kind or value[1] != FORMAT:
        raise ValueError(f"a value of kind {value[0]} and format {value[1]} under a key of kind {kind}")
    item, _ = cbor_read(value, 2)
    named = {"cell": cell, "user": user, "job": job}
    if kind == STAMP:
        return {**named, "stamp": item.hex()}
    if kind != ENDPOINT:
        raise ValueError(f"a key of kind {kind}")
    (_, _, _, incarnation, host, ports, health, weight, node, *later), revision, *_ = item
    # Endpoints of earlier versions have none of these fields.
    healthy_since_ms, domains, *_ = [*later, *(0, [])[len(later) :]]
    return {
        **named,
        "index": rest[0],
        "incarnation": incarnation,
        "host": host,
        "ports": {name: number for name, number, *_ in ports},
        "health": HEALTH[health],
        "weight": weight,
        "node": node,
        "healthy_since_ms": healthy_since_ms,
        "domains": domains,
        "revision": revision,
    }


for line in sys.stdin:
    key, value = map(bytes.fromhex, line.split()[:2])
    print(json.dumps(meaning(key, value)))
