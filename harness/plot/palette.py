"""The colours: a hue for each kind of action, a shade for each microbatch."""

from __future__ import annotations

import colorsys
import functools

from pipeline.actions import Action, Kind

_HUES = {Kind.F: 212, Kind.B: 140, Kind.I: 172, Kind.W: 46, Kind.OVERLAP_F_B: 282}
_SHADES = (0.80, 0.68, 0.74, 0.62)
WRONG = "#d01c2a"
NAMES = {
    Kind.F: "F forward",
    Kind.B: "B backward",
    Kind.I: "I input gradient",
    Kind.W: "W weight gradient",
    Kind.OVERLAP_F_B: "F and B at once",
}


def colour_of(action: Action) -> str:
    """Return the background for an action, as ``#rrggbb``; black is readable on each."""
    return colour(action.kind, action.parts[0].microbatch)


@functools.lru_cache(maxsize=256)
def colour(kind: Kind, microbatch: int) -> str:
    """Return the colour of a kind and a microbatch; comms are grey."""
    hue = _HUES.get(kind, 0) / 360
    saturation = 0.65 if kind in _HUES else 0.0
    red, green, blue = colorsys.hls_to_rgb(hue, _SHADES[microbatch % len(_SHADES)], saturation)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def label(action: Action) -> str:
    """Print an action; an overlapped pair without the name that its form says already."""
    return ";".join(map(str, action.parts))
