"""``tidewire server``: changefeeds that run, and the Open API to direct them."""

from __future__ import annotations

import logging
import re
import signal
import threading
import uuid
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import click

from tidewire.changefeed.http.authentication import Credentials, Guard, is_loopback
from tidewire.cli.connection import credential_options, credentials_of
from tidewire.secrets import redacted

log = logging.getLogger("tidewire.server")

_ADDRESS = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]*)):([0-9]{1,5})")
_LEVELS = ("debug", "info", "warn", "error")
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _address(_ctx: click.Context, _parameter: click.Parameter, text: str) -> Address:
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[3]) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT, as in 127.0.0.1:8300 or [::1]:8300")
    return Address(found[1] or found[2] or "0.0.0.0", int(found[3]))


def _time_zone(_ctx: click.Context, _parameter: click.Parameter, name: str) -> str:
    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise click.BadParameter(f"there is no time zone {name!r}; write one such as UTC or Asia/Shanghai") from None
    return name


@click.command()
@click.option(
    "--addr", default="127.0.0.1:8300", show_default=True, callback=_address, help="Listen on this host and port."
)
@click.option(
    "--upstream",
    required=True,
    envvar="TIDEWIRE_UPSTREAM",
    show_envvar=True,
    metavar="URI",
    help="Where changes come from: mysql://…, workload://…, kafka://… or file-topic://…",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("tidewire-data"),
    show_default=True,
    envvar="TIDEWIRE_DATA_DIR",
    show_envvar=True,
    help="The folder for changefeeds and their checkpoints.",
)
@credential_options()[0]
@credential_options()[1]
@credential_options()[2]
@click.option("--insecure", is_flag=True, help="Accept requests from other machines without authentication.")
@click.option("--tz", default="UTC", show_default=True, callback=_time_zone, help="The time zone of TIMESTAMP values.")
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="The lowest level that is logged.",
)
@click.option("--log-file", type=click.Path(dir_okay=False), help="Write the log to this file.  [default: stderr]")
def server(
    addr: Address,
    upstream: str,
    data_dir: Path,
    auth_token: str,
    basic_user: str,
    basic_password: str,
    insecure: bool,
    tz: str,
    log_level: str,
    log_file: str | None,
) -> None:
    """Run changefeeds; manage them with tidewire cli or the Open API.

    The Open API is TiCDC's, v2. Changefeeds that were running continue when the server is started again. SIGTERM and
    Ctrl-C stop it once everything that was read has been written.
    Addresses other than this machine's own need a token or a user, or --insecure. Put secrets in the environment.

    Exit codes: 0 it was stopped, 2 it could not start.

    \b
    Example:
      tidewire server --upstream 'workload://7?transactions=1000' --data-dir data
    """
    from tidewire.changefeed.http.app import HttpServer, listening_socket, web_app
    from tidewire.changefeed.http.documents import Node
    from tidewire.changefeed.service.service import Service
    from tidewire.changefeed.service.store import Store
    from tidewire.changefeed.source import open_source
    from tidewire.secrets import secrets_in, secrets_in_uri

    credentials = credentials_of(auth_token, basic_user, basic_password)
    _check_access(addr, credentials, insecure)
    open_source(upstream).close()
    with ExitStack() as closing:
        closing.enter_context(_logging(log_level, log_file))
        listening = listening_socket(*addr)
        closing.callback(listening.close)
        addr = Address(addr.host, listening.getsockname()[1])
        store = Store(data_dir)
        closing.callback(store.close)
        secrets = {*secrets_in_uri(upstream), *secrets_in(credentials)}
        service = Service(store, lambda: open_source(upstream), addr=str(addr), time_zone=tz, secrets=secrets)
        stopped = closing.enter_context(_signals())
        closing.callback(service.stop)
        service.start()
        node = Node(str(uuid.uuid4()), str(addr), zlib.crc32(redacted(upstream).encode()))
        http = HttpServer(web_app(service, node, Guard(credentials, insecure)), listening)
        closing.callback(http.stop)
        log.info("listening on http://%s, changes come from %s", addr, redacted(upstream))
        stopped.wait()
        log.info("stopping")


def _check_access(addr: Address, credentials: Credentials, insecure: bool) -> None:
    if credentials.user and not credentials.password:
        raise click.UsageError("--basic-user needs a password; put it into TIDEWIRE_BASIC_PASSWORD")
    if credentials.password and not credentials.user:
        raise click.UsageError("--basic-password needs --basic-user")
    if not (is_loopback(addr.host) or credentials or insecure):
        raise click.UsageError(
            f"{addr} is open to other machines: ask for a token (TIDEWIRE_AUTH_TOKEN) or a user (--basic-user), "
            "or say --insecure"
        )


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """An event that is set by SIGTERM and Ctrl-C."""
    asked = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda _number, _frame: asked.set()) for number in numbers]
    try:
        yield asked
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _logging(level: str, file: str | None) -> Iterator[None]:
    try:
        handler = logging.FileHandler(file) if file else logging.StreamHandler()
    except OSError as error:
        raise click.FileError(str(file), error.strerror) from error
    handler.setFormatter(logging.Formatter(_FORMAT))
    root = logging.getLogger()
    root.addHandler(handler)
    logging.getLogger("tidewire").setLevel({"warn": "WARNING"}.get(level, level.upper()))
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()
