"""Held-out human text: what samples are compared with, and how far human text lies from itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from simplax.errors import UserError
from simplax.evaluate.text import distances, repetition
from simplax.evaluate.text.controls import Control, Marks, every_control
from simplax.evaluate.text.evidence import COLUMNS, Columns, Evidence, exp, gather
from simplax.evaluate.text.scorers import Scorer
from simplax.io.files import write_tensors

FORMAT = "simplax-text-reference-1"
DRAWS = 200
PERCENTILE = 0.95
Null = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Reference:
    """Human rows: the first `size` of the `pool` are kept apart (`half`), the others are the anchors.

    Every set is compared with the anchors, and its distance read against `draws` random splits of all rows into a set
    of the same size and as many others. A set may have at most `size` samples. `end` is the symbol behind which a row
    is padding, if its text has an end.
    """

    pool: Evidence
    size: int
    draws: int = DRAWS
    seed: int = 0
    scorer: dict[str, object] = field(default_factory=dict)
    end: int | None = None
    _nulls: dict[int, Null] = field(default_factory=dict, repr=False)

    @staticmethod
    def build(
        rows: Tensor,
        decode: Callable[[Tensor], list[str]],
        scorer: Scorer,
        *,
        size: int | None = None,
        draws: int = DRAWS,
        seed: int = 0,
        end: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Reference:
        """Score held-out rows (n, L); half of them become anchors unless `size` says how many are kept apart.

        Give rows from all over the held-out text, in its order: those kept apart are taken at even distances, so that
        they and the anchors cover it alike. Neighbours of one document are more alike than two samples ever are.
        """
        kept = len(rows) // 2 if size is None else size
        if kept < 2 or len(rows) - kept < 2:
            raise UserError(
                f"comparing {kept} samples needs at least twice as many held-out rows and at least 4, got {len(rows)}."
            )
        mixed = rows.cpu()[_even_split(len(rows), kept, seed)]
        return Reference(
            gather(mixed, decode(mixed), scorer, progress, end), kept, draws, seed, dict(scorer.identity), end
        )

    @property
    def half(self) -> Tensor:
        """(size, L) ids of the rows kept apart."""
        return self.pool.ids[: self.size]

    @property
    def length(self) -> int:
        return self.pool.ids.shape[1]

    @cached_property
    def anchors(self) -> Evidence:
        return self.pool[self.size :]

    @cached_property
    def seq_rep_4_bar(self) -> float:
        """The corpus's own: 95 of 100 human rows repeat no more than this."""
        return float(self.pool.seq_rep_4.quantile(PERCENTILE, interpolation="higher"))

    @cached_property
    def bars(self) -> dict[str, tuple[float, float]]:
        """For columns that are means over samples, what 95 of 100 human rows lie above, and below."""
        names = ("entropy", "bigram_entropy", "rep_1", "rep_2", "rep_3")
        levels = torch.tensor([1 - PERCENTILE, PERCENTILE], dtype=torch.float64)
        found = {name: getattr(self.pool, name).quantile(levels).tolist() for name in names}
        return {name: (low, high) for name, (low, high) in found.items()}

    @cached_property
    def bandwidth(self) -> float:
        """The median distance between states of human rows."""
        return distances.median_distance(self.pool.states)

    def standardised(self, features: Tensor) -> Tensor:
        """Features in units of the human rows' own spread."""
        own = self.pool.features
        return distances.standardise(features, own.mean(0), own.std(0))

    @cached_property
    def _covariance(self) -> Tensor:
        return distances.shrunk_covariance(self.standardised(self.pool.features))

    def oddness(self, features: Tensor) -> Tensor:
        """Squared Mahalanobis distances (n,) from the mean human row."""
        scaled = self.standardised(features)
        return distances.mahalanobis(
            scaled, torch.zeros(scaled.shape[1], dtype=scaled.dtype), self._covariance
        )

    @cached_property
    def ordinary(self) -> int:
        """The row of `half` nearest the middle of human rows in all that is known of single rows: the one to tile."""
        pool = self.pool
        known = [pool.nll / pool.tokens.clamp(min=1), self.oddness(pool.features), pool.seq_rep_4]
        known += [getattr(pool, name) for name in self.bars]
        away = torch.stack([_middle_ranks(values) for values in known]).sub(0.5).abs().amax(0)
        return int(away[: self.size].argmin())

    def null(self, num: int) -> Null:
        """Draws of each statistic for a human set of `num` rows beside as many anchors as there are."""
        if not 1 <= num <= self.size:
            raise UserError(
                f"this human text allows sets of 1 to {self.size} samples, got {num}: hold out at least twice as many "
                "rows as there are samples."
            )
        if num not in self._nulls:
            self._nulls[num] = self._draw(num)
        return self._nulls[num]

    def _draw(self, num: int) -> Null:
        pool, random = self.pool, torch.Generator().manual_seed(self.seed + 1)
        orders = torch.stack([torch.randperm(len(pool), generator=random) for _ in range(self.draws)])
        first, second = orders[:, :num], orders[:, self.size :]
        ours, theirs = _indicators(first, len(pool)), _indicators(second, len(pool))
        weights = ours / num - theirs / second.shape[1]
        scaled = self.standardised(pool.features)
        kernel = distances.rbf(pool.states, pool.states, self.bandwidth)
        odd, passes = self.oddness(pool.features), (pool.seq_rep_4 <= self.seq_rep_4_bar).double()
        grams, numbers = repetition.ngram_ids(pool.ids, 4), pool.ids.unique(dim=0, return_inverse=True)[1]

        def of_draws(rule: Callable[[int], float]) -> Tensor:
            return torch.tensor([rule(draw) for draw in range(self.draws)], dtype=torch.float64)

        return {
            "energy": _quadratic(weights, -torch.cdist(scaled, scaled)),
            "mmd": _quadratic(weights, kernel),
            "typicality": of_draws(lambda i: distances.typicality(odd[first[i]], odd[second[i]])),
            "rank_chi2": of_draws(
                lambda i: distances.rank_chi_square(ours[i] @ pool.ranks, theirs[i] @ pool.ranks)
            ),
            "log_ppl_gap": _log_ppl(ours, pool) - _log_ppl(theirs, pool),
            "seq_rep_4_pass": ours @ passes / num,
            "unique_rows": of_draws(lambda i: len(numbers[first[i]].unique()) / num),
            "distinct_4": of_draws(lambda i: _distinct(grams[first[i]])),
            "entropy_pooled": of_draws(lambda i: repetition.pooled_entropy(pool.ids[first[i]])),
        }

    def own_columns(self, found: Evidence) -> Columns:
        """Perplexities and means over samples, `clean` by the corpus's own bar."""
        clean = found.seq_rep_4 <= self.seq_rep_4_bar
        accepted = float(clean.double().mean())
        own, data = found.log_ppl, self.pool.log_ppl
        return {
            "perplexity": exp(own),
            "perplexity_per_sample": exp(found.log_ppl_per_sample),
            "log_ppl_gap": None if own is None or data is None else own - data,
            **{name: float(getattr(found, name).mean()) for name in self.bars},
            "seq_rep_4_median": float(found.seq_rep_4.median()),
            "seq_rep_4_pass": accepted,
            "clean_perplexity": exp(found[clean].log_ppl) if accepted else None,
            "acceptance": accepted,
        }

    @cached_property
    def columns(self) -> Columns:
        """The data's own: of all human rows; what depends on a set's size is the mean of human draws of `size`."""
        null = self.null(self.size)
        known: Columns = {name: float(draws.mean()) for name, draws in null.items()}
        known |= {f"{name}_z": 0.0 for name in ("rank_chi2", "energy", "typicality", "mmd")}
        known |= self.own_columns(self.pool)
        return {name: known[name] for name in COLUMNS} | {"samples": float(self.size)}

    def controls(
        self,
        train_rows: Tensor,
        decode: Callable[[Tensor], list[str]],
        vocab_size: int,
        *,
        num: int | None = None,
    ) -> dict[str, Control]:
        """The control rows of a table beside this text: as many as are kept apart, at its entropy."""
        marks = Marks.of(decode(torch.arange(vocab_size)[:, None]))
        return every_control(
            train_rows.cpu(),
            self.half,
            marks,
            num=self.size if num is None else num,
            target=float(self.pool.entropy.mean()),
            row=self.ordinary,
            seed=self.seed,
            end=self.end,
        )

    def save(self, path: str | Path) -> Path:
        """Store it in one file, from which `load` restores it without a scorer."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        known = {"size": self.size, "draws": self.draws, "seed": self.seed, "scorer": self.scorer}
        facts = json.dumps(known if self.end is None else known | {"end": self.end})
        metadata = {"format": FORMAT, "facts": facts, "sha256": _digest(vars(self.pool), facts)}
        write_tensors(path, vars(self.pool), metadata=metadata)
        return path

    @staticmethod
    def load(path: str | Path) -> Reference:
        from safetensors import safe_open

        try:
            with safe_open(path, framework="pt") as file:
                said = file.metadata()
                facts = json.loads(said["facts"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                if said.get("sha256") not in (None, _digest(tensors, said["facts"])):
                    raise ValueError("the content is not what was written")
                pool = Evidence(**tensors)
        except Exception as error:  # safetensors has an error class of its own for every damage
            raise UserError(f"{path} is not a stored text reference: build it again.") from error
        return Reference(pool, **facts)


def _digest(tensors: Mapping[str, Tensor], facts: str) -> str:
    found = hashlib.sha256(facts.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(name.encode())
        found.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def _even_split(num: int, kept: int, seed: int) -> Tensor:
    """An order of `num` rows whose first `kept`, and so the rest, lie at even distances; each part is shuffled."""
    random = torch.Generator().manual_seed(seed)
    start = float(torch.rand((), dtype=torch.float64, generator=random))
    chosen = torch.zeros(num, dtype=torch.bool)
    chosen[((torch.arange(kept, dtype=torch.float64) + start) * (num / kept)).long().clamp(max=num - 1)] = (
        True
    )
    parts = [chosen.nonzero()[:, 0], (~chosen).nonzero()[:, 0]]
    return torch.cat([part[torch.randperm(len(part), generator=random)] for part in parts])


def _indicators(rows: Tensor, size: int) -> Tensor:
    """(draws, size) float64: 1 where a row is in the draw."""
    return torch.zeros(len(rows), size, dtype=torch.float64).scatter_(1, rows, 1.0)


def _quadratic(weights: Tensor, similarity: Tensor) -> Tensor:
    """(draws,): the two-sample statistic of each draw, whose weights are 1/n on one set and -1/m on the other."""
    return ((weights @ similarity) * weights).sum(-1).clamp(min=0)


def _log_ppl(chosen: Tensor, pool: Evidence) -> Tensor:
    return (chosen @ pool.nll) / (chosen @ pool.tokens).clamp(min=1)


def _distinct(grams: Tensor) -> float:
    return len(grams.unique()) / grams.numel()


def _middle_ranks(values: Tensor) -> Tensor:
    """The share of values below each, equal ones counted half: 1/2 in the middle whatever the ties."""
    ordered = values.sort().values
    below = torch.searchsorted(ordered, values, right=False) + torch.searchsorted(ordered, values, right=True)
    return below.double() / (2 * len(values))
