"""A TOML document, read strictly: every value has its type, every mistake its path, and secrets stay secret.

Without an environment no variables are filled in: values that a program gives are meant as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from tidewire.errors import OptionError, known_names
from tidewire.secrets import is_secret, scrubbed, secrets_in_uri

VARIABLE = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

_MORE = re.compile(r"sasl(?![-_.]mechanism$)|(^|\.)key$", re.IGNORECASE)

Word = TypeVar("Word", bound=StrEnum)


def _is_secret(name: str) -> bool:
    """Is the value of a setting secret? All values of a source's SASL and key settings are."""
    return is_secret(name) or bool(_MORE.search(name))


@dataclass(slots=True)
class Secrets:
    """Texts that are never printed."""

    texts: set[str] = field(default_factory=set, repr=False)

    def add(self, name: str, text: str) -> None:
        """Look for secrets in the value of a setting."""
        if _is_secret(name) and text:
            self.texts.add(text)
        if "://" in text:
            self.texts |= {*secrets_in_uri(text, _is_secret)} - {""}

    def hide(self, text: str) -> str:
        """A text without the secrets."""
        return scrubbed(text, self.texts)


def without_secrets(uri: str) -> str:
    """A URI with its secrets hidden."""
    secrets = Secrets()
    secrets.add("uri", uri)
    return secrets.hide(uri)


class Section:
    """One table of the document. What is taken out of it is known; what is left over in the end is a mistake."""

    def __init__(
        self, values: Mapping[str, Any], path: str, environment: Mapping[str, str] | None, secrets: Secrets
    ) -> None:
        self._values = dict(values)
        self._known: list[str] = []
        self._environment = environment
        self._secrets = secrets
        self.path = path

    def at(self, name: str | int) -> str:
        """The path of a value."""
        if isinstance(name, int):
            return f"{self.path}[{name}]"
        return f"{self.path}.{name}" if self.path else name

    def look(self, name: str) -> Any:
        """A value as it is written, ``None`` if it is missing; it can still be read in the form it has."""
        return self._values.get(name)

    def _take(self, name: str) -> Any:
        self._known.append(name)
        return self._values.pop(name, None)

    def text(self, name: str) -> str | None:
        """A text."""
        value = self._take(name)
        return None if value is None else self._text(value, self.at(name))

    def number(self, name: str, least: int = 0) -> int | None:
        """A whole number."""
        value = self._plain(name)
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)
        if value is not None and (type(value) is not int or value < least):
            raise OptionError(self.at(name), f"must be a whole number from {least} on, not {_kind(value)}")
        return value

    def flag(self, name: str) -> bool | None:
        """A truth value."""
        value = self._plain(name)
        found = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
        if found is not None and type(found) is not bool:
            raise OptionError(self.at(name), f"must be true or false, not {_kind(value)}")
        return found

    def word(self, name: str, words: Collection[str]) -> str | None:
        """One of some words."""
        value = self._take(name)
        found = None if value is None else self._filled(value, self.at(name))
        if found is not None and found not in words:
            raise OptionError(self.at(name), f"must be one of {', '.join(words)}, not {found!r}")
        return found

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; one text is a list of one."""
        value = self._take(name)
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list | tuple | None):
            raise OptionError(self.at(name), f"must be a list of texts, not {_kind(value)}")
        return tuple(self._text(each, f"{self.at(name)}[{number}]") for number, each in enumerate(value or ()))

    def section(self, name: str) -> Section:
        """A table of its own; an empty one if it is missing."""
        value = self._take(name)
        if not isinstance(value, Mapping | None):
            raise OptionError(self.at(name), f"must be a table, not {_kind(value)}")
        return self._below(value or {}, self.at(name))

    def sections(self, name: str) -> list[Section]:
        """A list of tables."""
        value = self._take(name)
        if not isinstance(value, list | tuple | None) or not all(isinstance(each, Mapping) for each in value or ()):
            raise OptionError(self.at(name), "must be a list of tables: [[" + name + "]]")
        return [self._below(each, f"{self.at(name)}[{number}]") for number, each in enumerate(value or ())]

    def words(self, kinds: Callable[[str, str], str], words: type[Word]) -> dict[str, Word]:
        """Everything that is left, as words by the names ``kinds`` makes of theirs."""
        return {kinds(name, self.at(name)): words(self.word(name, list(words)) or "") for name in list(self._values)}

    def settings(self) -> dict[str, str]:
        """Everything that is left, as texts; tables within are names with dots."""
        return dict(self._flat())

    def written(self) -> dict[str, str]:
        """Everything that is left, as :meth:`settings` would give it, but with variables as they are written."""
        found = dict(_written(self._values))
        if self._environment is None:
            return {name: text.replace("${", "$${") for name, text in found.items()}
        return found

    def tables(self) -> list[tuple[str, Section]]:
        """Everything that is left, as tables by their names."""
        return [(name, self.section(name)) for name in list(self._values)]

    def _flat(self) -> Iterator[tuple[str, str]]:
        for name in list(self._values):
            value = self._values[name]
            if isinstance(value, Mapping):
                yield from ((f"{name}.{below}", text) for below, text in self.section(name)._flat())
            elif isinstance(value, list | tuple):
                yield name, ",".join(self.texts(name))
            else:
                yield name, self._scalar(name)

    def _scalar(self, name: str) -> str:
        value = self._take(name)
        if isinstance(value, bool):
            return str(value).lower()
        return str(value) if isinstance(value, int | float) else self._text(value, self.at(name))

    def finish(self) -> None:
        """Refuse settings that do not exist."""
        for name in self._values:
            raise OptionError(self.at(name), f"{name!r} is not a setting of a sync; {known_names(name, self._known)}")

    def _below(self, values: Mapping[str, Any], path: str) -> Section:
        return Section(values, path, self._environment, self._secrets)

    def _plain(self, name: str) -> Any:
        value = self._take(name)
        return self._text(value, self.at(name)) if isinstance(value, str) else value

    def _text(self, value: Any, path: str) -> str:
        text = self._filled(value, path)
        self._secrets.add(path, text)
        return text

    def _filled(self, value: Any, path: str) -> str:
        """A text with its variables filled in."""
        if not isinstance(value, str):
            raise OptionError(path, f"must be a text, not {_kind(value)}")
        if self._environment is None:
            return value
        return filled(value, path, self._environment, self._secrets)


def _written(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _written(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            yield f"{prefix}{name}", ",".join(map(str, value))
        else:
            yield f"{prefix}{name}", str(value).lower() if isinstance(value, bool) else str(value)


def filled(text: str, path: str, environment: Mapping[str, str], secrets: Secrets | None = None) -> str:
    """A text with its variables filled in. What variables hold counts as secret."""

    def found(variable: re.Match[str]) -> str:
        if variable[1]:
            return variable[1]
        if variable[2] not in environment:
            raise OptionError(path, f"there is no environment variable {variable[2]}")
        content = environment[variable[2]]
        if secrets is not None:
            secrets.texts |= {content} - {""}
        return content

    return VARIABLE.sub(found, text)


def _kind(value: Any) -> str:
    """What a value is, without telling it: it may be a password in the wrong place."""
    kinds = {
        bool: "a truth value",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        tuple: "a list",
        dict: "a table",
    }
    return kinds.get(type(value), f"a {type(value).__name__}")
