"""Readers of Avro records, written as code for one schema at a time and compiled.

Such a reader is as strict as the codec: a union's branch is one byte, integers stay within their width, booleans are
0 or 1, nothing follows a record. Where the bytes are anything else it raises one of :data:`MISREADS`; it may also do
so where the codec would find a way to read them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from textwrap import indent
from typing import Any, Final, NamedTuple

RecordReader = Callable[[bytes, int], Any]
"""Reads the record that begins at a place."""

MISREADS: Final = (ValueError, LookupError, struct.error)
"""What a reader raises if it leaves a record to the codec."""

_LONGEST: Final = 63
"""The most bits of a length. Longer ones are left to the codec, which refuses them with a reason."""


class Field(NamedTuple):
    """One field: its Avro type, the place of ``null`` in its union if it is one, and the fields of a record."""

    type: str
    null_at: int | None = None
    fields: Sequence[Field] = ()


def compile_reader(fields: Sequence[Field], result: str, *, to_end: bool = True) -> RecordReader:
    """A reader of records of these fields, which go to the end of the bytes unless ``to_end`` says otherwise.

    ``result`` is what it gives, an expression of the fields' values, which are called ``v0``, ``v1`` and so on, and of
    ``at``, the place behind them.
    """
    body = [*(_field(field, f"v{number}") for number, field in enumerate(fields)), *[_END] * to_end, f"return {result}"]
    code = "\n".join(["def read(data, at):", *(indent(part, "    ") for part in body)])
    names: dict[str, Any] = {
        "varint": varint,
        "float32": struct.Struct("<f").unpack_from,
        "float64": struct.Struct("<d").unpack_from,
    }
    exec(code, names)
    read: RecordReader = names["read"]
    return read


def tuple_of(names: Sequence[str]) -> str:
    """The expression of a tuple."""
    return f"({' '.join(f'{name},' for name in names)})"


_END = """\
if at != len(data):
    raise ValueError("the record does not end with the bytes")"""

_UNION = """\
branch = data[at]
at += 1
if branch == {value_at}:
{value}
elif branch == {null_at}:
    {name} = None
else:
    raise ValueError("no branch of the union")"""


def _field(field: Field, name: str) -> str:
    value = _record(field, name) if field.type == "record" else _TYPES[field.type].replace("{name}", name)
    if field.null_at is None:
        return value
    # Branch 1 is written as the byte 2.
    places = {"null_at": 2 * field.null_at, "value_at": 2 - 2 * field.null_at}
    return _UNION.format(value=indent(value, "    "), name=name, **places)


def _record(record: Field, name: str) -> str:
    names = [f"{name}_{number}" for number in range(len(record.fields))]
    parts = [_field(field, inner) for field, inner in zip(record.fields, names, strict=True)]
    return "\n".join([*parts, f"{name} = {tuple_of(names)}"])


def _integer(bits: int) -> str:
    """The code for an integer: each byte has seven bits, and the highest says that another follows."""
    return "\n".join(["n = data[at]", *_following(1, bits), "{name} = n >> 1 ^ -(n & 1)"])


def _following(count: int, bits: int) -> list[str]:
    """What to do when so many bytes are in ``n``, seven bits each; the bit above says that another byte follows."""
    have = 7 * count
    if have >= bits:
        return [f"if n >= {1 << bits}:", "    raise ValueError('beyond the width')", f"at += {count}"]
    more = [f"n += (data[at + {count}] << {have}) - {1 << have}", *_following(count + 1, bits)]
    return [f"if n < {1 << have}:", f"    at += {count}", "else:", *(f"    {line}" for line in more)]


_BYTES = """\
n = data[at]
at += 1
if n > 127:
    n, at = varint(data, at, n)
if n & 1:
    raise ValueError("a length below zero")
end = at + (n >> 1)
{name} = data[at:end]
at = end"""


def varint(data: bytes, at: int, first: int) -> tuple[int, int]:
    """A length of several bytes after its first one, and the place after it."""
    number, have, last = first & 127, 7, first
    while last > 127:
        last = data[at]
        number |= (last & 127) << have
        at, have = at + 1, have + 7
        if have > _LONGEST:
            raise ValueError("beyond the width")
    return number, at


_BOOLEAN = """\
n = data[at]
at += 1
if n > 1:
    raise ValueError("no boolean")
{name} = n == 1"""

_FLOAT = """\
{{name}}, = float{bits}(data, at)
at += {size}"""

_TYPES = {
    "boolean": _BOOLEAN,
    "int": _integer(32),
    "long": _integer(64),
    "float": _FLOAT.format(bits=32, size=4),
    "double": _FLOAT.format(bits=64, size=8),
    "bytes": _BYTES,
    "string": _BYTES,
}
