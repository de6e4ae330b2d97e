"""Sampling steps: what each method's sampler costs beside the network calls it makes, at K = 50,257 and 12.

    python benchmarks/bench_sampling.py            table
    python benchmarks/bench_sampling.py --json     the same as JSON
    python benchmarks/bench_sampling.py --quick    one short round: does it run, not how fast

The calls of one sampling run are recorded and made again, with the very same arguments, without the sampler: that is
the floor. Run and floor take turns, and ratios are taken within a round. The network is small (4 blocks of width 128
by default), so samplers look dearer here than beside a large one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import tyro

from simplax.bench.measure import race
from simplax.methods import METHODS, Method, Simplax
from simplax.nn import Architecture
from simplax.samplers import FirstHitting, Psi, Sampler, marginal_reanchor, sample
from simplax.samplers import Simplax as SimplaxSampler


@dataclass(frozen=True)
class Options:
    vocabularies: tuple[int, ...] = (50_257, 12)
    batch: int = 4
    length: int = 64
    steps: int = 4
    """steps of a run, where the sampler leaves a choice"""
    width: int = 128
    depth: int = 4
    heads: int = 4
    budget: float = 6.0
    """seconds for each method and vocabulary"""
    quick: bool = False
    json: bool = False


def entrants() -> dict[str, tuple[Method, Sampler[Any]]]:
    """Every method with its own sampler, and the other samplers that some of them can use."""
    own = {name: (method(), method().sampler()) for name, method in METHODS.items()}
    atoms = Simplax(form="atoms", reads_w=True)
    return {
        **own,
        "simplax, atoms read by the network": (atoms, atoms.sampler()),
        "udlm with Simplax's sampler": (METHODS["udlm"](), SimplaxSampler(eta=0.01)),
        "udlm, psi": (METHODS["udlm"](), Psi()),
        "udlm, re-anchored": (METHODS["udlm"](), marginal_reanchor(0.01)),
        "mdlm, first hitting": (METHODS["mdlm"](), FirstHitting()),
    }


class Entrant:
    """A sampling run, and its network calls alone."""

    def __init__(self, method: Method, sampler: Sampler[Any], vocab_size: int, options: Options) -> None:
        torch.manual_seed(0)
        architecture = Architecture(options.width, options.depth, options.heads)
        self.denoiser: Any = method.build(vocab_size, options.length, architecture).eval()
        self.method, self.sampler, self.vocab_size, self.options = method, sampler, vocab_size, options
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        handle = self.denoiser.register_forward_pre_hook(
            lambda module, arguments, keywords: self.calls.append((arguments, keywords)), with_kwargs=True
        )
        self.nfe = self.run().nfe
        handle.remove()

    def run(self) -> Any:
        length = self.options.length
        return sample(
            self.denoiser,
            (self.options.batch, length),
            sampler=self.sampler,
            process=self.method.process(self.denoiser),
            num_steps=None if self.sampler.steps_for(length) else self.options.steps,
            vocab_size=self.vocab_size,
            seeds=range(self.options.batch),
        )

    @torch.no_grad()
    def floor(self) -> None:
        cache = self.denoiser.new_cache(self.options.batch) if "cache" in self.calls[0][1] else None
        for arguments, keywords in self.calls:
            self.denoiser(*arguments, **(keywords if cache is None else {**keywords, "cache": cache}))


def measure(
    name: str, method: Method, sampler: Sampler[Any], vocab_size: int, options: Options
) -> dict[str, Any]:
    entrant = Entrant(method, sampler, vocab_size, options)
    turns: dict[str, Callable[[], object]] = {"run": entrant.run, "floor": entrant.floor}
    result = race(turns, options.budget, at_least=1 if options.quick else 3)
    count = len(entrant.calls)
    return {
        "method": name,
        "vocab_size": vocab_size,
        "calls": count,
        "nfe": entrant.nfe,
        "step_seconds": result.time("run").median / count,
        "forward_seconds": result.time("floor").median / count,
        "ratio": asdict(result.ratio("run", "floor")),
    }


def main(options: Options) -> dict[str, Any]:
    rows = [
        measure(name, method, sampler, vocab_size, options)
        for vocab_size in options.vocabularies
        for name, (method, sampler) in entrants().items()
    ]
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "network": f"{options.depth} x {options.width}",
        "batch": options.batch,
        "length": options.length,
        "rows": rows,
    }


def shown(report: dict[str, Any]) -> None:
    print(
        f"network {report['network']}, batch {report['batch']}, L = {report['length']}, torch {report['torch']}, "
        f"{report['threads']} threads; medians (quartiles of the ratio)"
    )
    print(f"{'K':>7}  {'':36}{'calls':>6}{'step, ms':>10}{'forward, ms':>13}{'ratio':>8}")
    for row in report["rows"]:
        ratio = row["ratio"]
        print(
            f"{row['vocab_size']:>7,}  {row['method']:36}{row['calls']:>6}{1e3 * row['step_seconds']:>10.2f}"
            f"{1e3 * row['forward_seconds']:>13.2f}{ratio['median']:>8.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
        )


if __name__ == "__main__":
    chosen = tyro.cli(Options)
    if chosen.quick:
        tiny = {"batch": 2, "length": 8, "steps": 2, "width": 32, "depth": 1, "heads": 2, "budget": 0.0}
        chosen = replace(chosen, vocabularies=(512, 12), **tiny)  # type: ignore[arg-type]
    result = main(chosen)
    if chosen.json:
        print(json.dumps(result, indent=2))
    else:
        shown(result)
