"""A plot as one HTML file, with nothing to load from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from harness.findings import Finding
from harness.plot.figures import Figures, Plotted, caution, differences
from harness.plot.path import FIRST, LAST
from harness.plot.placed import Placed
from harness.plot.problems import finding_lines
from harness.plot.svg import render_svg
from harness.plot.table import difference_rows
from harness.plot.text import MEANING, figure_lines, figure_table

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color: #111; background: #fff; }
figure { overflow-x: auto; margin: 1rem 0; border: 1px solid #ddd; }
svg { display: block; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child, td:last-child { text-align: left; }
pre, code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 13px; }
.error { color: #b00; white-space: pre-wrap; }
"""


def render_html(plots: Sequence[Plotted], findings: Sequence[Sequence[Finding]]) -> str:
    """Return the page: the drawing, each plan's figures and problems, the differences."""
    titles = [f"{p.plan.schedule} world={p.plan.world} chunks={p.plan.chunks}" for p, _ in plots]
    title = escape(" and ".join(titles))
    body = [f"<h1>{title}</h1>", f"<figure>\n{render_svg(plots)}</figure>"]
    if len(plots) == 2:
        names = [placed.plan.schedule for placed, _ in plots]
        rows = difference_rows(names, differences(*plots))
        body += ["<h2>Differences</h2>", *_table(rows), f"<p>{escape(caution(plots))}</p>"]
    for (placed, figures), found, name in zip(plots, findings, titles, strict=True):
        body += [f"<h2>{escape(name)}</h2>", *_section(placed, figures, found)]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
{chr(10).join(body)}
</body>
</html>
"""


def _section(placed: Placed, figures: Figures, findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f'<pre class="error">{escape(chr(10).join(finding_lines(placed, finding)))}</pre>'
    for line in figure_lines(placed, figures):
        yield f"<div>{escape(line)}</div>"
    yield from _table(figure_table(placed, figures))
    yield f"<p>{escape(MEANING)}</p>"
    if len(figures.path) > FIRST + LAST:
        path = escape(" ".join(figures.path.names))
        yield f"<details><summary>The whole critical path</summary><code>{path}</code></details>"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "<table>"
    for place, row in enumerate(rows):
        tag = "td" if place else "th"
        yield "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"
    yield "</table>"
