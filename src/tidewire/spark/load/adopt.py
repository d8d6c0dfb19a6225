"""Tables that another program loaded at a known moment: do they fit the tables of the upstream?"""

from __future__ import annotations

from collections.abc import Iterator

from tidewire.arrow.policy import Policy
from tidewire.errors import LoadError
from tidewire.model import TableName, TableSchema
from tidewire.spark.apply import Mode
from tidewire.spark.apply.modes import LAYOUTS
from tidewire.spark.job import Job
from tidewire.spark.targets import Adoptable, Target, quoted
from tidewire.sync.catalogue import stored


def check_adoptable(target: Target, table: TableSchema, job: Job) -> None:
    """Raise :class:`LoadError` if a table cannot be taken over, with all that differs, in one line."""
    name = job.rules.route(table.name)
    found = target.adoptable(name)
    if found is None:
        raise LoadError(f"there is no table {name} in {target.uri} to adopt")
    if job.rules.masks(table):
        raise LoadError(f"{table.name} cannot be adopted: a rule masks its columns, and its rows are there already")
    wrong = list(differences(found, table, job.mode_of(table.name), Policy(job.time_zone)))
    if not wrong:
        wrong = list(_bad_keys(target, found, name, table))
    if wrong:
        raise LoadError(f"{table.name} cannot be adopted: {'; '.join(wrong)}")


def differences(found: Adoptable, table: TableSchema, mode: Mode, policy: Policy) -> Iterator[str]:
    """How a table differs from what the sync would have made."""
    if found.problem is not None:
        yield found.problem
    wanted = LAYOUTS[mode].fields(stored(table), policy)
    types = {field.name.lower(): field.type for field in found.fields}
    for field in wanted:
        type_ = types.get(field.name.lower())
        if type_ is None:
            yield f"it lacks column {field.name} ({field.type})"
        elif type_ != field.type:
            yield f"column {field.name} is of type {type_}, not {field.type}"
    names = [field.name.lower() for field in wanted]
    for field in found.fields:
        if field.name.lower() not in names:
            yield f"it has a column {field.name} too many"
    there = [field.name.lower() for field in found.fields]
    if sorted(there) == sorted(names) and there != names:
        yield f"its columns are in the order {', '.join(there)}, not {', '.join(names)}"
    required = {name.lower() for name in found.required}
    for column in table.columns:
        if column.nullable and column.name.lower() in required:
            yield f"column {column.name} cannot be NULL there"
    key = {name.lower() for name in table.handle_key}
    if found.key and {name.lower() for name in found.key} != key:
        yield f"its key is {', '.join(found.key)}, not {', '.join(table.handle_key)}"


def _bad_keys(target: Target, found: Adoptable, name: TableName, table: TableSchema) -> Iterator[str]:
    """Rows that a key does not tell apart."""
    key = ", ".join(quoted(column) for column in table.handle_key)
    if not key:
        return
    session = target.session()
    groups = f"SELECT count(*) AS n FROM {found.relation} GROUP BY {key} HAVING count(*) > 1 LIMIT 1"
    if session.sql(groups).head(1):
        yield f"it has several rows with one key ({', '.join(table.handle_key)})"
    nulls = " OR ".join(f"{quoted(column)} IS NULL" for column in table.handle_key)
    if session.sql(f"SELECT 1 AS n FROM {found.relation} WHERE {nulls} LIMIT 1").head(1):
        yield f"it has rows whose key ({', '.join(table.handle_key)}) is NULL"
