"""The reference page names every parameter and every key, with the default it really has."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidewire.changefeed.config.parameters import DEFAULT_MAX_RETRY, PARAMETERS
from tidewire.changefeed.config.reading import hints, toml_names, without_none
from tidewire.changefeed.config.replica import ReplicaConfig
from tidewire.changefeed.config.settings import KafkaSettings, StorageSettings
from tidewire.changefeed.config.uri import SCHEMES
from tidewire.codec import Options
from tidewire.kafka.settings import Gssapi, Tls

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "changefeed-config.md").read_text(encoding="utf-8")
FILLED_IN = (KafkaSettings((), ""), StorageSettings(""), Tls(), Gssapi(), Options())
OTHERWISE = {
    "enable-tls": False,
    "max-retry": DEFAULT_MAX_RETRY,
    "sasl-gssapi-disable-pafxfast": False,
    "sasl-oauth-grant-type": "client_credentials",
    "transaction-atomicity": "none",
}
"""Defaults that are not a field of that name in the settings."""


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without their back quotes."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (`.*) \|$", section, re.MULTILINE)
    return [[cell.strip().strip("`").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)] for line in lines]


def defaults(name: str, value: Any = None) -> str:
    """The default of a key as the page writes it: its own, or what the settings have where nobody gives one."""
    for settings in FILLED_IN:
        value = getattr(settings, name.replace("-", "_"), None) if value is None else value
    match OTHERWISE.get(name) if value is None else value:
        case None | "" | ():
            return ""
        case bool(flag):
            return str(flag).lower()
        case float(seconds):
            return f"{seconds:g}s"
        case tuple(items):
            return str(list(items))
        case other:
            return str(other).replace("\r\n", "\\r\\n")


def keys(section: Any = ReplicaConfig, path: str = "") -> Iterator[tuple[str, str]]:
    """Every key of a file by its full path, with its default; those of list items have ``[]`` in it."""
    for item in dataclasses.fields(section):
        name = f"{path}{toml_names(item)[0]}"
        hint = without_none(hints(section)[item.name])
        listed = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None
        if dataclasses.is_dataclass(listed):
            yield from keys(listed, f"{name}[].")
        elif dataclasses.is_dataclass(hint):
            yield from keys(hint, f"{name}.")
        else:
            yield name, defaults(toml_names(item)[0], item.default)


def test_every_scheme_is_there() -> None:
    named = [scheme for row in rows("Sink URIs") for scheme in re.findall(r"[a-z0-9+-]+", row[0])]

    assert sorted(named) == sorted(SCHEMES)


def test_every_parameter_is_there_with_its_default_and_its_place_in_a_file() -> None:
    expected = [
        [name, defaults(name), parameter.home.removesuffix(f".{name}")] for name, parameter in PARAMETERS.items()
    ]

    assert [row[:3] for row in rows("Parameters of a sink URI")] == expected


def test_every_other_key_is_there_with_its_default() -> None:
    in_uris = {parameter.home for parameter in PARAMETERS.values()}

    assert [tuple(row[:2]) for row in rows("Keys of a file")] == [pair for pair in keys() if pair[0] not in in_uris]
