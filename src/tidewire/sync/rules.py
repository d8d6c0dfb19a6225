"""Rules about tables: which are followed, what they become in the target, and which of their values are masked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import lru_cache
from typing import Any

from tidewire.errors import OptionError
from tidewire.model import Column, TableName, TableSchema
from tidewire.sync.masks import Mask, hashed, masked_column, masked_fill
from tidewire.sync.policy import ChangeKind, DdlPolicy
from tidewire.sync.tables import wanted_by

OWN = "_tidewire"
"""How the names of databases begin that are tidewire's own."""


@dataclass(frozen=True, slots=True)
class TableRule:
    """What is said of the tables whose names match; ``place`` says where it is said."""

    place: str = "tables"
    match: tuple[str, ...] = ()
    to: str | None = None
    mode: str | None = None
    columns: tuple[str, ...] = ()
    mask: Mapping[str, Mask] = field(default_factory=dict, hash=False)
    ddl: Mapping[ChangeKind, DdlPolicy] = field(default_factory=dict, hash=False)

    def of(self, column: str) -> Mask | None:
        """What becomes of a column; the last pattern that matches decides, and one that is not selected is dropped."""
        selected = [not rule.startswith("!") for rule in self.columns if _matches(rule.removeprefix("!"), column)]
        if self.columns and not (selected and selected[-1]):
            return Mask.DROP
        masks = [mask for pattern, mask in self.mask.items() if _matches(pattern, column)]
        return masks[-1] if masks else None


_NO_RULE = TableRule()
_PLACEHOLDER = re.compile(r"\{(schema|table)\}")


def _matches(pattern: str, name: str) -> bool:
    return _compiled(pattern.lower()).match(name.lower()) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))


_tested = lru_cache(maxsize=1024)(wanted_by)


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of a sync. ``follow`` says which tables are followed; of ``tables`` the first that matches counts."""

    follow: tuple[str, ...] = ()
    tables: tuple[TableRule, ...] = ()
    ddl: Mapping[ChangeKind, DdlPolicy] = field(default_factory=dict, hash=False)
    salt: str = field(default="", repr=False)

    def wants(self, name: TableName) -> bool:
        """Is a table to be followed?"""
        return _tested(self.follow)(name)

    def of(self, name: TableName) -> TableRule:
        """The rule about a table."""
        return next((rule for rule in self.tables if _tested(rule.match)(name)), _NO_RULE)

    def route(self, name: TableName) -> TableName:
        """What a table of the upstream is called in the target."""
        rule = self.of(name)
        if rule.to is None:
            return name
        schema, _, table = rule.to.partition(".")
        return TableName(
            *(_PLACEHOLDER.sub(lambda found: str(getattr(name, found[1])), part) for part in (schema, table))
        )

    def mode(self, name: TableName, otherwise: str) -> str:
        """The mode a table is kept in."""
        return self.of(name).mode or otherwise

    def policy(self, name: TableName, kind: ChangeKind) -> DdlPolicy:
        """What is done about a kind of DDL of a table."""
        return self.of(name).ddl.get(kind) or self.ddl.get(kind, DdlPolicy.EVOLVE)

    # Columns

    def masks(self, table: TableSchema) -> dict[str, Mask]:
        """The columns of a table that are masked."""
        rule = self.of(table.name)
        if not rule.columns and not rule.mask:
            return {}
        found = {column.name: rule.of(column.name) for column in table.columns}
        return {name: mask for name, mask in found.items() if mask is not None}

    def masked(self, table: TableSchema) -> TableSchema:
        """A table as its target has it; :class:`OptionError` where its rows could not be told apart any more."""
        if not self.masks(table):
            return table
        columns = tuple(
            found for column in table.columns if (found := self.masked_column(table.name, column)) is not None
        )
        names = {column.name for column in columns}
        indexes = tuple(index for index in table.indexes if names.issuperset(index.columns))
        return replace(table, columns=columns, indexes=indexes)

    def masked_column(self, name: TableName, column: Column) -> Column | None:
        """A column as its target has it, nothing where it has none."""
        rule = self.of(name)
        mask = rule.of(column.name)
        if mask is None:
            return column
        if column.handle_key and mask is not Mask.HASH:
            raise OptionError(
                f"{rule.place}.{_said(rule, column.name)}",
                f"{column.name} is in the key of {name}, so its rows would be one; a key can be hashed",
            )
        return None if mask is Mask.DROP else masked_column(column, mask, self.salt)

    def masked_fill(self, name: TableName, column: Column, value: str | bytes | None) -> str | bytes | None:
        """What existing rows get in a new column."""
        mask = self.of(name).of(column.name)
        return value if mask is None else masked_fill(value, column, mask, self.salt)

    # Documents

    def to_plain(self) -> dict[str, Any]:
        """The rules as a document, with a proof of the salt in place of the salt."""
        return {
            "follow": list(self.follow),
            "ddl": {str(kind): str(policy) for kind, policy in self.ddl.items()},
            "salt": self.proof,
            "tables": [
                {
                    "place": rule.place,
                    "match": list(rule.match),
                    "to": rule.to,
                    "mode": rule.mode,
                    "columns": list(rule.columns),
                    "mask": {column: str(mask) for column, mask in rule.mask.items()},
                    "ddl": {str(kind): str(policy) for kind, policy in rule.ddl.items()},
                }
                for rule in self.tables
            ],
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], salt: str = "") -> Rules:
        """The rules of a document."""
        return cls(
            tuple(plain["follow"]),
            tuple(
                TableRule(
                    rule["place"],
                    tuple(rule["match"]),
                    rule["to"],
                    rule["mode"],
                    tuple(rule["columns"]),
                    {column: Mask(mask) for column, mask in rule["mask"].items()},
                    _policies(rule["ddl"]),
                )
                for rule in plain["tables"]
            ),
            _policies(plain["ddl"]),
            salt,
        )

    @property
    def hashes(self) -> bool:
        """Is there a column whose values are hashed?"""
        return any(Mask.HASH in rule.mask.values() for rule in self.tables)

    @property
    def proof(self) -> str:
        """What tells one salt from another without telling it."""
        return (hashed("which salt is it?", self.salt) or "")[:16]


def _policies(plain: Mapping[str, str]) -> dict[ChangeKind, DdlPolicy]:
    return {ChangeKind(kind): DdlPolicy(policy) for kind, policy in plain.items()}


def _said(rule: TableRule, column: str) -> str:
    """Where a rule says that a column is masked."""
    pattern = next((pattern for pattern in reversed(list(rule.mask)) if _matches(pattern, column)), None)
    return "columns" if pattern is None else f"mask.{pattern}"


def broken_promises(
    old: Rules, new: Rules, tables: Sequence[TableSchema], mode: Callable[[Rules, TableName], str]
) -> list[str]:
    """What the new rules say otherwise of tables that are made already, in words."""
    found = []
    for table in tables:
        name = table.name
        for what, before, now in (
            ("name in the target", str(old.route(name)), str(new.route(name))),
            ("mode", mode(old, name), mode(new, name)),
            *(
                (f"mask of {column.name}", old.of(name).of(column.name), new.of(name).of(column.name))
                for column in table.columns
            ),
        ):
            if before != now:
                found.append(f"{name}: its {what} is {before or 'none'}, and would be {now or 'none'}")
    return found
