"""Documents to dataclasses and back, by the types of the fields; problems are named by their paths."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from tidewire.changefeed.config.durations import Nanoseconds, parse_duration
from tidewire.secrets import MASK, Secret, SecretURI, redacted

Section = TypeVar("Section")
Naming: TypeAlias = Callable[[Field[Any]], tuple[str, ...]]
"""The names of a field in a document, the one for writing first; empty if documents do not have the field."""

_LARGEST = 2**64 - 1
_DIGITS = re.compile(r"[+-]?[0-9]{1,19}")


def toml_names(item: Field[Any]) -> tuple[str, ...]:
    """``file_index_digit`` is ``file-index-digit`` in a file."""
    return (item.name.replace("_", "-"),)


def json_names(item: Field[Any]) -> tuple[str, ...]:
    """The Open API has underscores, and names of its own for some keys."""
    names: tuple[str, ...] = item.metadata.get("json", (item.name,))
    return names


@dataclass(slots=True)
class Reader:
    """Overlays configurations with documents, and collects unknown keys and invalid values."""

    names: Naming
    scalars: Mapping[type, Callable[[Any], Any]]
    unknown: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def read(self, document: Mapping[str, Any], over: Section, path: str = "") -> Section:
        """``over`` with the keys that a document gives; lists are replaced as a whole."""
        items = dataclasses.fields(typing.cast("Any", over))
        known = {name: item for item in items for name in self.names(item)}
        changes, types_of = {}, hints(typing.cast("Any", type(over)))
        for name, value in document.items():
            place, item = f"{path}.{name}" if path else name, known.get(name)
            if item is None:
                self.unknown.append(place)
            elif value is not None:
                found = self._value(types_of[item.name], value, getattr(over, item.name), place)
                least = item.metadata.get("least")
                if least is not None and isinstance(found, int) and found < least:
                    self.problems.append(f"{place} must be at least {least}, not {found}")
                changes[item.name] = found
        return dataclasses.replace(typing.cast("Any", over), **changes)  # type: ignore[no-any-return]

    def _value(self, hint: Any, value: Any, current: Any, path: str) -> Any:
        hint = without_none(hint)
        if typing.get_origin(hint) is tuple:
            return self._list(typing.get_args(hint)[0], value, path)
        if is_dataclass(hint):
            if isinstance(value, Mapping):
                return self.read(value, hint() if current is None else current, path)  # type: ignore[operator]
            self.problems.append(f"{path} must be a section, not {kind_of(value)}")
            return current
        try:
            return self.scalars[hint](value)
        except ValueError as error:
            self.problems.append(f"{path} {error}")
            return current

    def _list(self, hint: Any, value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            self.problems.append(f"{path} must be a list, not {kind_of(value)}")
            return ()
        return tuple(self._value(hint, item, None, f"{path}[{number}]") for number, item in enumerate(value))


@lru_cache
def hints(section: type[object]) -> Mapping[str, Any]:
    """The types of a section's fields."""
    return typing.get_type_hints(section)


def without_none(hint: Any) -> Any:
    """The type of a value that may be missing."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = (part for part in typing.get_args(hint) if part is not type(None))
    return hint


def kind_of(value: Any) -> str:
    """The kind of a value, not the value itself: it may be a password in the wrong place."""
    return _KINDS.get(type(value), f"a {type(value).__name__}")


_KINDS: Mapping[type, str] = {
    bool: "a truth value",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a section",
    type(None): "null",
}


def _checked(kind: type, words: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"must be {words}, not {kind_of(value)}")
        return value

    return check


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"must be a whole number, not {kind_of(value)}")
    if not -(2**63) <= value <= _LARGEST:
        raise ValueError(f"must be a number of 64 bits, not {value}")
    return value


def _duration(value: Any) -> Nanoseconds:
    if type(value) is int or (type(value) is float and value.is_integer()):
        return Nanoseconds(value)
    if not isinstance(value, str):
        raise ValueError(f"must be a duration such as 10m, or nanoseconds, not {kind_of(value)}")
    return parse_duration(value)


_text = _checked(str, "text")

VALUES: Mapping[type, Callable[[Any], Any]] = {
    bool: _checked(bool, "true or false"),
    int: _whole,
    str: _text,
    Secret: lambda value: Secret(_text(value)),
    SecretURI: lambda value: SecretURI(_text(value)),
    Nanoseconds: _duration,
}
"""How to read values of typed documents: TOML, JSON."""

_WORDS: Mapping[str, bool] = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def bool_of(text: str) -> bool:
    """A truth value from one of the words that Go accepts."""
    if text not in _WORDS:
        raise ValueError(f"must be true or false, not {text!r}")
    return _WORDS[text]


def int_of(text: str) -> int:
    """A whole number from decimal digits."""
    if not _DIGITS.fullmatch(text):
        raise ValueError(f"must be a whole number, not {text!r}")
    return int(text)


TEXTS: Mapping[type, Callable[[Any], Any]] = {
    bool: bool_of,
    int: int_of,
    str: str,
    Secret: Secret,
    SecretURI: SecretURI,
    Nanoseconds: parse_duration,
}
"""How to read values of documents in which everything is text: URIs."""


def written(section: Any, names: Naming, redact: bool = False) -> dict[str, Any]:
    """A section as a document, without keys that were not given."""
    named = ((names(item)[:1], getattr(section, item.name), item.default) for item in dataclasses.fields(section))
    return {
        name: _written(value, names, redact)
        for first, value, default in named
        for name in first
        if value is not None and not (value in ("", ()) and default in ("", ()))
    }


def _written(value: Any, names: Naming, redact: bool) -> Any:
    if is_dataclass(value):
        return written(value, names, redact)
    if isinstance(value, tuple):
        return [_written(item, names, redact) for item in value]
    for kind, plain in (_REDACTED if redact else _PLAIN).items():
        if isinstance(value, kind):
            return plain(value)
    return value


_PLAIN: Mapping[type, Callable[[Any], Any]] = {Secret: str.__str__, SecretURI: str.__str__, Nanoseconds: int.__int__}
_REDACTED: Mapping[type, Callable[[Any], Any]] = {
    **_PLAIN,
    Secret: lambda value: MASK if value else "",
    SecretURI: redacted,
}


def listed(paths: Iterable[str]) -> str:
    """Paths in a sentence."""
    return ", ".join(sorted(paths))


def unmasked(given: Section, current: Section) -> Section:
    """``given`` with the secrets of ``current`` where it has only their masks, as users were shown it."""
    changes: dict[str, Any] = {}
    for item in fields(given):  # type: ignore[arg-type]
        new, old = getattr(given, item.name), getattr(current, item.name)
        if old is None or new is None:
            continue
        if is_dataclass(new):
            changes[item.name] = unmasked(new, old)
        elif isinstance(new, Secret | SecretURI):
            changes[item.name] = unmasked_uri(new, old) if isinstance(new, SecretURI) else _unmasked_secret(new, old)
    return replace(given, **changes)  # type: ignore[type-var]


def unmasked_uri(given: str, current: str) -> str:
    """The given URI; the current one if the given one is its redacted form."""
    return current if given == redacted(current) else given


def _unmasked_secret(given: Secret, current: Secret) -> Secret:
    return current if given == MASK else given
