"""A configuration that was shown without its secrets and comes back: what is still masked is unchanged."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from tidewire.secrets import MASK, Secret, SecretURI, redacted

Section = TypeVar("Section")


def unmasked(given: Section, current: Section) -> Section:
    """``given`` with the secrets of ``current`` wherever it has only their masks."""
    changes: dict[str, Any] = {}
    for item in fields(given):  # type: ignore[arg-type]
        new, old = getattr(given, item.name), getattr(current, item.name)
        if old is None or new is None:
            continue
        if is_dataclass(new):
            changes[item.name] = unmasked(new, old)
        elif isinstance(new, Secret | SecretURI):
            changes[item.name] = unmasked_uri(new, old) if isinstance(new, SecretURI) else _unmasked_secret(new, old)
    return replace(given, **changes)  # type: ignore[type-var]


def unmasked_uri(given: str, current: str) -> str:
    """A URI, or the one it is the redacted form of."""
    return current if given == redacted(current) else given


def _unmasked_secret(given: Secret, current: Secret) -> Secret:
    return current if given == MASK else given
