"""How new tables are laid out in the target: the version of the format, partitions, and the order of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidewire.errors import OptionError


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What a rule says of the layout of new tables. What it does not say is ``None`` or empty."""

    format_version: int | None = None

    def check_format(self, format_: str, place: str) -> None:
        """Raise :class:`OptionError` if a table format does not have what is asked for; ``place`` names the rule."""
        if self.format_version is not None and format_ != "iceberg":
            raise OptionError(
                f"{place}.format-version",
                f"only Iceberg's format has versions, and the format is {format_}: leave it out",
            )

    def to_plain(self) -> dict[str, Any]:
        """The options as a document."""
        return {} if self.format_version is None else {"format-version": self.format_version}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> TableOptions:
        """The options of a document."""
        return cls(plain.get("format-version"))


NO_OPTIONS = TableOptions()
