"""How new tables are laid out in the target: the version of the format, partitions, and the order of rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tidewire.errors import OptionError

NUMBERED: Final = ("bucket", "truncate")
TIMES: Final = ("year", "month", "day", "hour")
IDENTITY: Final = "identity"

_FORM: Final = re.compile(r"(\w+)\(\s*(?:(\d{1,9})\s*,\s*)?(\S|\S.*\S)\s*\)")


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """A part of what says which partition a row belongs in: a column, and its transform as Iceberg writes it.

    >>> PartitionBy.parse("bucket(16, id)"), PartitionBy.parse("region")
    (PartitionBy(column='id', transform='bucket[16]'), PartitionBy(column='region', transform='identity'))
    """

    column: str
    transform: str = IDENTITY

    @classmethod
    def parse(cls, text: str, name: str = "partition") -> PartitionBy:
        """A transform that is written as a call, or a column; ``OptionError`` with ``name`` for anything else."""
        match = _FORM.fullmatch(text.strip())
        if match is None:
            if not text.strip() or "(" in text:
                raise OptionError(name, f"{text!r} is neither a column nor a transform such as bucket(16, id)")
            return cls(text.strip())
        kind, number, column = match.groups()
        if kind not in (*NUMBERED, *TIMES, IDENTITY):
            known = ", ".join((IDENTITY, *NUMBERED, *TIMES))
            raise OptionError(name, f"{text!r}: there is no transform {kind}; known are {known}")
        if (kind in NUMBERED) != bool(number and int(number)):
            form = f"{kind}(16, {column})" if kind in NUMBERED else f"{kind}({column})"
            raise OptionError(name, f"{text!r} is not of the form {form}")
        return cls(column, f"{kind}[{int(number)}]" if number else kind)

    @property
    def kind(self) -> str:
        """The name of the transform, without its number."""
        return self.transform.partition("[")[0]

    def __str__(self) -> str:
        number = self.transform.partition("[")[2].removesuffix("]")
        inside = f"{number}, {self.column}" if number else self.column
        return self.column if self.kind == IDENTITY else f"{self.kind}({inside})"


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What a rule says of the layout of new tables. What it does not say is ``None`` or empty.

    ``sort`` are the columns by which rows are ordered in files; without them it is the key.
    """

    format_version: int | None = None
    partition: tuple[PartitionBy, ...] = ()
    sort: tuple[str, ...] = ()

    def check_format(self, format_: str, place: str) -> None:
        """Raise :class:`OptionError` if a table format does not have what is asked for; ``place`` names the rule."""
        if format_ == "iceberg":
            return
        if self.format_version is not None:
            raise OptionError(
                f"{place}.format-version",
                f"only Iceberg's format has versions, and the format is {format_}: leave it out",
            )
        for each in self.partition:
            if each.kind != IDENTITY:
                raise OptionError(
                    f"{place}.partition",
                    f"{each}: {format_} has partitions by columns only, so name a column, or use Iceberg",
                )

    def spelled(self, names: Iterable[str]) -> TableOptions:
        """The options with the names of columns as a table spells them."""
        known = {name.lower(): name for name in names}
        partition = tuple(replace(each, column=known[each.column.lower()]) for each in self.partition)
        return replace(self, partition=partition, sort=tuple(known[name.lower()] for name in self.sort))

    def to_plain(self) -> dict[str, Any]:
        """The options as a document."""
        found = {
            "format-version": self.format_version,
            "partition": [str(each) for each in self.partition],
            "sort": list(self.sort),
        }
        return {name: value for name, value in found.items() if value}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> TableOptions:
        """The options of a document."""
        return cls(
            plain.get("format-version"),
            tuple(map(PartitionBy.parse, plain.get("partition", ()))),
            tuple(plain.get("sort", ())),
        )


NO_OPTIONS = TableOptions()


def repeated(names: Sequence[str]) -> Iterator[str]:
    """The names that came before, whatever the case of their letters."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            yield name
        seen.add(name.lower())
