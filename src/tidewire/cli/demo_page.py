"""The report of the demo: one HTML page with its charts inside; it loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidewire.cli.demo_run import Outcome, Pass

_WIDTH, _HEIGHT = 460, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 14, 34
_COLORS = ("#7aa6c2", "#9bbf85", "#d3a15f", "#b58bb8", "#c98b8b", "#8b9dc9")

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 62em; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.1em; margin: 0 0 .2em; }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 1.6em; }
section { border: 1px solid #ddd; border-radius: 8px; padding: 1em; }
svg { width: 100%; height: auto; } text { font-size: 11px; fill: #555; }
.right { color: #2a7d3c; } .wrong { color: #b3261e; font-weight: bold; } p { margin: .3em 0; } .note { color: #666; }
@media (prefers-color-scheme: dark) { body { background: #181a1b; color: #ddd; } section { border-color: #444; }
text { fill: #aaa; } .right { color: #7fce8f; } .wrong { color: #ff8a80; } .note { color: #999; } }
"""


def page(outcomes: Sequence[Outcome]) -> str:
    """The page."""
    sections = "\n".join(map(_section, outcomes))
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>tidewire: how the syncs went</title><style>{_STYLE}</style></head>
<body>
<h1>How the syncs went</h1>
<p>Thin lines are the watermarks of the partitions. The thick line is how far the tables are: never beyond the slowest
partition, so that they are whole at every moment. The dashed line is how far the upstream was; the gap is the lag.
Bars are the rows that had been read and had to wait for a watermark.</p>
<main>
{sections}
</main>
</body>
</html>
"""


def _section(outcome: Outcome) -> str:
    verdict, mark = ("right", "✓") if outcome.right else ("wrong", "✗")
    wrong = "".join(
        f'<p class="wrong">{escape(each.table)}: {escape(each.text)}</p>' for each in outcome.verdicts if not each.right
    )
    note = f'<p class="note">{escape(outcome.note)}</p>' if outcome.note else ""
    return f"""<section>
<h2>{escape(outcome.protocol)} <span class="{verdict}">{mark} {escape(outcome.summary)}</span></h2>
<p class="note">{outcome.messages} messages, {len(outcome.passes)} passes, {outcome.seconds:.1f} s</p>
{_drawing(outcome)}
{wrong}{note}
</section>"""


def _drawing(outcome: Outcome) -> str:
    passes = outcome.passes
    if not passes:
        return ""
    top = max(max(pass_.newest, pass_.applied, *pass_.watermarks.values(), 1.0) for pass_ in passes)
    scale = _Scale(len(passes), top)
    parts = [*_axes(scale, top), *_bars(scale, passes)]
    parts.append(scale.line([pass_.newest for pass_ in passes], "#999", 1.2, "upstream", dash="5 4"))
    if outcome.has_watermarks:
        for number, name in enumerate(sorted({name for pass_ in passes for name in pass_.watermarks})):
            values = [pass_.watermarks.get(name, 0.0) for pass_ in passes]
            parts.append(scale.line(values, _COLORS[number % len(_COLORS)], 1.5, f"watermark of {name}"))
        parts.append(scale.line([pass_.applied for pass_ in passes], "#2a7d3c", 3, "applied"))
    else:
        parts.append(f'<text x="{_LEFT + 8}" y="{_TOP + 14}">no watermarks: applied in the order of offsets</text>')
    label = f"progress of {outcome.protocol}"
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


class _Scale:
    """Maps passes and seconds to coordinates of a chart. Every line begins at 0, before the first pass."""

    def __init__(self, passes: int, top: float) -> None:
        self._passes = passes
        self._top = top

    def x(self, pass_: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * pass_ / self._passes

    def y(self, seconds: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * seconds / self._top

    def line(self, values: Sequence[float], color: str, width: float, title: str, dash: str = "") -> str:
        points = " ".join(f"{self.x(at):.1f},{self.y(value):.1f}" for at, value in enumerate([0.0, *values]))
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        return (
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="{width}"{dashes}>'
            f"<title>{escape(title)}</title></polyline>"
        )


def _axes(scale: _Scale, top: float) -> list[str]:
    parts = []
    for part in range(5):
        seconds = top * part / 4
        y = scale.y(seconds)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8884"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{seconds:.0f} s</text>')
    parts.append(f'<text x="{_WIDTH // 2}" y="{_HEIGHT - 4}" text-anchor="middle">passes</text>')
    return parts


def _bars(scale: _Scale, passes: Sequence[Pass]) -> list[str]:
    most = max((pass_.staged for pass_ in passes), default=0) or 1
    parts = []
    for number, pass_ in enumerate(passes, 1):
        x = scale.x(number)
        height = (_HEIGHT - _TOP - _BOTTOM) * 0.35 * pass_.staged / most
        title = f"pass {number}: {pass_.rows} rows applied, {pass_.staged} waiting"
        parts.append(
            f'<rect x="{x - 14:.1f}" y="{_HEIGHT - _BOTTOM - height:.1f}" width="10" height="{height:.1f}" '
            f'fill="#d3a15f88"><title>{title}</title></rect>'
        )
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - 18}" text-anchor="end">{number}</text>')
    return parts
