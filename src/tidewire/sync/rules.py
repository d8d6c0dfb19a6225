"""Rules about tables: which are followed, what they become in the target, and which of their values are masked."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import translate
from functools import lru_cache
from typing import Any

from tidewire.ddl.defaults import fill
from tidewire.errors import OptionError
from tidewire.model import Column, EnumValue, SetValue, TableName, TableSchema, Value
from tidewire.plain import value_to_plain
from tidewire.sync.policies import ChangeKind, DdlPolicy
from tidewire.sync.steps import Adopt, Alter, Create, Drop, Fill, Merge, Rename, SetAside, Step, Truncate
from tidewire.sync.table_options import NO_OPTIONS, TableOptions


def wanted_by(rules: Sequence[str]) -> Callable[[TableName], bool]:
    """A test of names: the last rule that matches decides; without rules every table is wanted.

    >>> wants = wanted_by(["shop.*", "!shop.tmp_*"])
    >>> wants(TableName("shop", "orders")), wants(TableName("shop", "tmp_1")), wants(TableName("test", "a"))
    (True, False, False)
    """
    parsed = [_rule(rule) for rule in rules]

    def wants(name: TableName) -> bool:
        schema, table = name.folded
        verdicts = [positive for positive, schemas, tables in parsed if schemas.match(schema) and tables.match(table)]
        return verdicts[-1] if verdicts else not parsed

    return wants


def _rule(rule: str) -> tuple[bool, re.Pattern[str], re.Pattern[str]]:
    positive = not rule.startswith("!")
    schema, dot, table = rule.removeprefix("!").partition(".")
    if not (schema and dot and table):
        raise OptionError("tables", f"{rule!r} is not of the form schema.table, with * for any text")
    return positive, re.compile(translate(schema.lower())), re.compile(translate(table.lower()))


class Mask(StrEnum):
    """What becomes of a column's values."""

    HASH = "hash"
    REDACT = "redact"
    DROP = "drop"


def hashed(value: Value, salt: str = "") -> str | None:
    """SHA-256 of the salt and the value's bytes or canonical text, as hexadecimal digits; NULL stays NULL.

    >>> hashed(7) == hashed("7"), hashed("7") == hashed("7", "salt")
    (True, False)
    """
    if value is None:
        return None
    return hashlib.sha256(salt.encode() + _content(value)).hexdigest()


def _content(value: Value) -> bytes:
    match value:
        case bytes():
            return value
        case EnumValue(index, text) | SetValue(index, text):
            return (str(index) if text is None else text).encode()
        case _:
            return str(value_to_plain(value)).encode()


def redaction(column: Column) -> str | bytes | None:
    """What stands in place of every value, as on the wire: NULL, or MySQL's zero where NULL is not allowed."""
    return fill(replace(column, default=None))


def masked_column(column: Column, mask: Mask, salt: str = "") -> Column:
    """The column of masked values: a hash is text, a redacted value has its column's type."""
    if mask is not Mask.HASH:
        return replace(column, default=None)
    text = Column.of(column.name, "varchar(64)", nullable=column.nullable)
    return replace(
        text,
        handle_key=column.handle_key,
        primary_key=column.primary_key,
        nullable=column.nullable,
        charset="ascii",
        default=hashed(_default(column), salt),
        id=column.id,
    )


def _default(column: Column) -> str | bytes | None:
    try:
        return None if column.default is None else fill(column)
    except ValueError:
        return None


def masked_fill(value: str | bytes | None, column: Column, mask: Mask, salt: str = "") -> str | bytes | None:
    """What existing rows get in place of a new column's default."""
    return hashed(value, salt) if mask is Mask.HASH else redaction(column)


Route = Callable[[TableName], TableName]


def routed(step: Step, route: Route) -> Step:
    """A step with the target's names for those of the upstream."""
    found: Step = _ROUTED[type(step)](step, route)
    return found


def routed_table(table: TableSchema, route: Route) -> TableSchema:
    """A table under its name in the target."""
    return replace(table, name=route(table.name))


def _table(step: Any, route: Route) -> Step:
    found: Step = replace(step, table=routed_table(step.table, route))
    return found


def _drop(step: Drop, route: Route) -> Step:
    return replace(step, name=route(step.name))


def _rename(step: Rename, route: Route) -> Step:
    moves = ((route(old), route(new)) for old, new in step.moves)
    return replace(step, moves=tuple(move for move in moves if move[0] != move[1]))


def _alter(step: Alter, route: Route) -> Step:
    return replace(step, before=routed_table(step.before, route), after=routed_table(step.after, route))


_ROUTED: Mapping[type, Callable[[Any, Route], Step]] = {
    Merge: _table,
    Fill: _table,
    Create: _table,
    Adopt: _table,
    Truncate: _table,
    Drop: _drop,
    Rename: _rename,
    Alter: _alter,
    SetAside: lambda step, route: step,
}


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
    options: TableOptions = NO_OPTIONS

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
        """What a table of the upstream is called in the target; tidewire's own tables keep their names."""
        rule = self.of(name)
        if rule.to is None or name.schema == OWN:
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
        """A column as its target has it, nothing if it has none."""
        rule = self.of(name)
        mask = rule.of(column.name)
        if mask is None:
            return column
        if column.handle_key and mask is not Mask.HASH:
            raise OptionError(
                f"{rule.place}.{_said(rule, column.name)}",
                f"{column.name} is in the key of {name}, so it can only be masked with hash: otherwise different rows "
                "would get the same key",
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
                    "options": rule.options.to_plain(),
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
                    TableOptions.from_plain(rule.get("options", {})),
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


def _listed(parts: Sequence[object]) -> str:
    return ", ".join(map(str, parts))


def broken_promises(
    old: Rules,
    new: Rules,
    tables: Sequence[TableSchema],
    mode: Callable[[Rules, TableName], str],
    staged: Sequence[TableSchema] = (),
) -> list[str]:
    """What the new rules say otherwise of tables that are made already, in words.

    Of ``staged`` tables only rows are kept so far, so how they are laid out can still change.
    """
    found = []
    for table in (*tables, *staged):
        name = table.name
        was, will_be = (NO_OPTIONS if table in staged else rules.of(name).options for rules in (old, new))
        for what, before, now in (
            ("name in the target", str(old.route(name)), str(new.route(name))),
            ("mode", mode(old, name), mode(new, name)),
            ("partition", _listed(was.partition), _listed(will_be.partition)),
            ("sort", _listed(was.sort), _listed(will_be.sort)),
            *(
                (f"mask of {column.name}", old.of(name).of(column.name), new.of(name).of(column.name))
                for column in table.columns
            ),
        ):
            if before != now:
                found.append(f"{name}: its {what} is {before or 'none'}, and would be {now or 'none'}")
    return found
