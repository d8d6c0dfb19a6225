"""Documents written as TOML; the standard library only reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(document: Mapping[str, Any]) -> str:
    """A document of texts, whole numbers, truth values, lists and sections.

    >>> print(toml_text({"id": "feed", "config": {"rules": ["*.*"], "sink": {"protocol": "simple"}}}), end="")
    id = "feed"
    <BLANKLINE>
    [config]
    rules = ["*.*"]
    <BLANKLINE>
    [config.sink]
    protocol = "simple"
    """
    return "".join(f"{line}\n" for line in _lines(document, ()))


def _lines(section: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    for name, value in section.items():
        if not isinstance(value, Mapping):
            yield f"{_key(name)} = {_value(value)}"
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield ""
            yield f"[{'.'.join(map(_key, (*path, name)))}]"
            yield from _lines(value, (*path, name))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_value(item)}" for name, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    """A string in TOML, which is as in JSON except for one control character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
