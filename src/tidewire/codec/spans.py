"""Where each part of a JSON text stands: the inspectors' ruler."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

from tidewire.codec.base import Field
from tidewire.codec.jsontext import member_path
from tidewire.model.tso import to_datetime

_TOKEN = re.compile(
    rb'\s*+(?:(?P<open>[{\[])|(?P<close>[}\]])|(?P<comma>,)|(?P<scalar>"(?:[^"\\]++|\\.)*+"|[^\s{}\[\],:"]++))'
)
_COLON = re.compile(rb"\s*+:")
_DEEPEST = 100

Explain = Callable[[str, Any], str]
"""Path and value of a scalar to its meaning."""


def json_fields(data: bytes, part: str, base: int, explain: Explain) -> Iterator[Field]:
    """Every byte of a JSON text in order: one field per member, with the comma before it, one per bracket that closes.

    What cannot be read, or is nested too deeply to be read by people, is one last field.
    """
    path: list[tuple[str, int | None]] = []
    at = start = 0
    name: str | None = None

    def here() -> str:
        parent, index = path[-1] if path else ("$", None)
        if name is not None:
            return member_path(parent, name)
        return parent if index is None else f"{parent}[{index}]"

    while len(path) <= _DEEPEST and (match := _TOKEN.match(data, at)) is not None:
        at = match.end()
        in_object = bool(path) and path[-1][1] is None
        if match["comma"]:
            if path and path[-1][1] is not None:
                path[-1] = (path[-1][0], path[-1][1] + 1)
            continue
        if match["close"]:
            meaning, where = "", f"end of {path.pop()[0]}" if path else "end of nothing"
        elif match["scalar"] and in_object and name is None and (colon := _COLON.match(data, at)) is not None:
            name, at = _string(match["scalar"]), colon.end()
            continue
        else:
            where = here()
            meaning = _meaning(match, where, explain)
            if match["open"]:
                path.append((where, None if match["open"] == b"{" else 0))
            name = None
        yield Field(part, base + start, data[start:at], where, meaning)
        start = at
    if start < len(data):
        yield Field(part, base + start, data[start:], "?", "not JSON, or nested too deeply, from here on")


def _string(token: bytes) -> str:
    try:
        return str(json.loads(token.decode("utf-8", "surrogateescape")))
    except ValueError:
        return token.decode("utf-8", "replace")


def _meaning(match: re.Match[bytes], where: str, explain: Explain) -> str:
    if match["open"]:
        return "object" if match["open"] == b"{" else "array"
    try:
        value = json.loads(match["scalar"].decode("utf-8", "surrogateescape"))
    except ValueError:
        return "not a JSON value"
    return explain(where, value)


def moment(tso: int) -> str:
    """The time of a TSO, as people read it. In a broken message the number need not be a valid TSO."""
    try:
        return f"{to_datetime(tso):%Y-%m-%d %H:%M:%S.%f} UTC"
    except OverflowError:
        return "at no possible time"


def name_of(enum: type[IntEnum], code: Any) -> str:
    """The name behind a number, or the number where it has none."""
    return enum(code).name if code in set(enum) else str(code)
