"""The forms for machines and for a browser."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.plot.figures import measure
from harness.plot.forms import Plot, draw
from harness.plot.placed import place
from harness.timeline import Costs
from pipeline.plan import Plan, build_plan
from pipeline.schedules import SCHEDULES
from tests.plot.conftest import Plot as Command

SVG = "{http://www.w3.org/2000/svg}"


def plotted(name: str, world: int = 4, chunks: int = 8) -> Plot:
    placed = place(build_plan(name, world, chunks), Costs())
    return Plot(placed, measure(placed))


def test_json_has_the_plan_and_its_figures(plot: Command) -> None:
    document = plot("1f1b", "-n", 2, "-c", 2, "--cost", "F=1,B=1", "--format", "json").json
    assert document == {
        "schedule": "1f1b",
        "world": 2,
        "chunks": 2,
        "costs": {"F": 1, "B": 1, "I": 1, "W": 1},
        "makespan": 6,
        "idle": [2, 2],
        "bubble": {"of_total": pytest.approx(1 / 3), "of_ideal": 0.5},
        "peak_in_flight": [2, 1],
        "policy": "batched",
        "semantics": {
            "buffered": "finishes",
            "gloo": "finishes",
            "nccl-eager capacity=0": "finishes",
            "nccl-eager capacity=inf": "finishes",
            "nccl-lazy capacity=0": "finishes",
            "nccl-lazy capacity=inf": "finishes",
        },
        "critical_path": ["0F0", "1F0", "1B0", "1F1", "1B1", "0B1"],
        "grid": [["0F0", "0F1", "", "0B0", "", "0B1"], ["", "1F0", "1B0", "1F1", "1B1", ""]],
        "omitted": {},
        "findings": [],
    }


def test_json_of_two_has_their_differences(plot: Command) -> None:
    document = plot("gpipe", "1f1b", "-w", 4, "-c", 8, "--format", "json").json
    assert [each["schedule"] for each in document["plots"]] == ["gpipe", "1f1b"]
    peak = next(each for each in document["differences"] if each["name"] == "peak in flight")
    assert peak == {"name": "peak in flight", "first": 8, "second": 4, "change": -4}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_csv_is_read_back_as_the_same_plan(name: str, folder: Path, plot: Command) -> None:
    assert plot(name, "-n", 4, "-c", 8, "--format", "csv", "-o", "plan.csv").status == 0
    plan = Plan.from_csv((folder / "plan.csv").read_text(), forward_only=name == "forward-only")
    assert plan.rows == build_plan(name, 4, 8).rows
    if name != "forward-only":
        given = plot(name, "-n", 4, "-c", 8, "--format", "json").json
        read = plot("plan.csv", "--format", "json").json
        assert read | {"schedule": name} == given


def test_a_csv_with_sends_keeps_them(folder: Path, plot: Command) -> None:
    text = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"
    (folder / "comms.csv").write_text(text)
    assert plot("comms.csv", "--format", "csv").stdout == text
    assert plot("comms.csv", "--format", "json").json["grid"] == [
        ["0F0", "", "", "", "0B0", "0B0"],
        ["", "1F0", "1B0", "1B0", "", ""],
    ]


@pytest.mark.parametrize("name", SCHEDULES)
def test_svg_is_well_formed_and_has_every_action(name: str) -> None:
    plot = plotted(name)
    root = ElementTree.fromstring(draw([plot], "svg"))
    tips = [tip.text or "" for tip in root.iterfind(f".//{SVG}rect/{SVG}title")]
    actions = [str(action) for row in plot.placed.plan.rows for action in row]
    assert sorted(tip.split()[0] for tip in tips) == sorted(actions)


def test_svg_of_two_shares_the_scale_of_time() -> None:
    root = ElementTree.fromstring(draw([plotted("naive"), plotted("1f1b")], "svg"))
    widths: dict[str, set[float]] = {"F": set(), "B": set()}
    for bar in root.iter(f"{SVG}rect"):
        if (tip := bar.find(f"{SVG}title")) is not None:
            kind = "F" if "F" in (tip.text or "") else "B"
            widths[kind].add(float(bar.get("width", "0")))
    assert [len(each) for each in widths.values()] == [1, 1]


def test_svg_shows_where_an_invalid_plan_stops() -> None:
    placed = place(Plan.from_csv("0F0,0B1,0F1,0B0\n1F0,1B0,1F1,1B1\n", "<&>"), Costs())
    root = ElementTree.fromstring(draw([Plot(placed, measure(placed))], "svg"))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"!0B1", "~1F1"} <= set(texts)
    assert len([r for r in root.iter(f"{SVG}rect") if r.get("class") == "s"]) == 2


def test_chrome_has_an_event_for_each_action() -> None:
    events = json.loads(draw([plotted("gpipe"), plotted("dualpipe")], "chrome"))["traceEvents"]
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == [
        "gpipe",
        "dualpipe",
    ]
    assert len([e for e in events if e["ph"] == "X" and e["pid"] == 0]) == 4 * 16
    first = next(e for e in events if e["ph"] == "X")
    assert (first["name"], first["ts"], first["dur"], first["tid"]) == ("0F0", 0, 1000, 0)
    assert first["args"] == {"kind": "F", "stage": [0], "microbatch": [0], "critical": True}


class Loads(HTMLParser):
    """Collects what a page would load from elsewhere, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [str(value) for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_one_file_with_the_drawing_and_the_figures() -> None:
    page = draw([plotted("gpipe"), plotted("1f1b")], "html")
    read = Loads()
    read.feed(page)
    assert read.loaded == []
    assert "0.2727 of total time" in read.text
    assert "peak in flight" in read.text
    start, end = page.index("<svg"), page.index("</svg>") + len("</svg>")
    ElementTree.fromstring(page[start:end])


def test_forms_for_machines_have_no_limit_of_a_terminal() -> None:
    for form in ("svg", "json", "chrome", "html"):
        assert draw([plotted("1f1b")], form, width=20) == draw([plotted("1f1b")], form)
