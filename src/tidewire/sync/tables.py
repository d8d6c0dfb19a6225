"""Which tables are wanted: rules such as ``shop.*`` and ``!shop.tmp_*``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate

from tidewire.errors import OptionError
from tidewire.model import TableName


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
