"""Sets of global transaction ids, which name a place in the logs of all servers of a group.

MariaDB's is the last id of each domain, ``0-1-42,1-7-3``; MySQL's is all ids of each server, ``uuid:1-5:7``.
"""

from __future__ import annotations

from collections.abc import Iterable


def with_gtid(known: str, gtid: str | None) -> str:
    """A set and one more id; ``None`` is a transaction without one.

    >>> with_gtid("0-1-41,1-7-3", "0-1-42")
    '0-1-42,1-7-3'
    >>> with_gtid("3e11fa47:1-4", "3e11fa47:5")
    '3e11fa47:1-5'
    """
    if gtid is None:
        return known
    return _with_mysql(known, gtid) if ":" in gtid else _with_mariadb(known, gtid)


def _with_mariadb(known: str, gtid: str) -> str:
    domains = {int(one.split("-")[0]): one for one in (*_parts(known), gtid)}
    return ",".join(domains[number] for number in sorted(domains))


def _with_mysql(known: str, gtid: str) -> str:
    servers: dict[str, list[tuple[int, int]]] = {}
    for one in (*_parts(known), gtid):
        server, *spans = one.lower().split(":")
        for span in spans:
            first, _, last = span.partition("-")
            servers.setdefault(server, []).append((int(first), int(last or first)))
    return ",".join(f"{server}:{':'.join(_spans(spans))}" for server, spans in sorted(servers.items()))


def _spans(spans: Iterable[tuple[int, int]]) -> list[str]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return [str(first) if first == last else f"{first}-{last}" for first, last in joined]


def _parts(text: str) -> list[str]:
    return [part for part in "".join(text.split()).split(",") if part]
