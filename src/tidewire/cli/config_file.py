"""A sync's TOML file as an option of a command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from tidewire.codec import PROTOCOLS
from tidewire.errors import OptionError, SyncError
from tidewire.sync.config import SyncConfig, read_config
from tidewire.sync.document import Secrets


def config_file(path: str | None) -> SyncConfig:
    """What a file says, or nothing; :class:`click.BadParameter` with the place of what is wrong in it."""
    if path is None:
        return SyncConfig()
    try:
        return read_config(Path(path).read_text(encoding="utf-8"), os.environ, list(PROTOCOLS))
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(str(error)) from error
    except OptionError as error:
        raise click.BadParameter(f"{path}: {error.name}: {error.reason}") from error


@contextmanager
def hidden(secrets: Secrets) -> Iterator[None]:
    """Errors that say nothing secret."""
    try:
        yield
    except Exception as error:
        shown = secrets.hide(str(error))
        if shown == str(error):
            raise
        raise SyncError(shown) from None


catalog_option = click.option(
    "--config",
    type=click.Path(dir_okay=False),
    callback=lambda _context, _parameter, path: config_file(path),
    help="The sync's TOML file, where that names a catalog.",
)
