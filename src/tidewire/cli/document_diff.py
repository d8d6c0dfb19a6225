"""The differences between two documents, a line for each value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """The differences, by the paths of the values.

    >>> list(differences({"a": {"b": 1}, "c": [1]}, {"a": {"b": 2}, "d": "x"}))
    ['a.b: 1 -> 2', 'c: [1] -> nothing', 'd: nothing -> "x"']
    """
    before, after = dict(_values(old)), dict(_values(new))
    for path in {**before, **after}:
        if before.get(path) != after.get(path):
            yield f"{path}: {before.get(path, 'nothing')} -> {after.get(path, 'nothing')}"


def _values(document: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, value in document.items():
        place = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            yield from _values(value, place)
        else:
            yield place, json.dumps(value, ensure_ascii=False)
