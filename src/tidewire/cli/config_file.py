"""A sync's TOML file as an option of a command."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tidewire.cli.failures import Failure, hide
from tidewire.codec import SYNC_PROTOCOLS
from tidewire.errors import OptionError
from tidewire.sync.config import SyncConfig, read_config


def config_file(path: str | None) -> SyncConfig:
    """What a file says, or nothing; :class:`Failure` with the place of what is wrong in it.

    The secrets in it are never printed by the running command.
    """
    if path is None:
        return SyncConfig()
    try:
        config = read_config(Path(path).read_text(encoding="utf-8"), os.environ, list(SYNC_PROTOCOLS))
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Failure(f"{path}: {error}") from error
    except OptionError as error:
        raise Failure(f"{path}: {error.name}: {error.reason}") from error
    hide(config.secrets)
    return config


catalog_option = click.option(
    "--config",
    type=click.Path(dir_okay=False),
    callback=lambda _context, _parameter, path: config_file(path),
    help="The sync's TOML file, if its catalog has secrets that do not come from the environment.",
)
