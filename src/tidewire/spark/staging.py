"""Where a sync stages its files: in the target, or elsewhere, because they are written and deleted often."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from tidewire.errors import OptionError, SyncError
from tidewire.spark.ledger import ledger_of
from tidewire.storage import SplitStorage, Storage, open_storage
from tidewire.sync.documents import decode, encode
from tidewire.sync.toml_section import without_secrets

_NAME: Final = "staging"
_FOLDER: Final = "staged"


class Staging(msgspec.Struct, frozen=True):
    """Where files are staged, as the target remembers it."""

    uri: str


def storage_of(target: str) -> Storage:
    """The ledger's storage, its staged files where the target remembers them to be."""
    main = ledger_of(target)
    data = main.read(_NAME)
    return main if data is None else _split(main, decode(data, Staging).uri)


def check_staging(target: str, staging: str | None) -> None:
    """Refuse a place that cannot be remembered, or another one than the files are staged in."""
    if staging is not None and without_secrets(staging) != staging:
        raise OptionError("staging", "credentials in its URI would be written down: give them by the environment")
    data = ledger_of(target).read(_NAME)
    known = None if data is None else decode(data, Staging).uri
    if known is not None and staging is not None and known != staging:
        raise SyncError(f"files are staged in {known} since the sync began: give the same --staging, or none")


def begun(target: str, staging: str | None) -> Storage:
    """The ledger's storage for a sync that starts; where it stages files is remembered from the first start on."""
    if staging is None:
        return storage_of(target)
    return _split(ledger_of(target), staging)


def remember_staging(storage: Storage, staging: str | None) -> None:
    """Keep where files are staged, once the sync drives the target; refuse to move what is staged already."""
    if staging is None or storage.read(_NAME) is not None:
        return
    if storage.list("plans"):
        raise SyncError("the sync has begun with its files staged in the target itself: leave out --staging")
    storage.put_if_absent(_NAME, encode(Staging(staging)))


def _split(main: Storage, staging: str) -> Storage:
    """Syncs may share a place: each has a folder of its own there."""
    folder = hashlib.sha256(main.uri.encode()).hexdigest()[:16]
    return SplitStorage(main, open_storage(staging, "staging").below(folder), _FOLDER)
