"""What integrating the Dirichlet out buys: same gradient in the mean, less variance (Rao and Blackwell)."""

from __future__ import annotations

import torch
from torch import Tensor

from simplax.objectives.fused import rate_density
from simplax.processes.prediction import Prediction, Projection
from simplax.processes.prior import Prior
from simplax.processes.simplex import Atoms, Marginal, SimplexState, decode, draw_atoms, num_atoms, vertex
from simplax.processes.uniform import corrupt
from simplax.random import Keys

SIZE, WIDTH, DRAWS, ETA, ALPHA = 12, 4, 60_000, 1.0, 0.4
X = 3


class Experiment:
    """Many draws of (z, w) for one clean token, and the gradient each gives to the features of a z-input network."""

    def __init__(self, same_z: bool) -> None:
        generator = torch.Generator().manual_seed(5)
        self.table = torch.randn(SIZE, WIDTH, generator=generator, dtype=torch.float64)
        self.weight = torch.randn(SIZE, WIDTH, generator=generator, dtype=torch.float64)
        self.prior, self.keys = Prior(SIZE), Keys.from_seeds(range(DRAWS))
        self.x = torch.full((DRAWS, 1), X)
        self.alpha = torch.full((DRAWS, 1), ALPHA, dtype=torch.float64)
        self.eta = torch.full_like(self.alpha, ETA)
        drawn = corrupt(self.x, self.alpha, self.prior, self.keys.stream("corrupt"))
        self.z = torch.full_like(drawn, 7) if same_z else drawn

    def atoms(self) -> Atoms:
        def more(keys: Keys, n: int) -> Tensor:
            return corrupt(self.x.unsqueeze(-1).expand(-1, -1, n), self.alpha.unsqueeze(-1), self.prior, keys)

        return draw_atoms(self.z, more, self.eta, num_atoms(ETA), self.keys.stream("simplex"))

    def states(self) -> dict[str, SimplexState]:
        atoms = self.atoms()
        return {
            "marginal": Marginal(self.z, self.x, self.alpha, self.eta, self.prior),
            "atoms": atoms,
            "one decode": vertex(decode(atoms, self.keys.stream("decode"))),
        }

    def gradients(self, state: SimplexState) -> Tensor:
        """(draws, width): one gradient per draw."""
        features = self.table[self.z].requires_grad_()
        everywhere = torch.ones_like(self.x, dtype=torch.bool)
        prediction = Prediction(projection=Projection(features, self.weight, None))
        loss = rate_density(prediction, self.x, state, self.alpha, 1 / self.alpha, self.prior, everywhere)
        (found,) = torch.autograd.grad(loss.sum(), features)
        return found.squeeze(1)


def test_the_marginal_gradient_is_the_mean_over_atoms() -> None:
    """Given z: the marginal form has one gradient; atoms and single decodes scatter about it."""
    experiment = Experiment(same_z=True)
    found = {name: experiment.gradients(state) for name, state in experiment.states().items()}
    assert float(found["marginal"].std(0).max()) < 1e-12
    for name in ("atoms", "one decode"):
        error = found[name].std(0) / DRAWS**0.5
        assert float(((found[name].mean(0) - found["marginal"][0]) / error).abs().max()) < 5, name


def variances(found: dict[str, Tensor]) -> dict[str, float]:
    return {name: float(g.var(0).sum()) for name, g in found.items()}


def test_each_expectation_taken_lowers_the_variance() -> None:
    """Over z, w and the decode: marginal < atoms < one decode, by margins beyond ten standard errors of each step."""
    experiment = Experiment(same_z=False)
    found = {name: experiment.gradients(state) for name, state in experiment.states().items()}
    squares = {name: (g - g.mean(0)).square().sum(-1) for name, g in found.items()}
    for better, worse in (("marginal", "atoms"), ("atoms", "one decode")):
        gain = squares[worse] - squares[better]  # paired: the same z and w
        assert float(gain.mean() / (gain.std() / DRAWS**0.5)) > 10, (better, worse, variances(found))
        difference = found[better] - found[worse]
        z_score = difference.mean(0) / (difference.std(0) / DRAWS**0.5)
        assert float(z_score.abs().max()) < 5
