"""An Iceberg catalog as a user describes it: its name, its kind, its settings, and what of them may be remembered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tidewire.errors import OptionError
from tidewire.secrets import is_secret, secrets_in_uri
from tidewire.sync.toml_section import VARIABLE, Section, filled

KINDS: Final = ("rest", "glue", "hive", "jdbc")
"""The kinds of catalogs that tables can be kept in."""

SPARK: Final = "spark.sql.catalog."
"""What begins the names of a catalog's settings in Spark."""

_REFUSED: Final[Mapping[str, str]] = {
    "hadoop": "a hadoop catalog keeps names in folders: it cannot rename a table, and where a store does not rename "
    f"in one step, commits are lost; use one of {', '.join(KINDS)}",
}
_NAME: Final = re.compile(r"\w+", re.ASCII)


class RememberedCatalog(msgspec.Struct, frozen=True):
    """A catalog as a target's document has it: without secrets.

    ``settings`` are as they were written, so a variable such as ``${TOKEN}`` is still one. ``secret`` are the names of
    the settings that were left out.
    """

    name: str
    settings: Mapping[str, str]
    secret: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """A catalog with its settings by Iceberg's names. ``written`` has them as they were written, with variables."""

    name: str
    settings: Mapping[str, str] = field(repr=False)
    written: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, name: str, section: Section) -> CatalogSettings:
        """A catalog in a document; ``OptionError`` with the path of what is wrong."""
        if not _NAME.fullmatch(name):
            raise OptionError(section.path, "the name of a catalog has letters, digits and underscores only")
        written = section.written()  # before its settings are taken out
        settings = section.settings()
        kind = settings.get("type", "")
        if kind in _REFUSED:
            raise OptionError(section.at("type"), _REFUSED[kind])
        if kind not in KINDS and "catalog-impl" not in settings:
            raise OptionError(section.at("type"), f"must be one of {', '.join(KINDS)}")
        return cls(name, settings, written)

    @classmethod
    def recalled(
        cls, document: RememberedCatalog, environment: Mapping[str, str], more: Mapping[str, str] = {}
    ) -> CatalogSettings:
        """A catalog out of a target's document, with ``more`` settings; ``OptionError`` if a secret is missing."""
        missing = [name for name in document.secret if name not in more]
        if missing:
            raise OptionError(
                "catalog",
                f"the target does not remember {', '.join(missing)} of the catalog {document.name}, because it is "
                "secret: give --config with the sync's file, or write it there as ${VARIABLE}",
            )
        settings = {
            name: filled(text, f"catalog.{document.name}.{name}", environment)
            for name, text in document.settings.items()
        }
        return cls(document.name, settings | dict(more), document.settings)

    def remembered(self) -> RememberedCatalog:
        """What a target's document has of it."""
        secret = tuple(sorted(name for name, text in self.written.items() if _has_secret(name, text)))
        kept = {name: text for name, text in self.written.items() if name not in secret}
        return RememberedCatalog(self.name, kept, secret)

    def spark(self, defaults: Mapping[str, str] = {}) -> dict[str, str]:
        """Its settings by Spark's names; ``defaults`` are those of the target."""
        prefix = f"{SPARK}{self.name}"
        settings = {**defaults, **self.settings}
        return {prefix: "org.apache.iceberg.spark.SparkCatalog"} | {
            f"{prefix}.{name}": text for name, text in settings.items()
        }

    @property
    def kind(self) -> str:
        """Its kind; empty for a class of the user's own."""
        return self.settings.get("type", "")


def _has_secret(name: str, text: str) -> bool:
    """Does a setting hold a secret, other than in a variable?"""
    plain = VARIABLE.sub("", text)
    return bool(_NAME.search(plain)) and (is_secret(name) or any(secrets_in_uri(plain)))
