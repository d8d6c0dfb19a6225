"""What must never be printed: passwords, and URIs that may hold some."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, unquote_plus

MASK = "xxxxx"

_SECRET_NAME = re.compile(
    r"pass|pwd|secret|token|credential|private|signature|salt|jaas|(access|account|shared|encryption)[-_.]?key|[-_.]key$"
    r"|^(sas|sig|auth)$",
    re.IGNORECASE,
)
_PLACE_NAME = re.compile(r"ur[il]$", re.IGNORECASE)
_HOSTS = re.compile(r"(?:(?:\[[^\]]*\]|[^:,]*)(?::[0-9]+)?(?:,|$))*")
_HEAD = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:(?://)?)(.*)", re.DOTALL)


class Secret(str):
    """A text that is masked in the ``repr`` of whatever holds it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(MASK if self else "")


class SecretURI(str):
    """A URI that may hold credentials; what is printed does not have them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(redacted(self))


NO_SECRET = Secret("")
NO_URI = SecretURI("")


def is_secret(name: str) -> bool:
    """Is the value of a parameter of that name a secret?

    >>> is_secret("sasl-password"), is_secret("sasl-user")
    (True, False)
    """
    return bool(_SECRET_NAME.search(name)) and not _PLACE_NAME.search(name)


def redacted(uri: str) -> str:
    """A URI without its passwords: neither before an ``@`` nor in parameters, nor in URIs inside of those.

    Text that is no proper URI loses rather too much than too little.

    >>> redacted("kafka://me:hush@10.0.0.1:9092/topic?sasl-password=hush&protocol=avro")
    'kafka://me:xxxxx@10.0.0.1:9092/topic?sasl-password=xxxxx&protocol=avro'
    """
    head = _HEAD.fullmatch(uri)
    if head is None:
        return MASK if "@" in uri else _without_secrets(uri)
    return head[1] + _without_user(head[2], shows_user=head[1].endswith("//"))


def _without_user(rest: str, shows_user: bool) -> str:
    """What follows the scheme. An unquoted password may hold ``/``, ``?`` and ``#``, so those do not end it."""
    end = _end_of_user(rest)
    if end < 0:
        return _without_secrets(rest)
    user, colon, _ = rest[:end].partition(":")
    shown = user if shows_user and not re.search("[/?#]", user) else MASK
    shown += f":{MASK}" if colon else ""
    return f"{shown}@{_without_secrets(rest[end + 1 :])}"


def _end_of_user(rest: str) -> int:
    """Where the ``@`` is that ends user and password, or -1.

    If no host follows, the password was not encoded, and the last ``@`` of all ends it.
    """
    _, at, hosts = re.split("[/?#]", rest, maxsplit=1)[0].rpartition("@")
    if not _HOSTS.fullmatch(hosts) or (at and not hosts):
        return rest.rfind("@")
    path, question, query = rest.partition("?")
    return (path + question + query.partition("=")[0]).rfind("@")


def _without_secrets(rest: str) -> str:
    path, question, query = rest.partition("?")
    path, sharp, _ = path.partition("#")
    if sharp:
        return f"{path}#{MASK}"
    return path + question + "&".join(_pairs(query))


def _pairs(query: str) -> Iterator[str]:
    query, sharp, _ = query.partition("#")
    hidden = False
    pieces = query.split("&")
    for piece in pieces:
        name, equals, value = piece.partition("=")
        # An unquoted password may hold an ampersand: what follows a secret and is no pair belongs to it.
        if not equals:
            yield MASK if hidden else piece
            continue
        hidden = is_secret(unquote_plus(name))
        yield name + equals + (_shown(value) if not hidden else MASK if value else "")
    if sharp:
        yield f"#{MASK}"


def _shown(value: str) -> str:
    """The value of a parameter that is no secret; it may be a URI with one."""
    plain = unquote(value)
    shorter = redacted(plain) if ":" in plain or "@" in plain else plain
    return value if shorter == plain else shorter
