"""What the user named, as something that a world's ranks can load (DESIGN: "Targets").

The command's own process never imports the user's code: files are read as text
(:mod:`harness.targets.signature`), and what that cannot tell is asked of a rank
(:mod:`harness.targets.parse`).
"""

from harness.targets.parse import (
    Describe,
    Description,
    TargetLike,
    confirm,
    describe_in,
    parse_target,
)
from harness.targets.signature import Command, Kind, Signature, TargetError
from harness.targets.stages import placement_of_step
from harness.targets.target import Target, from_callable, pickled_build_stage, read_plan

__all__ = [
    "Command",
    "Describe",
    "Description",
    "Kind",
    "Signature",
    "Target",
    "TargetError",
    "TargetLike",
    "confirm",
    "describe_in",
    "from_callable",
    "parse_target",
    "pickled_build_stage",
    "placement_of_step",
    "read_plan",
]
