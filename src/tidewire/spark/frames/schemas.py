"""The schemas that a topic needs, so that its parts can be read independently."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidewire.errors import OptionError
from tidewire.model import Bootstrap, TableSchema
from tidewire.plain import event_from_plain, event_to_plain


@dataclass(frozen=True)
class Schemas:
    """The schemas that the messages of a topic need.

    ``tables`` are those of Simple, which sends them in messages of their own; ``texts`` those of Avro, by their id in
    the registry. They can be pickled, kept as JSON, and joined with those of another topic or a later day by ``|``.
    """

    tables: tuple[TableSchema, ...] = ()
    texts: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tables) + len(self.texts)

    def __or__(self, other: Schemas) -> Schemas:
        """These schemas and others; of two with the same id or version the left one wins."""
        return Schemas(tuple(dict.fromkeys((*self.tables, *other.tables))), {**other.texts, **self.texts})

    def to_json(self) -> str:
        """The schemas as JSON text."""
        tables = [event_to_plain(Bootstrap(table))["table_schema"] for table in self.tables]
        return json.dumps({"tables": tables, "texts": {str(id_): text for id_, text in self.texts.items()}})

    @classmethod
    def from_json(cls, text: str) -> Schemas:
        """The schemas of such a text; :class:`~tidewire.OptionError` if it holds something else."""
        try:
            found = json.loads(text)
            return cls(
                tuple(map(table_schema, found["tables"])), {int(id_): str(each) for id_, each in found["texts"].items()}
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise OptionError("schemas", f"it is not the JSON text of learned schemas: {error}") from error


def table_schema(plain: Mapping[str, object]) -> TableSchema:
    """A table's schema in plain form."""
    event = event_from_plain({"kind": "bootstrap", "table_schema": plain})
    if not isinstance(event, Bootstrap):
        raise ValueError("not a table's schema")
    return event.table_schema


def schemas_text(schemas: Schemas | str | None) -> str | None:
    """Schemas as they travel to executors, checked."""
    if schemas is None or isinstance(schemas, Schemas):
        return None if schemas is None else schemas.to_json()
    return Schemas.from_json(schemas).to_json()


def merged(parts: Iterable[Schemas]) -> Schemas:
    """All of these schemas."""
    found = Schemas()
    for part in parts:
        found = found | part
    return found
