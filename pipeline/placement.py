"""Which rank holds which stage, and what that says of a stage's neighbours."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.plan import Plan


@dataclass(frozen=True)
class Placement:
    """`ranks[stage]` is a stage's rank. Of two directions the stages are two pipelines.

    Each direction has the model once: its stages are numbered on from the other's, and stage `s`
    and stage `s + depth` are copies of one slice, with the same parameters
    (:class:`pipeline.plan.Plan`). ValueError for stages that are not as many in each direction.
    """

    ranks: tuple[int, ...]
    directions: int = 1

    def __post_init__(self) -> None:
        if not self.ranks or len(self.ranks) % self.directions:
            raise ValueError(
                f"{len(self.ranks)} stages cannot be {self.directions} pipelines of equal length"
            )

    @classmethod
    def one_each(cls, world: int) -> "Placement":
        """Place one stage on each rank, in order."""
        return cls(tuple(range(world)))

    @property
    def depth(self) -> int:
        """How many stages a microbatch goes through: slices that the model is cut in."""
        return len(self.ranks) // self.directions

    def held_by(self, rank: int) -> tuple[int, ...]:
        """Return the numbers of a rank's stages, in order."""
        return tuple(stage for stage, holder in enumerate(self.ranks) if holder == rank)

    def slice_of(self, stage: int) -> int:
        """Return which slice of the model a stage is."""
        return stage % self.depth

    def is_first(self, stage: int) -> bool:
        """Whether a stage takes the batch's inputs."""
        return self.slice_of(stage) == 0

    def is_last(self, stage: int) -> bool:
        """Whether a stage ends with the loss."""
        return self.slice_of(stage) == self.depth - 1

    def neighbour(self, stage: int, distance: int) -> int | None:
        """Return the stage after (+1) or before (-1) one in its pipeline; None at the ends."""
        if not 0 <= self.slice_of(stage) + distance < self.depth:
            return None
        return stage + distance

    def copies(self, stage: int) -> tuple[int, ...]:
        """Return the stages, itself among them, that have a stage's slice of the model."""
        return tuple(range(self.slice_of(stage), len(self.ranks), self.depth))

    def mirror(self, rank: int) -> int | None:
        """Return the one other rank that has copies of all of a rank's stages; None where none.

        ValueError where its stages have their copies on several ranks.
        """
        others = {
            self.ranks[copy]
            for stage in self.held_by(rank)
            for copy in self.copies(stage)
            if copy != stage
        }
        if not others:
            return None
        if len(others) > 1 or rank in others:
            raise ValueError(f"rank {rank} has copies of its stages on ranks {sorted(others)}")
        return others.pop()


def placement_of(plan: "Plan") -> Placement:
    """Return where a plan has its stages."""
    return Placement(plan.placement, plan.directions)


def looped(world: int, stages_per_rank: int = 2) -> tuple[int, ...]:
    """Place the stages round after round: rank r holds r, r + world, and so on."""
    return tuple(range(world)) * stages_per_rank


def v_shaped(world: int) -> tuple[int, ...]:
    """Place the stages there and back: rank r holds r and 2 world - 1 - r."""
    return (*range(world), *reversed(range(world)))


PLACEMENTS: dict[str, Callable[[int], tuple[int, ...]]] = {
    "looped": looped,
    "v": v_shaped,
}
"""world → the rank of each stage, by name: two on each rank, round after round or in a V."""
