"""Schemas in a JSON file, beside a topic that is a file.

::

    {"schemas": {"1": "{\\"type\\":…}"}, "subjects": {"test_t-key": [1]}}
"""

from __future__ import annotations

import json
from pathlib import Path

from tidewire.errors import RegistryError, StorageError
from tidewire.registry.memory import MemoryRegistry
from tidewire.storage import open_storage


class FileRegistry:
    """Schemas in a JSON file. Many may read it, one may write it."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._storage = open_storage(self.path.parent, "schema-registry")
        self._known: MemoryRegistry | None = None

    def __repr__(self) -> str:
        return f"FileRegistry({str(self.path)!r})"

    def register(self, subject: str, schema: str) -> int:
        """The id of a schema under a subject; the file holds it when this returns."""
        known = self._known = self._load() or MemoryRegistry()
        versions = tuple(known.subjects.get(subject, ()))
        schema_id = known.register(subject, schema)
        if schema_id not in versions:
            self._save(known)
        return schema_id

    def schema(self, schema_id: int) -> str:
        """The text of a schema."""
        if self._known is not None:
            try:
                return self._known.schema(schema_id)
            except RegistryError:
                pass  # another process may have written it in the meantime
        self._known = self._load()
        if self._known is None:
            raise self._refuse("there is no such file; check schema-registry")
        try:
            return self._known.schema(schema_id)
        except RegistryError as error:
            raise self._refuse(error.reason, error.status) from None

    def _load(self) -> MemoryRegistry | None:
        try:
            data = self._storage.read(self.path.name)
            if data is None:
                return None
            content = json.loads(data)
        except StorageError as error:
            raise self._refuse(error.reason, transient=error.transient) from error
        except (ValueError, RecursionError) as error:
            raise self._refuse(f"not a JSON file: {error}") from None
        match content:
            case {"schemas": dict(schemas), "subjects": dict(subjects)} if all(
                id_.isdecimal() and isinstance(schema, str) for id_, schema in schemas.items()
            ) and all(isinstance(ids, list) for ids in subjects.values()):
                known = MemoryRegistry({int(id_): schema for id_, schema in schemas.items()})
                known.subjects = subjects
                return known
        raise self._refuse('not a file of schemas: "schemas" (id to text) and "subjects" (name to ids) are expected')

    def _save(self, known: MemoryRegistry) -> None:
        schemas = {str(id_): schema for id_, schema in sorted(known.schemas().items())}
        content = json.dumps({"schemas": schemas, "subjects": known.subjects}, ensure_ascii=False, indent=1)
        try:
            self._storage.put(self.path.name, (content + "\n").encode())
        except StorageError as error:
            raise self._refuse(error.reason, transient=error.transient) from error

    def _refuse(self, reason: str, status: int | None = None, *, transient: bool = False) -> RegistryError:
        return RegistryError(f"file:{self.path}", reason, status, transient)
