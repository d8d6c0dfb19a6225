"""Checks that a sink answers before a changefeed is created, so that a wrong address is refused at once."""

from __future__ import annotations

from tidewire.changefeed.config.settings import Settings
from tidewire.changefeed.service.failure import code_of, error_text
from tidewire.changefeed.sink.open import open_sink
from tidewire.errors import ChangefeedError, TidewireError
from tidewire.registry import ConfluentRegistry

INVALID = "CDC:ErrSinkURIInvalid"
_ATTEMPTS = 2
"""The limit is short, because a person waits for the answer."""


def verify_sink(settings: Settings, start_ts: int) -> None:
    """Open the sink once and close it; ``CDC:ErrSinkURIInvalid`` with the reason where that does not work."""
    try:
        registry = settings.options.schema_registry
        if registry.startswith(("http:", "https:")):
            with ConfluentRegistry(registry, attempts=_ATTEMPTS) as found:
                found.probe()
        open_sink(settings, start_ts).close()
    except (TidewireError, OSError, ValueError) as error:
        if isinstance(error, ChangefeedError) and error.code == INVALID:
            raise
        inner = "" if isinstance(error, ChangefeedError) else f"[{code_of(error)}]"
        raise ChangefeedError(INVALID, f"{settings.uri} cannot be used: {inner}{error_text(error)}") from error
