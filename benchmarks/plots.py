"""Plots of what was measured, readable on white and on black."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tables import GO_DECODE, Rows

INK = "#767676"
"""The grey that stands out alike from a white and from a black page: about four to one from either."""

BLUE, ORANGE, GREEN, RED = "#3b82c4", "#d9822b", "#3a9a5b", "#cf4444"
PLAIN = "#9a9a9a"

STYLE: dict[str, Any] = {
    "svg.fonttype": "path",  # looks the same where a font is missing
    "svg.hashsalt": "tidewire",  # and the file stays the same where nothing changed
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
WIDTHS = {"narrow": "6 columns", "wide": "31 columns"}
BAR = 0.38

style.use(STYLE)


def decode(rows: Rows) -> Figure:
    """Each protocol's ratio to the yardstick with its limit, and the Go reference's."""
    figure, panels = paired(rows, height=4.0)
    for width, (axes, found) in panels.items():
        cases = [row["case"] for row in found]
        places = range(len(cases))
        axes.barh([at - BAR / 2 for at in places], [row["ratio"] for row in found], BAR, color=BLUE, label="tidewire")
        go = [(at, GO_DECODE[width][case]) for at, case in enumerate(cases) if case in GO_DECODE[width]]
        axes.barh([at + BAR / 2 for at, _ in go], [ratio for _, ratio in go], BAR, color=PLAIN, label="Go, elsewhere")
        limits = [row["limit"] for row in found]
        axes.plot(
            limits, [at - BAR / 2 for at in places], "|", color=RED, markersize=12, markeredgewidth=2, label="limit"
        )
        finished(axes, cases, "CPU time per row, json.loads of the Canal-JSON row = 1")
    legend(figure, panels)
    return figure


def encode(rows: Rows) -> Figure:
    """Each protocol's CPU time per row with the native kernel, and with the readable codec."""
    figure, panels = paired(rows, height=4.0)
    for axes, found in panels.values():
        places = range(len(found))
        for offset, key, colour, label in (
            (-BAR / 2, "encode_ns", GREEN, "native kernel"),
            (BAR / 2, "codec_ns", PLAIN, "readable codec"),
        ):
            axes.barh([at + offset for at in places], [row[key] / 1e3 for row in found], BAR, color=colour, label=label)
        finished(axes, [row["case"] for row in found], "CPU time per row, µs")
    legend(figure, panels)
    return figure


def peers(rows: Rows) -> Figure:
    """CPU time per row of every decoder, tidewire's first within each protocol."""
    figure, panels = paired(rows, height=6.4)
    for axes, found in panels.values():
        bars = decoders(found)
        for colour, label in ((BLUE, "tidewire"), (PLAIN, "peer")):
            chosen = [at for at, (_, _, ours) in enumerate(bars) if ours == (label == "tidewire")]
            times = [bars[at][1] for at in chosen]
            drawn = axes.barh(chosen, times, 0.7, color=colour, label=label)
            axes.bar_label(drawn, [f"{time:.1f}" for time in times], padding=3, fontsize=8)
        finished(axes, [name for name, _, _ in bars], "CPU time per row, µs")
        axes.margins(x=0.12)
    legend(figure, panels)
    return figure


def decoders(rows: Rows) -> list[tuple[str, float, bool]]:
    """Name, microseconds a row and is it tidewire? of each decoder once."""
    found: dict[tuple[str, str], tuple[str, float, bool]] = {}
    for case in dict.fromkeys(row["case"] for row in rows):
        for key, name, ours in (("tidewire_ns", "against", True), ("peer_ns", "peer", False)):
            for row in rows:
                if row["case"] == case:
                    found[case, row[name]] = (f"{case}: {row[name]}", row[key] / 1e3, ours)
    return list(found.values())


def memory(rows: Rows) -> Figure:
    """Peak memory as a ratio to the size of the messages, with the limit."""
    figure = Figure(figsize=(6, 2.9), layout="constrained")
    axes = figure.subplots()
    axes.barh(range(len(rows)), [row["ratio"] for row in rows], 0.6, color=BLUE, label="peak")
    axes.axvline(max(row["limit"] for row in rows), color=RED, linewidth=2, label="limit")
    finished(axes, [row["case"] for row in rows], "peak memory, size of the messages = 1")
    legend(figure, {"": (axes, rows)})
    return figure


def pipelines(rows: Rows) -> Figure:
    """Rows per CPU-second of each way, a panel for each width."""
    measured = [row for row in rows if "ratio" in row and "columns" in row]
    widths = list(dict.fromkeys(row["columns"] for row in measured))
    figure = Figure(figsize=(10, 2.2), layout="constrained")
    for axes, width in zip(figure.subplots(1, len(widths), sharey=True, squeeze=False).ravel(), widths, strict=True):
        found = [row for row in measured if row["columns"] == width]
        rates = [row["rows_per_cpu_second"] / 1e3 for row in found]
        drawn = axes.barh(range(len(found)), rates, 0.6, color=[BLUE, *[PLAIN] * (len(found) - 1)])
        axes.bar_label(drawn, [f"{rate:.1f}" for rate in rates], padding=3, fontsize=8)
        axes.set_title(f"{width} columns", fontsize=10)
        finished(axes, [row["way"] for row in found], "thousand rows per CPU-second")
        axes.margins(x=0.12)
    return figure


GROWTH = {
    "tables": "tables there are, one changes",
    "busy": "tables that all change, 100 rows each",
    "partitions": "partitions the rows are spread over",
    "rows": "rows the table has, 1 000 change",
    "transaction": "rows of one transaction",
}

TITLES = {
    "tables": "tables that stand still",
    "busy": "tables that change",
    "partitions": "partitions",
    "rows": "rows in the table",
    "transaction": "rows in a transaction",
}


def growth(rows: Rows) -> Figure:
    """CPU time per batch against what grows, with a line for growth in proportion, and the batches one by one."""
    questions = [question for question in GROWTH if any(row["question"] == question for row in rows)]
    by_batch = [row for row in rows if row["question"] == "files"]
    count = len(questions) + (2 if by_batch else 0)
    figure = Figure(figsize=(10, 2.8 * -(-count // 3)), layout="constrained")
    panels = figure.subplots(-(-count // 3), 3, squeeze=False).ravel()
    for axes in panels[count:]:
        axes.set_visible(False)
    for axes, question in zip(panels, questions, strict=False):
        found = [row for row in rows if row["question"] == question]
        sizes, seconds = [row["size"] for row in found], [row["cpu"] for row in found]
        axes.loglog(sizes, seconds, "o-", color=BLUE, label="measured")
        axes.loglog(sizes, [seconds[0] * size / sizes[0] for size in sizes], ":", color=PLAIN, label="in proportion")
        axes.set_ylim(min(seconds) / 3, max(seconds) * 10)
        sketched(axes, GROWTH[question], "CPU-seconds a batch")
        axes.set_title(f"More {TITLES[question]}", fontsize=10)
        axes.legend(fontsize=8)
    for row in by_batch:
        colour = {"with": GREEN, "without": ORANGE}[row["way"]]
        times, files = panels[count - 2], panels[count - 1]
        times.plot(row["times"][2:], color=colour, linewidth=0.9, label=f"{row['way']} maintenance")
        files.bar(row["way"], row["live"], 0.6, color=colour)
        times.legend(fontsize=8)
        sketched(times, "batch", "CPU-seconds a batch")
        sketched(files, "maintenance", "files a reader opens")
        times.set_title("One small batch after the other", fontsize=10)
        files.set_title("Files after the last batch", fontsize=10)
    return figure


def sketched(axes: Axes, across: str, up: str) -> None:
    """Axes with their names and a faint grid."""
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(axis="y", color=INK, alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)


def paired(rows: Rows, *, height: float) -> tuple[Figure, dict[str, tuple[Axes, Rows]]]:
    """A panel for each width, with its rows."""
    figure = Figure(figsize=(10, height), layout="constrained")
    panels = figure.subplots(1, len(WIDTHS), sharey=True)
    for axes, title in zip(panels, WIDTHS.values(), strict=True):
        axes.set_title(title, fontsize=10)
    found = ([row for row in rows if row["width"] == width] for width in WIDTHS)
    return figure, dict(zip(WIDTHS, zip(panels, found, strict=True), strict=True))


def finished(axes: Axes, names: Sequence[str], label: str) -> None:
    """The axes with names from the top down, and what the bars say."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel(label)
    axes.grid(axis="x", color=INK, alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)


def legend(figure: Figure, panels: Mapping[str, tuple[Axes, Rows]]) -> None:
    axes, _ = next(iter(panels.values()))
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))


def save(figure: Figure, path: Path) -> None:
    """Write it without a background and without a date."""
    figure.savefig(path, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
