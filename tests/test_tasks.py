"""The toy chain against its definitions, and tasks as sources of data."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simplax.data.markov import MarkovChain, MarkovSource
from simplax.errors import UserError
from simplax.tasks import TASKS, SudokuTask, ToyTask

chains = st.builds(
    MarkovChain, categories=st.integers(2, 6), sharpness=st.floats(0.0, 4.0), seed=st.integers(0, 10_000)
)


@given(chains)
@settings(max_examples=30, deadline=None)
def test_initial_law_is_stationary(chain: MarkovChain) -> None:
    torch.testing.assert_close(chain.transition.sum(-1), torch.ones(chain.categories, dtype=torch.float64))
    torch.testing.assert_close(chain.initial.sum(), torch.tensor(1.0, dtype=torch.float64))
    torch.testing.assert_close(chain.initial @ chain.transition, chain.initial, atol=1e-14, rtol=1e-12)


def test_the_law_has_the_same_bits_wherever_its_numbers_lie_in_memory() -> None:
    """Several processes draw from it, and report its entropy, as one does."""
    kept: list[object] = []
    laws = set()
    for number in range(100):
        kept += [bytearray(8 * number + 8), torch.empty(number)]
        laws.add((*MarkovChain().initial.tolist(), MarkovChain().entropy(8)))
    assert len(laws) == 1


@pytest.mark.parametrize("sharpness", [20.0, 200.0, 1e4])
def test_an_almost_deterministic_chain_has_a_law(sharpness: float) -> None:
    chain = MarkovChain(9, sharpness)
    assert float(chain.initial.sum()) == pytest.approx(1.0) and bool((chain.initial >= 0).all())
    torch.testing.assert_close(chain.initial @ chain.transition, chain.initial, atol=1e-13, rtol=0.0)


@pytest.mark.parametrize("sharpness", [0.5, 4.0, 12.0])
def test_rare_states_of_the_initial_law_are_exact(sharpness: float) -> None:
    """Solved in fractions: relative to each state's own probability, however small that is."""
    size, chain = 5, MarkovChain(5, sharpness, seed=3)
    moves = [[Fraction(value) for value in row] for row in chain.transition.tolist()]
    moves = [[value / sum(row) for value in row] for row in moves]
    equations = [[moves[i][j] - (i == j) for i in range(size)] + [Fraction(0)] for j in range(size - 1)]
    equations.append([Fraction(1)] * (size + 1))
    for pivot in range(size):
        row = next(r for r in range(pivot, size) if equations[r][pivot])
        equations[pivot], equations[row] = equations[row], equations[pivot]
        equations[pivot] = [value / equations[pivot][pivot] for value in equations[pivot]]
        for other in range(size):
            if other != pivot:
                factor = equations[other][pivot]
                equations[other] = [a - factor * b for a, b in zip(equations[other], equations[pivot])]
    exact = torch.tensor([float(row[-1]) for row in equations], dtype=torch.float64)
    torch.testing.assert_close(chain.initial, exact, rtol=1e-14, atol=0.0)


@given(chains, st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_entropy_is_that_of_the_enumerated_law(chain: MarkovChain, length: int) -> None:
    _, probabilities = chain.joint(length)
    assert float(probabilities.sum()) == pytest.approx(1.0)
    assert float(-torch.xlogy(probabilities, probabilities).sum()) == pytest.approx(
        chain.entropy(length), abs=1e-8
    )


def test_entropy_without_structure_is_that_of_uniform_tokens() -> None:
    chain = MarkovChain(categories=7, sharpness=0.0)
    assert chain.entropy_rate == pytest.approx(math.log(7))


def test_sequences_follow_the_law() -> None:
    from scipy import stats

    chain, number = MarkovChain(categories=3, sharpness=1.0), 20_000
    every, probabilities = chain.joint(3)
    tokens = MarkovSource(chain, 3).batch(torch.arange(number)).tokens
    counts = torch.bincount(tokens @ torch.tensor([9, 3, 1]), minlength=len(every))
    assert stats.chisquare(counts.numpy(), (probabilities * number).numpy()).pvalue > 1e-6


def test_samples_depend_on_their_index_alone_and_streams_differ() -> None:
    task = ToyTask()
    whole = task.train().batch(torch.arange(20)).tokens
    torch.testing.assert_close(task.train().batch(torch.tensor([7, 3])).tokens, whole[[7, 3]])
    assert not torch.equal(task.validation().batch(torch.arange(20)).tokens, whole)


def test_a_joint_too_large_to_list_is_refused() -> None:
    with pytest.raises(UserError, match="too many"):
        MarkovChain(categories=10).joint(9)


@pytest.mark.parametrize("kind", TASKS)
def test_small_tasks_keep_their_shape(kind: str) -> None:
    task = TASKS[kind]()
    small = task.small()
    assert (small.length, small.vocab_size) == (task.length, task.vocab_size)
    for source in (small.train(), small.validation()):
        batch = source.batch(torch.arange(3))
        assert batch.tokens.shape == (3, task.length)
        assert (source.length, source.vocab_size) == (task.length, task.vocab_size)
        assert int(batch.tokens.min()) >= 0 and int(batch.tokens.max()) < task.vocab_size
    assert len(small.text(batch.tokens)) == 3


@pytest.mark.parametrize("layout", ["cells", "prefix"])
def test_sudoku_validation_shares_no_solution_with_training(layout: str) -> None:
    task = SudokuTask(size=4, layout=layout, clues=6)
    train, valid = (
        {text for text in task.text(source.batch(torch.arange(2000)).tokens)}
        for source in (task.train(), task.validation())
    )
    assert (len(train), len(valid)) == (240, 48)
    assert not train & valid


def test_small_augmented_puzzles_are_valid_and_differ_between_passes() -> None:
    from simplax.data.sudoku import is_valid

    task = SudokuTask(augment=True).small()
    first, second = (
        task.text(task.train().batch(torch.arange(start, start + 3)).tokens) for start in (0, 32)
    )
    assert first != second
    assert all(is_valid([int(c) for c in text]) for text in first + second)


def test_a_task_that_cannot_be_is_refused_when_named() -> None:
    with pytest.raises(UserError, match="9x9 or 4x4"):
        SudokuTask(size=5)
    with pytest.raises(UserError, match="layout"):
        SudokuTask(layout="spiral")
