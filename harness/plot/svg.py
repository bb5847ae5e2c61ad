"""A plot as SVG: a bar for each action on its rank's line, on one scale of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from harness.plot.figures import Figures, Plotted, fraction, number
from harness.plot.marks import Marks
from harness.plot.palette import NAMES, WRONG, colour, colour_of, label
from harness.plot.placed import Placed, Step

ROW, GAP, LEFT, MARGIN = 24, 4, 64, 12  # pixels
HEAD, FOOT, BETWEEN = 30, 22, 22
LETTER = 6.7  # of a label's letters, the width
WIDEST = 16_000  # of the time scale; beyond it labels that do not fit are left out
TICKS = 12


def render_svg(plots: Sequence[Plotted]) -> str:
    """Return one document; several plans stand above each other on the same scale of time.

    Hatched red: wrong. A dashed frame: an action that never starts. A dark frame: on the
    critical path. What does not fit into a bar is in its tooltip.
    """
    longest = max(placed.makespan for placed, _ in plots)
    scale = _scale(plots, longest)
    stuck = any(placed.stuck for placed, _ in plots)
    width = LEFT + longest * scale + (90 if stuck else 0) + MARGIN
    height, body = float(MARGIN), []
    for placed, figures in plots:
        body += [
            f'<g transform="translate(0 {height:g})">',
            *_plan(placed, figures, scale, longest),
        ]
        body.append("</g>")
        height += HEAD + placed.plan.world * (ROW + GAP) + FOOT + BETWEEN
    body += _legend(plots, height)
    height += 26
    width = max(width, 760)
    return "\n".join([_start(plots, width, height), *body, "</svg>", ""])


def _start(plots: Sequence[Plotted], width: float, height: float) -> str:
    title = " and ".join(_title(placed) for placed, _ in plots)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" \
viewBox="0 0 {width:g} {height:g}" role="img">
<title>{escape(title)}</title>
<style>
text {{ font: 11px ui-monospace, Menlo, Consolas, monospace; fill: #111; }}
.t {{ font-weight: bold; font-size: 13px; }}
.a {{ fill: #666; }}
.c {{ stroke: #111; stroke-width: 1.5; }}
.w {{ fill: {WRONG}; }} .w + text {{ fill: #fff; }}
.s {{ fill: none; stroke: {WRONG}; stroke-width: 1.5; stroke-dasharray: 4 3; }}
</style>
<rect width="100%" height="100%" fill="#fff"/>"""


def _title(placed: Placed) -> str:
    plan = placed.plan
    return f"{plan.schedule} world={plan.world} chunks={plan.chunks}"


def _scale(plots: Sequence[Plotted], longest: float) -> float:
    """Return the pixels of one unit of time: as many as labels need, if that is not too many."""
    needed = max(
        (
            (len(label(action)) * LETTER + 8) / (end - start)
            for placed, _ in plots
            for rank in range(placed.plan.world)
            for action, (start, end) in placed.running(rank)
            if end > start
        ),
        default=1.0,
    )
    return min(needed, WIDEST / longest) if longest else needed


def _plan(placed: Placed, figures: Figures, scale: float, longest: float) -> Iterator[str]:
    bubble = placed.bubble
    told = (
        f"{_title(placed)}: makespan {number(placed.makespan)}, bubble "
        f"{fraction(bubble.of_total)} of total, {fraction(bubble.of_ideal)} of ideal time, "
        f"peak in flight {max(placed.peaks)}"
    )
    yield f'<text class="t" x="{MARGIN}" y="14">{escape(told)}</text>'
    critical, marks = set(figures.path), Marks(placed)
    for rank in range(placed.plan.world):
        yield f'<g transform="translate({LEFT} {HEAD + rank * (ROW + GAP)})">'
        yield f'<text x="{MARGIN - LEFT}" y="16">rank {rank}</text>'
        yield f'<rect width="{longest * scale:g}" height="{ROW}" fill="#f1f1f1"/>'
        yield from _row(placed, rank, scale, critical, marks)
        yield "</g>"
    yield from _axis(scale, longest, HEAD + placed.plan.world * (ROW + GAP))


def _row(
    placed: Placed, rank: int, scale: float, critical: set[Step], marks: Marks
) -> Iterator[str]:
    for at, (action, (start, end)) in enumerate(placed.running(rank)):
        if end <= start:
            continue
        name, x, width = label(action), start * scale, (end - start) * scale
        kinds = ["w"] * bool(marks.of(action)) + ["c"] * ((rank, at) in critical)
        looks = f' class="{" ".join(kinds)}"' if kinds else ""
        tip = escape(f"{action} {number(start)}–{number(end)}")
        yield (
            f'<rect x="{x:.6g}" width="{width:.6g}" height="{ROW}" fill="{colour_of(action)}"'
            f"{looks}><title>{tip}</title></rect>"
        )
        if len(name) * LETTER <= width:
            yield f'<text x="{x + width / 2:.6g}" y="16" text-anchor="middle">{name}</text>'
    if (stuck := marks.stuck(rank)) is not None:
        mark, action = stuck
        spans = placed.spans[rank]
        x = (spans[-1][1] if spans else 0.0) * scale + 2
        name = mark + label(action)
        size = f'width="{len(name) * LETTER + 8:g}" height="{ROW - 2}"'
        yield f'<rect class="s" x="{x:.6g}" y="1" {size}/>'
        yield f'<text x="{x + 4:.6g}" y="16">{escape(name)}</text>'


def _axis(scale: float, longest: float, y: float) -> Iterator[str]:
    for tick in _ticks(longest):
        x = LEFT + tick * scale
        at = f'x="{x:.6g}" y="{y + 12:g}" text-anchor="middle"'
        yield f'<text class="a" {at}>{number(tick)}</text>'


def _ticks(longest: float) -> list[float]:
    """Return round times, about a dozen of them."""
    if longest <= 0:
        return [0.0]
    step = 10.0 ** len(str(int(longest)))
    for factor in (2, 2.5, 2) * 12:
        if longest / step >= TICKS / 2:
            break
        step /= factor
    return [round(step * place, 9) for place in range(int(longest / step + 1e-9) + 1)]


def _legend(plots: Sequence[Plotted], y: float) -> Iterator[str]:
    kinds = {kind for placed, _ in plots for kind in placed.plan.coded.kinds}
    x = float(MARGIN)
    for kind, name in NAMES.items():
        if kind in kinds:
            yield f'<rect x="{x:g}" y="{y:g}" width="14" height="14" fill="{colour(kind, 0)}"/>'
            yield f'<text x="{x + 19:g}" y="{y + 11:g}">{name}</text>'
            x += 19 + len(name) * LETTER + 18
    more = "dark frame: critical path; shades: microbatches"
    yield f'<text class="a" x="{x:g}" y="{y + 11:g}">{more}</text>'
