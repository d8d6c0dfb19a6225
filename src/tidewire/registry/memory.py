"""Schemas in a dict: for tests, notebooks and messages that bring their schemas along."""

from __future__ import annotations

from collections.abc import Mapping

from tidewire.errors import RegistryError


class MemoryRegistry:
    """Schemas in a dict. Ids count from 1; a schema has the same id under every subject, as in Confluent's.

    >>> registry = MemoryRegistry()
    >>> registry.schema(registry.register("t-value", '"int"'))
    '"int"'
    """

    def __init__(self, schemas: Mapping[int, str] | None = None) -> None:
        self._schemas: dict[int, str] = {}
        self._ids: dict[str, int] = {}
        self.subjects: dict[str, list[int]] = {}
        for schema_id, schema in (schemas or {}).items():
            self.put(schema_id, schema)

    def put(self, schema_id: int, schema: str) -> None:
        """Keep a schema under the id that another registry gave it; a later schema replaces an earlier one."""
        self._schemas[schema_id] = schema
        self._ids[schema] = schema_id

    def register(self, subject: str, schema: str) -> int:
        """The id of a schema under a subject."""
        schema_id = self._ids.get(schema)
        if schema_id is None or self._schemas[schema_id] != schema:
            schema_id = max(self._schemas, default=0) + 1
            self.put(schema_id, schema)
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def schema(self, schema_id: int) -> str:
        """The text of a schema."""
        try:
            return self._schemas[schema_id]
        except KeyError:
            raise RegistryError("memory:", f"schema {schema_id} not found", 404) from None

    def schemas(self) -> dict[int, str]:
        """Every schema by its id."""
        return dict(self._schemas)
