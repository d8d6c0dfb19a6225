"""Secrets out of texts that others wrote: an error of a client may repeat the password it was given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from tidewire.secrets.redaction import MASK, Secret, SecretURI, is_secret

_USER = re.compile(r"://[^/@]*?:(.*)@", re.DOTALL)
_SHORT = 3
"""What is shorter is in every text, whether it is a secret or not, and hidden only where it is a word."""


def secrets_in_uri(uri: str, secret: Callable[[str], bool] = is_secret) -> Iterator[str]:
    """The password of a URI and the values of parameters with a ``secret`` name, as written and decoded."""
    found = [user[1] for user in [_USER.search(uri)] if user]
    for pair in uri.partition("?")[2].split("&"):
        name, _, value = pair.partition("=")
        if secret(unquote_plus(name)):
            found.append(value)
        elif "://" in (plain := unquote(value)):
            yield from secrets_in_uri(plain, secret)
    for text in found:
        yield from (text, unquote(text), unquote_plus(text))


def secrets_in(thing: Any) -> Iterator[str]:
    """Every secret that a configuration holds, however deep."""
    if isinstance(thing, SecretURI) or (isinstance(thing, Secret) and "://" in thing):
        yield from secrets_in_uri(str.__str__(thing))
    elif isinstance(thing, Secret):
        yield str.__str__(thing)
    elif is_dataclass(thing):
        for item in fields(thing):
            yield from secrets_in(getattr(thing, item.name))
    elif isinstance(thing, Mapping):
        yield from secrets_in(tuple(thing.values()))
    elif isinstance(thing, tuple | list):
        for item in thing:
            yield from secrets_in(item)


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """A text with a mask in place of every secret, also where a URI writes it otherwise.

    >>> scrubbed("login of me:hush failed", ["hush"])
    'login of me:xxxxx failed'
    """
    forms = {form for secret in secrets if secret for form in (secret, quote(secret, safe=""), quote_plus(secret))}
    for form in sorted(forms, key=len, reverse=True):
        pattern = re.escape(form) if len(form) >= _SHORT else rf"(?<!\w){re.escape(form)}(?!\w)"
        text = re.sub(pattern, MASK, text)
    return text
