"""SQL functions over JSON documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from tidewire.dispatch.expression.operators import strict
from tidewire.dispatch.expression.values import Function, Json, Sql, Text, json_text, text_of

_STEP = re.compile(r"""\s*(?:\.\s*(?:([A-Za-z_$][\w$]*)|"((?:[^"\\]|\\.)*)"|(\*))|\[\s*(?:(\d+)|(\*))\s*\])""")


class PathError(ValueError):
    """A text is not a JSON path."""


@lru_cache(maxsize=256)
def steps(path: str) -> Sequence[str | int | None]:
    """The steps of a path: names, array indexes, and ``None`` for a wildcard.

    >>> steps('$.a[0]."b c"')
    ('a', 0, 'b c')
    """
    text, at, found = path.strip(), 1, []
    if not text.startswith("$"):
        raise PathError(f"the JSON path {path!r} does not begin with $")
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            raise PathError(f"the JSON path {path!r} cannot be read at character {at}")
        name, quoted, _, place, _ = step.groups()
        named = json.loads(f'"{quoted}"') if quoted is not None else name
        found.append(int(place) if place is not None else named)
        at = step.end()
    return tuple(found)


def _walk(value: Any, path: Sequence[str | int | None]) -> Iterator[Any]:
    if not path:
        yield value
        return
    step, rest = path[0], path[1:]
    match step, value:
        case str(), dict() if step in value:
            yield from _walk(value[step], rest)
        case int(), list() if step < len(value):
            yield from _walk(value[step], rest)
        case 0, _ if not isinstance(value, list):
            yield from _walk(value, rest)
        case None, dict() | list():
            for item in value.values() if isinstance(value, dict) else value:
                yield from _walk(item, rest)


def _document(value: Sql) -> Any:
    return value.value if isinstance(value, Json) else json.loads(text_of(value).text)


@strict
def extract(document: Sql, *paths: Sql) -> Sql:
    """JSON_EXTRACT and ``->``: the value at a path; an array if several may match; NULL if none does."""
    try:
        whole, read = _document(document), [steps(text_of(path).text) for path in paths]
    except ValueError:
        return None
    found = [value for path in read for value in _walk(whole, path)]
    if not found:
        return None
    return Json(found if len(read) > 1 or None in read[0] else found[0])


@strict
def unquoted(value: Sql) -> Sql:
    """JSON_UNQUOTE: a text of a document without its quotes."""
    if isinstance(value, Json):
        return Text(value.value if isinstance(value.value, str) else json_text(value.value))
    text = text_of(value).text
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    try:
        return Text(str(json.loads(text))) if quoted else text_of(value)
    except ValueError:
        return None


def extract_unquoted(document: Sql, path: Sql) -> Sql:
    """``->>``."""
    return unquoted(extract(document, path))


FUNCTIONS: Mapping[str, tuple[Function, int, int]] = {
    "JSON_EXTRACT": (extract, 2, 99),
    "JSON_UNQUOTE": (unquoted, 1, 1),
}
"""Each function with the fewest and the most arguments it takes."""
