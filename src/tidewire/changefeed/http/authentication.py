"""Authentication: a token, or a user and a password; without either, only requests from this machine."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tidewire.secrets import NO_SECRET, Secret

_LOCAL_NAMES = frozenset({"localhost", "ip6-localhost"})


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request must show: by default nothing."""

    token: Secret = NO_SECRET
    user: str = ""
    password: Secret = NO_SECRET

    def __bool__(self) -> bool:
        return bool(self.token or self.user)

    @property
    def challenge(self) -> str:
        """The ``WWW-Authenticate`` header for a request without credentials."""
        return "Bearer" if self.token else 'Basic realm="tidewire", charset="UTF-8"'

    def accepts(self, authorization: str) -> bool:
        """Does an ``Authorization`` header show these credentials? The comparison takes constant time."""
        if not self:
            return True
        scheme, _, shown = authorization.strip().partition(" ")
        shown = shown.strip()
        if self.token and scheme.lower() == "bearer":
            return _same(shown, self.token)
        return bool(self.user) and scheme.lower() == "basic" and _same(_decoded(shown), f"{self.user}:{self.password}")

    def header(self) -> Mapping[str, str]:
        """The header that shows these credentials."""
        if self.token:
            return {"Authorization": f"Bearer {str.__str__(self.token)}"}
        if not self.user:
            return {}
        pair = f"{self.user}:{str.__str__(self.password)}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides which requests are answered.

    Without credentials, only requests to this machine that do not come from another site's page. With ``open_to_all``,
    all requests.
    """

    credentials: Credentials = field(default_factory=Credentials)
    open_to_all: bool = False

    def refuses(self, headers: Mapping[str, str]) -> str | None:
        """The reason to refuse a request, or ``None``."""
        if self.credentials:
            shown = self.credentials.accepts(headers.get("authorization", ""))
            return None if shown else "the request has no valid credentials"
        if self.open_to_all:
            return None
        host = _host(f"//{headers.get('host', '')}")
        if not is_loopback(host):
            return f"without authentication only requests to this machine are answered, not to {host or 'nowhere'!r}"
        origin = headers.get("origin")
        if origin is not None and not is_loopback(_host(origin)):
            return "without authentication pages of other sites are not answered"
        return None


def is_loopback(host: str) -> bool:
    """Is this a name or an address of this machine only?

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("localhost")
    (True, True, False, True)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in _LOCAL_NAMES


def _host(uri: str) -> str:
    try:
        return urlsplit(uri).hostname or ""
    except ValueError:
        return ""


def _same(shown: str, expected: str) -> bool:
    return hmac.compare_digest(shown.encode(), str.__str__(expected).encode())


def _decoded(shown: str) -> str:
    try:
        return base64.b64decode(shown, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
