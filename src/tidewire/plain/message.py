"""Messages to plain dicts and back: Base64 for bytes, ``null`` for what is absent."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from tidewire.model import Message, Position


def message_to_plain(message: Message) -> dict[str, Any]:
    """A message as a dict that ``json`` can write."""
    plain: dict[str, Any] = {"key": _encoded(message.key), "value": _encoded(message.value)}
    if message.headers:
        plain["headers"] = [[name, _encoded(data)] for name, data in message.headers]
    return plain


def message_from_plain(plain: Mapping[str, Any]) -> Message:
    """The message a dict stands for; raises ``ValueError`` if it stands for none."""
    if "key" not in plain and "value" not in plain:
        raise ValueError("a message line has a key or a value")
    headers = tuple((name, base64.b64decode(data)) for name, data in plain.get("headers", ()))
    return Message(_decoded(plain, "key"), _decoded(plain, "value"), headers)


def position_from_plain(plain: Mapping[str, Any]) -> Position | None:
    """Where the message is, if the dict tells."""
    if "partition" not in plain or "offset" not in plain:
        return None
    return Position(plain.get("topic", ""), plain["partition"], plain["offset"])


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decoded(plain: Mapping[str, Any], name: str) -> bytes | None:
    data = plain.get(name)
    if data is None:
        return None
    if not isinstance(data, str):
        raise ValueError(f"{name} is not Base64 text")
    try:
        return base64.b64decode(data, validate=True)
    except ValueError as error:
        raise ValueError(f"{name} is not Base64: {error}") from error
