"""Tables of what was measured, as Markdown that a terminal can show as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Row = Mapping[str, Any]
Rows = Sequence[Row]

GO_DECODE: Mapping[str, Mapping[str, float]] = {
    "narrow": {
        "canal-json": 1.54,
        "open-protocol": 1.88,
        "simple-json": 0.71,
        "simple-avro": 0.66,
        "craft, 16 rows": 0.63,
    },
    "wide": {
        "canal-json": 2.33,
        "open-protocol": 2.76,
        "simple-json": 0.91,
        "simple-avro": 0.84,
        "craft, 16 rows": 0.77,
    },
}
"""TiCDC's own decoders on the same bytes in the same unit, the faster of two generations, timed on another machine."""


class Column(NamedTuple):
    """A heading, and what stands under it for a row."""

    heading: str
    text: Callable[[Row], str]


def named(heading: str, key: str) -> Column:
    return Column(heading, lambda row: str(row[key]))


def number(heading: str, key: str, form: str = ",.0f") -> Column:
    return Column(heading, lambda row: format(row[key], form))


def per_second(key: str) -> Column:
    return Column("rows per CPU-second", lambda row: f"{1e9 / row[key]:,.0f}")


def checked(heading: str, key: str, good: str, bad: str) -> Column:
    return Column(heading, lambda row: good if row[key] else f"**{bad}**")


def optional(heading: str, key: str, form: str) -> Column:
    return Column(heading, lambda row: format(row[key], form) if key in row else "–")


MOST = "most_"
"""How the name of a limit begins: what has the rest of the name may not be more."""


def limits(row: Row) -> dict[str, float]:
    """The most that values may be, by their names."""
    found = {key.removeprefix(MOST): row[key] for key in row if key.startswith(MOST)}
    return found | ({"ratio": row["limit"]} if "limit" in row else {})


def is_limited(row: Row) -> bool:
    """Is there a most or a least that a value may be?"""
    return bool(limits(row)) or "least" in row


def is_beyond(row: Row) -> bool:
    """Is what was measured more than the most, or less than the least it may be?"""
    too_much = any(row[key] > most for key, most in limits(row).items())
    return too_much or bool("least" in row and row["ratio"] < row["least"])


def held(row: Row) -> str:
    """The ratio, bold where it is beyond its limit."""
    if "ratio" not in row:
        return "–"
    beyond = row["ratio"] > row.get("limit", row["ratio"]) or row["ratio"] < row.get("least", row["ratio"])
    return f"**{row['ratio']:.2f}**" if beyond else f"{row['ratio']:.2f}"


def limited(heading: str, key: str, form: str) -> Column:
    """A value, bold where it is more than the most it may be, and that; a dash where it was not measured."""

    def text(row: Row) -> str:
        if key not in row:
            return "–"
        value, most = format(row[key], form), row.get(MOST + key)
        return value if most is None or row[key] <= most else f"**{value}**"

    return Column(heading, text)


def go_decode(row: Row) -> str:
    found = GO_DECODE[row["width"]].get(row["case"])
    return "–" if found is None else f"{found:.2f}"


MEASURED = Column("measured", held)
LIMIT = number("limit", "limit", ".2f")
PROTOCOL = named("protocol", "case")
WIDTH = named("width", "width")

DECODE = (
    PROTOCOL,
    WIDTH,
    number("ns a row", "arrow_ns"),
    per_second("arrow_ns"),
    MEASURED,
    LIMIT,
    Column("Go", go_decode),
    number("readable codec, ns", "codec_ns"),
)
NATIVE = (
    PROTOCOL,
    WIDTH,
    number("ns a row", "arrow_ns"),
    per_second("arrow_ns"),
    number("measured", "ratio", ".3f"),
    number("limit", "limit", ".3f"),
    number("Python kernel, ns", "python_ns"),
    number("Python kernel, measured", "python_ratio", ".2f"),
)
ENCODE = (
    PROTOCOL,
    WIDTH,
    number("ns a row", "encode_ns"),
    per_second("encode_ns"),
    number("readable codec, ns", "codec_ns"),
    MEASURED,
    number("least", "least", ".0f"),
    checked("bytes", "equal", "equal", "different"),
)
FETCH = (
    named("way", "way"),
    number("ns a message", "fetch_ns"),
    MEASURED,
    optional("limit", "limit", ".2f"),
    optional("objects a message", "objects", ".1f"),
)
PEERS = (
    PROTOCOL,
    WIDTH,
    named("peer", "peer"),
    number("its ns a row", "peer_ns"),
    per_second("peer_ns"),
    named("against", "against"),
    number("ns a row", "tidewire_ns"),
    number("ratio", "ratio", ".2f"),
    named("the peer gives", "gives"),
)
MEMORY = (PROTOCOL, number("input, MB", "input_mb", ".1f"), number("peak, MB", "peak_mb", ".1f"), MEASURED, LIMIT)
SIZES = (
    named("case", "case"),
    named("rows", "rows"),
    named("Craft", "craft"),
    named("document", "document_craft"),
    named("Open Protocol", "json"),
    named("document", "document_json"),
    number("ratio", "ratio", ".2f"),
)
PIPELINES = (
    named("way", "way"),
    number("columns", "columns"),
    number("rows per CPU-second", "rows_per_cpu_second"),
    number("CPU-seconds a batch", "cpu", ".1f"),
    optional("stage", "stage", ".1f"),
    limited("apply", "apply", ".2f"),
    optional("at most", "most_apply", ".1f"),
    Column("tidewire does", held),
    optional("at least", "least", ".1f"),
    checked("table", "right", "right", "wrong"),
)
FRAMES = (
    named("way", "way"),
    number("columns", "columns"),
    number("rows per CPU-second", "rows_per_cpu_second"),
    number("CPU-seconds", "cpu", ".2f"),
    MEASURED,
    optional("limit", "limit", ".2f"),
    limited("own", "own", ".2f"),
    optional("at most", "most_own", ".2f"),
)
CHANGEFEED = (
    number("rows", "rows"),
    number("ns a row", "row_ns"),
    number("`json.dumps`, ns", "dumps_ns"),
    MEASURED,
    LIMIT,
    number("grew by, MiB", "growth_mib", ".0f"),
)

_MORE = {
    "created": "all tables made in {:.1f} s",
    "state": "state {:,} bytes a batch",
    "way": "{} maintenance",
    "live": "{:,} files in use",
    "on_disk": "{:,} files on disk",
    "last": "{:.2f} CPU-s at the end",
    "upkeep": "{:.1f} s of maintenance in all",
    "memory": "driver {:,} MB at most",
}
FRESHNESS = (
    number("tables", "tables"),
    number("changes a second", "rate", ",.0f"),
    limited("CPU-seconds a minute", "cpu_a_minute", ",.1f"),
    number("at most", "most_cpu_a_minute", ",.0f"),
    number("lag, median, s", "median_lag", ",.1f"),
    limited("95th percentile, s", "lag_95", ",.1f"),
    number("at most, s", "most_lag_95", ",.0f"),
)
LOAD = (
    named("way", "way"),
    number("rows", "rows"),
    number("MB of CSV", "csv_mb"),
    number("seconds", "seconds", ",.1f"),
    number("rows per CPU-second", "rows_per_cpu_second"),
    optional("at least", "least_rate", ",.0f"),
    number("times pyspark", "times", ".2f"),
    number("a worker at most, MB", "worker_mb", ","),
)
COLD = (
    number("changes", "rows"),
    number("seconds", "seconds", ",.1f"),
    limited("CPU-seconds", "cpu", ",.1f"),
    optional("at most", "most_cpu", ",.0f"),
)
GROWTH = (
    named("what grows", "question"),
    number("to", "size"),
    number("seconds a batch", "seconds", ",.2f"),
    number("CPU-seconds", "cpu", ",.2f"),
    Column("times the first", held),
    optional("at most", "limit", ".1f"),
    limited("a further table", "a_table", ".3f"),
    optional("at most", "most_a_table", ".2f"),
    Column("besides", lambda row: ", ".join(text.format(row[key]) for key, text in _MORE.items() if key in row)),
)


def pipelines(rows: Rows) -> str:
    """A line for each way from a topic to a table, and a sentence about memory."""
    text = listed(PIPELINES, [row for row in rows if row["way"] != "memory"])
    for row in rows:
        if row["way"] == "memory":
            small, large = row["memory_mb"]
            text += f"\n\nThe driver took {small} MB at most, and for ten times the topic {large} MB."
    return text


def listed(columns: Sequence[Column], rows: Rows) -> str:
    """A line for each row."""
    return markdown([column.heading for column in columns], [[column.text(row) for column in columns] for row in rows])


def rejects(rows: Rows) -> str:
    """A line for each kind of bad message, a column for each protocol, marked where other messages were rejected."""
    cases, kinds = (list(dict.fromkeys(row[key] for row in rows)) for key in ("case", "kind"))
    found = {(row["case"], row["kind"]): held(row) + ("" if row["exact"] else " **others**") for row in rows}
    return markdown(["kind", *cases], [[kind, *(found.get((case, kind), "–") for case in cases)] for kind in kinds])


def markdown(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table with its columns padded; those of numbers stand to the right."""
    cells = [list(headings), *map(list, lines)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [all(is_number(text) for text in column[1:]) for column in zip(*cells, strict=True)]
    rule = ["-" * (width - 1) + ":" if to_right else "-" * width for width, to_right in zip(widths, right, strict=True)]
    padded = [
        [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ]
        for line in cells
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [padded[0], rule, *padded[1:]])


def is_number(text: str) -> bool:
    return not text.strip("0123456789.,*–")
