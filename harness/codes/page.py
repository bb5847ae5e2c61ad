"""A code's page, and the list of all, as ``harness explain`` prints them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from harness.codes import CODES
from harness.codes.code import Code

WIDTH = 88


def sections(code: Code) -> Iterator[tuple[str, str]]:
    """Yield a page's sections in order: title and text; the two examples are Python."""
    yield "What it means", _paragraph(code.meaning)
    yield "Why it is bad", _paragraph(code.why)
    yield "Example", code.example
    yield "Instead", code.instead
    yield "How to fix it", _paragraph(code.fix)
    yield "Shown by", shown_by(code)


def shown_by(code: Code) -> str:
    """Name the backends that can show it."""
    return ", ".join(f"--backend {name}" for name in code.backends)


def render_page(code: Code) -> str:
    """Return the page as plain text."""
    parts = [f"{code.name} ({code.severity})\n{code.summary}"]
    for title, text in sections(code):
        parts.append(f"{title}\n{textwrap.indent(text, '  ')}")
    return "\n\n".join(parts)


def render_list() -> str:
    """Return every code with its line, warnings marked."""
    width = max(map(len, CODES))
    lines = [f"{code.name:{width}}  {code.summary}{_remark(code)}" for code in CODES.values()]
    return "\n".join([*lines, "", "harness explain CODE says more about one."])


def _remark(code: Code) -> str:
    return " (warning)" if code.severity == "warning" else ""


def render_markdown() -> str:
    """Return every code's page as one document: ``docs/codes.md``."""
    rows = [f"| [`{c.name}`](#{c.name}) | {c.severity} | {c.summary} |" for c in CODES.values()]
    parts = [
        "# Finding codes",
        "What `harness explain CODE` prints, for every code. Made from where they are defined, by\n"
        "`python -m harness.codes.page > docs/codes.md`.",
        "\n".join(["| code | severity | what it says |", "|---|---|---|", *rows]),
    ]
    for code in CODES.values():
        parts.append(f"## {code.name}\n\n{code.summary[0].upper()}{code.summary[1:]}.")
        for title, text in sections(code):
            is_code = title in ("Example", "Instead")
            parts.append(f"**{title}**\n\n" + (f"```python\n{text}\n```" if is_code else text))
    return "\n\n".join(parts) + "\n"


def show_rich(code: Code) -> None:
    """Print the page on a terminal, with its examples highlighted."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.syntax import Syntax
    from rich.text import Text

    console = Console()
    colour = "yellow" if code.severity == "warning" else "red"
    console.print(Text.assemble((code.name, f"bold {colour}"), f" ({code.severity})"))
    console.print(Text(code.summary))
    for title, text in sections(code):
        console.print()
        console.print(Text(title, style="bold"))
        is_code = title in ("Example", "Instead")
        body = Syntax(text, "python", background_color="default") if is_code else Text(text)
        console.print(Padding(body, (0, 0, 0, 2)))


def _paragraph(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, break_on_hyphens=False)


if __name__ == "__main__":
    print(render_markdown(), end="")
