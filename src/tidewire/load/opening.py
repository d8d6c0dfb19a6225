"""Live sources by their URI."""

from __future__ import annotations

from tidewire.changefeed.source.mysql.connection import Session
from tidewire.changefeed.source.mysql.server import table_names
from tidewire.changefeed.source.mysql.statements import Wanted
from tidewire.errors import LoadError, OptionError
from tidewire.load.live import server_errors, server_of, text
from tidewire.load.live_mysql import MysqlLoad, readable
from tidewire.load.live_tidb import TidbLoad, is_users


def open_live(uri: str, wanted: Wanted, rules: tuple[str, ...], at: int | None) -> MysqlLoad | TidbLoad:
    """The load of a live server. The server is asked what it is, whatever the URI says."""
    settings = server_of(uri)
    with server_errors(settings, "nothing was read yet"), Session(settings) as session:
        is_tidb = "TiDB" in text(session.ask("SELECT VERSION()")[0][0])
        names = table_names(session, lambda name: not is_tidb or is_users(name))
        if not any(map(wanted, names)):
            told = ", ".join(str(name) for name in names[:20]) or "none"
            raise LoadError(f"{settings.address} has no table that is wanted; it has {told}")
        if is_tidb:
            return TidbLoad(settings, wanted, rules, at)
        if at is not None:
            raise OptionError("at", f"{settings.address} is not TiDB, so its tables can be read as of now only")
        readable(session, settings)
    return MysqlLoad(settings, wanted, rules)
