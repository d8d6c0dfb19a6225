"""Where Avro schemas live: the contract."""

from __future__ import annotations

from typing import Protocol


class Registry(Protocol):
    """Schemas by id. Subjects are names under which versions of a schema are kept compatible."""

    def register(self, subject: str, schema: str) -> int:
        """The id of a schema under a subject; the same schema always gets the same id."""
        ...

    def schema(self, schema_id: int) -> str:
        """The text of a registered schema."""
        ...
