"""How often an attempt is repeated: after waits that grow, for about a minute."""

from __future__ import annotations

from threading import Event

from tidewire.errors import ChangefeedError

_WAITS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, *[5.0] * 10)
"""Seconds; about a minute in all."""


class Retries:
    """Waits between attempts, longer each time. Setting ``closing`` ends a wait."""

    def __init__(self, closing: Event) -> None:
        self._closing = closing
        self._failures = 0

    def restore(self) -> None:
        """An attempt succeeded."""
        self._failures = 0

    def wait(self, failure: Exception) -> None:
        """Wait before the next attempt; ``ChangefeedError`` after too many in a row."""
        if self._failures == len(_WAITS):
            raise ChangefeedError(
                "CDC:ErrMySQLConnectionError", f"{failure}; tried {self._failures} times for {sum(_WAITS):.0f} seconds"
            ) from None
        self._closing.wait(_WAITS[self._failures])
        self._failures += 1
