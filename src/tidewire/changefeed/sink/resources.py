"""What a sink's codec needs from outside, from its options: a schema registry, a store for large messages."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from tidewire.codec import Options, Resources
from tidewire.codec.claim_check import ClaimCheckStore, FolderStore
from tidewire.codec.options import LargeMessage
from tidewire.errors import ChangefeedError, ClaimCheckError
from tidewire.registry import open_registry


class StoredClaimChecks:
    """Claim checks in an object store."""

    def __init__(self, scheme: str, folder: str, options: Mapping[str, str]) -> None:
        from tidewire.changefeed.sink.storage.store import open_store

        self._store = open_store(scheme, folder, options)

    def put(self, name: str, data: bytes) -> None:
        """Keep a blob."""
        try:
            self._store.write(name, data)
        except ChangefeedError as error:
            raise ClaimCheckError(name, error.reason) from error

    def get(self, name: str) -> bytes:
        """A blob that was kept."""
        data = self._store.read(name)
        if data is None:
            raise ClaimCheckError(name, "not in the store")
        return data


def resources_for(options: Options) -> Resources:
    """The registry and the store that options name; neither is contacted before it is needed."""
    registry = open_registry(options.schema_registry) if options.schema_registry else None
    checks = options.large_message_handle_option is LargeMessage.CLAIM_CHECK
    return Resources(claim_check=_claim_checks(options.claim_check_storage_uri) if checks else None, registry=registry)


def _claim_checks(uri: str) -> ClaimCheckStore:
    parts = urlsplit(uri)
    folder = unquote(parts.path)
    if parts.scheme in ("", "file"):
        return FolderStore(folder)
    return StoredClaimChecks(parts.scheme, f"{parts.netloc}{folder}", dict(parse_qsl(parts.query)))
