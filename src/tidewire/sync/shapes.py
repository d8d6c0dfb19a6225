"""Table schemas in documents: each written once, and referred to by number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidewire.model import Bootstrap, TableSchema
from tidewire.plain import event_from_plain, event_to_plain


class Shapes:
    """The schemas of a document that is being written."""

    def __init__(self) -> None:
        self.plain: list[Any] = []
        self._numbers: dict[TableSchema, int] = {}

    def number(self, schema: TableSchema) -> int:
        """The number of a schema."""
        if schema not in self._numbers:
            self._numbers[schema] = len(self.plain)
            self.plain.append(schema_to_plain(schema))
        return self._numbers[schema]


def schemas_from_plain(plain: Iterable[Mapping[str, Any]]) -> list[TableSchema]:
    """The schemas by number."""
    return [schema_from_plain(shape) for shape in plain]


def schema_to_plain(schema: TableSchema) -> Any:
    """A schema as a dict that ``json`` can write."""
    return event_to_plain(Bootstrap(schema))["table_schema"]


def schema_from_plain(plain: Mapping[str, Any]) -> TableSchema:
    """The schema a dict stands for."""
    event = event_from_plain({"kind": "bootstrap", "table_schema": plain})
    assert isinstance(event, Bootstrap)
    return event.table_schema
