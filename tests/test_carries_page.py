"""The page that says what each protocol carries is made from the codecs' own data."""

from __future__ import annotations

from pathlib import Path

from tidewire.codec import PROTOCOLS, Options, protocol
from tidewire.codec.capabilities import DDL_FACTS, ROW_FACTS, Capabilities

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "carries.md"
FULL = Options(enable_tidb_extension=True, avro_enable_watermark=True)
PLAIN = Options()


def mark(full: bool, plain: bool) -> str:
    return "yes" if plain else "with the extension" if full else ""


def row(name: str, cells: list[tuple[bool, bool]]) -> str:
    return f"| {name} | " + " | ".join(mark(*cell) for cell in cells) + " |"


def table() -> str:
    both: list[tuple[Capabilities, Capabilities]] = [
        (protocol(name).capabilities(FULL), protocol(name).capabilities(PLAIN)) for name in PROTOCOLS
    ]
    lines = ["| | " + " | ".join(PROTOCOLS) + " |", "|---" * (len(PROTOCOLS) + 1) + "|"]
    lines += [
        row(f"row: {fact}", [(fact in full.row, fact in plain.row) for full, plain in both]) for fact in ROW_FACTS
    ]
    lines.append(row("ddl", [(full.ddl is not None, plain.ddl is not None) for full, plain in both]))
    lines += [
        row(f"ddl: {fact}", [(fact in (full.ddl or ()), fact in (plain.ddl or ())) for full, plain in both])
        for fact in DDL_FACTS
    ]
    lines.append(row("watermark", [(full.watermark, plain.watermark) for full, plain in both]))
    lines.append(row("bootstrap", [(full.bootstrap, plain.bootstrap) for full, plain in both]))
    return "\n".join(lines)


def test_the_page_shows_what_the_codecs_say() -> None:
    assert table() in PAGE.read_text(), f"put this into {PAGE.name}:\n{table()}"
