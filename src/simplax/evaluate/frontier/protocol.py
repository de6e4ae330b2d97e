"""What a frontier covers: temperatures, numbers of network calls, samples per point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simplax.errors import UserError
from simplax.samplers.transforms import check_temperature


@dataclass(frozen=True)
class Protocol:
    """Every model is sampled `num` times at every temperature and every number of `steps`."""

    name: str
    temperatures: tuple[float, ...]
    steps: tuple[int, ...]
    num: int

    def __post_init__(self) -> None:
        if not self.temperatures or not self.steps:
            raise UserError("a frontier needs at least one temperature and one number of steps.")
        for value in self.temperatures:
            check_temperature(value)
        if min(self.steps) < 1:
            raise UserError(f"numbers of steps must be at least 1, got {min(self.steps)}.")
        if self.num < 2:
            raise UserError(f"a point needs at least 2 samples, got {self.num}.")


PROTOCOLS: dict[str, Protocol] = {
    # the paper's range with 1 among them, at a size that two cores get through
    "mini": Protocol("mini", (0.84, 0.92, 1.0, 1.06, 1.12), (8, 32, 128), 128),
    "paper": Protocol(
        "paper", tuple(round(0.84 + 0.02 * i, 2) for i in range(15)), tuple(8 << i for i in range(8)), 1024
    ),
}


def choose(
    name: str,
    temperatures: Sequence[float] | None = None,
    steps: Sequence[int] | None = None,
    num: int | None = None,
) -> Protocol:
    """The protocol of that name with whatever is said otherwise; a changed one says so in its name."""
    known = PROTOCOLS[name]
    changed = replace(
        known,
        temperatures=known.temperatures if temperatures is None else tuple(sorted(set(temperatures))),
        steps=known.steps if steps is None else tuple(sorted(set(steps))),
        num=known.num if num is None else num,
    )
    return changed if changed == known else replace(changed, name=f"{name}, changed")
