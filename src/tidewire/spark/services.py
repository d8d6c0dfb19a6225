"""Services that must answer before Spark is started, because Spark and its catalogs would try for minutes.

Only a connection is made. Whether the service takes the credentials is seen when it is used.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidewire.errors import OptionError
from tidewire.sync.catalog_settings import CatalogSettings

_SECONDS: Final = 5.0

_PORTS: Final[Mapping[str, int]] = {
    "http": 80,
    "https": 443,
    "thrift": 9083,
    "jdbc:postgresql": 5432,
    "jdbc:mysql": 3306,
    "jdbc:mariadb": 3306,
}
"""The kinds of URIs of catalogs that name a server, and the port where the URI names none."""

_URI: Final = re.compile(r"([a-z]+(?::[a-z]+)?)://([^/?#,]+(?:,(?!\w+:/)[^/?#,]+)*)")
_PROXY: Final = "rest.client.proxy.hostname"


class Server(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def check_catalog_answers(catalog: CatalogSettings | None) -> None:
    """Refuse a catalog whose server does not take a connection; ``OptionError`` names it."""
    if catalog is not None and _PROXY not in catalog.settings:
        check_answers(f"catalog.{catalog.name}.uri", catalog_servers(catalog.settings.get("uri", "")))


def check_master(master: str) -> None:
    """Refuse a Spark master that does not answer."""
    if master.startswith("spark://"):
        servers = map(_server, master.removeprefix("spark://").split(","))
        check_answers("master", tuple(server for server in servers if server.port))


def catalog_servers(uri: str) -> tuple[Server, ...]:
    """The servers that the URI of a catalog names, of which one must answer; nothing for a file."""
    found = [(match[1], match[2]) for match in _URI.finditer(uri) if match[1] in _PORTS]
    return tuple(_server(each, _PORTS[kind]) for kind, places in found for each in places.split(",") if each)


def check_answers(option: str, servers: tuple[Server, ...]) -> None:
    """Refuse an option if none of the servers that it names takes a connection."""
    problems = []
    for server in servers:
        try:
            with socket.create_connection(server, _SECONDS):
                return
        except (OSError, UnicodeError) as error:
            problems.append(f"{server}: {error}")
    if problems:
        raise OptionError(
            option, f"no server answers ({'; '.join(problems)}); check the address, and that the server runs"
        )


def _server(text: str, default: int = 0) -> Server:
    """The server in ``user:password@host:port``; ``default`` if there is no port."""
    host, _, port = text.rpartition("@")[2].rpartition(":")
    if not port.isdigit():  # no port, or the colons are those of an IPv6 address
        return Server(text.rpartition("@")[2].strip("[]"), default)
    return Server(host.strip("[]"), int(port))
