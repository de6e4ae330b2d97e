"""Configurations: stored and read back exactly, laid over one another, refused with a sentence."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplax import config, recipes
from simplax.concentration import Constant, Vanishing
from simplax.config import codec
from simplax.config.codec import merge
from simplax.errors import UserError
from simplax.methods import METHODS, UDLM, Simplax
from simplax.objectives.bridge import FiniteStep
from simplax.samplers import Psi, Sampler
from simplax.samplers import Simplax as SimplaxSampler
from simplax.samplers.kappa import FromEta, Plateau, Segments
from simplax.schedules import Cosine, Polynomial
from simplax.tasks import TextTask
from simplax.train import Optimizer

BASE = recipes.get("toy-simplax")


def through_text(value: config.RunConfig) -> config.RunConfig:
    return config.from_json(json.loads(json.dumps(config.to_json(value))))


@pytest.mark.parametrize("name", sorted(recipes.RECIPES))
def test_recipes_and_their_miniatures_round_trip(name: str) -> None:
    for value in (recipes.get(name), recipes.smoke(recipes.get(name))):
        assert through_text(value) == value
        assert type(value.run.optimizer.betas) is type(through_text(value).run.optimizer.betas)


@pytest.mark.parametrize("name", sorted(recipes.RECIPES))
def test_a_miniature_keeps_method_data_and_options(name: str) -> None:
    whole, small = recipes.get(name), recipes.smoke(recipes.get(name))
    assert small.method == whole.method
    assert type(small.task) is type(whole.task)
    assert small.task.length == (
        min(whole.task.length, 128) if isinstance(whole.task, TextTask) else whole.task.length
    )
    assert small.architecture.relations == whole.architecture.relations
    assert small.run.optimizer.name == whole.run.optimizer.name
    assert (small.architecture.width, small.run.batch_size, small.run.steps) == (32, 4, 5)


def test_descriptions_say_the_weighting() -> None:
    for name, recipe in recipes.RECIPES.items():
        method = recipes.get(name).method
        if hasattr(method, "weighting"):
            assert f"{method.weighting} weighting" in recipe.description


schedules = st.one_of(st.builds(Cosine, st.floats(1e-4, 0.1)), st.builds(Polynomial, st.floats(0.5, 3.0)))
concentrations = st.one_of(
    st.floats(0.0, 10.0), st.builds(Constant, st.floats(0, 9)), st.builds(Vanishing, st.floats(0, 9))
)
methods = st.one_of(
    st.builds(UDLM, schedule=schedules, time_conditioning=st.booleans()),
    st.builds(
        Simplax,
        schedule=schedules,
        concentration=concentrations,
        step=st.none() | st.builds(FiniteStep, num_steps=st.integers(1, 99)),
    ),
)


@given(method=methods, eta=concentrations, clip=st.floats(0.1, 9), warmup=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_any_choice_of_members_round_trips(method: Any, eta: Any, clip: float, warmup: int) -> None:
    run = dataclasses.replace(BASE.run, optimizer=Optimizer(clip=clip, warmup=warmup))
    sampling = dataclasses.replace(BASE.sampling, sampler=SimplaxSampler(eta=eta))
    value = dataclasses.replace(BASE, method=method, run=run, sampling=sampling)
    assert through_text(value) == value


@pytest.mark.parametrize("base", config.FAMILIES, ids=lambda base: base.__name__)
def test_every_member_of_a_family_with_defaults_round_trips(base: type) -> None:
    for name, member in config.FAMILIES[base].items():
        value = member() if isinstance(member, type) else member
        assert codec.decode(base, json.loads(json.dumps(config.encode(value))), config.FAMILIES) == value
        assert codec.decode(base, name, config.FAMILIES) == value


def test_a_union_of_families_is_told_apart_by_kind() -> None:
    value = Psi(kappa=Segments(high=FromEta(Vanishing(2.0))), times=Plateau(level=0.2))
    assert codec.decode(Sampler, config.encode(value), config.FAMILIES) == value


@pytest.mark.parametrize("kind", METHODS)
def test_every_method_is_stored_under_its_registered_name(kind: str) -> None:
    assert config.encode(METHODS[kind]())["kind"] == kind


def test_settings_left_out_take_their_defaults() -> None:
    data = config.to_json(BASE)
    del data["run"]["keep"], data["sampling"]
    read = config.from_json(data)
    assert read.run.keep == 2
    assert read.sampling == config.SamplingDefaults()


def test_recipe_gives_way_to_file_and_file_to_flags(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"run": {"steps": 20, "batch_size": 16}, "method": {"weighting": "constant"}}))
    value = config.resolve(BASE, file, [("run.steps", "30"), ("method.concentration", "0.5")])
    assert (value.run.steps, value.run.batch_size, value.run.seed) == (30, 16, BASE.run.seed)
    assert isinstance(value.method, Simplax)
    assert (value.method.weighting, value.method.concentration) == ("constant", 0.5)
    assert value.architecture == BASE.architecture


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([("method.concentration", "vanishing"), ("method.concentration.value", "3")], Vanishing(3.0)),
        ([("method.concentration", '{"kind": "constant", "value": 2}')], Constant(2.0)),
        ([("method.concentration", "1")], 1.0),
    ],
)
def test_a_family_is_chosen_by_name_by_json_or_by_number(
    flags: list[tuple[str, str]], expected: object
) -> None:
    method = config.resolve(BASE, None, flags).method
    assert isinstance(method, Simplax)
    assert method.concentration == expected


def test_another_kind_starts_from_its_own_defaults() -> None:
    assert config.resolve(BASE, None, [("method", "udlm")]).method == UDLM()
    assert config.resolve(
        BASE, None, [("method.kind", "udlm"), ("method.weighting", "constant")]
    ).method == UDLM(weighting="constant")


def test_an_architecture_is_chosen_by_preset_and_changed() -> None:
    from simplax.nn import PRESETS

    value = config.resolve(BASE, None, [("architecture", "tiny"), ("architecture.dropout", "0")])
    assert value.architecture == dataclasses.replace(PRESETS["tiny"], dropout=0.0)


def test_flags_are_read_by_the_type_of_their_setting() -> None:
    flags = [
        ("run.steps", "1e3"),
        ("architecture.given-embedding", "true"),
        ("architecture.soft_cap", "none"),
        ("run.optimizer.betas", "0.8,0.9"),
        ("name", "12"),
        ("run.precision", "float32"),
    ]
    value = config.resolve(BASE, None, flags)
    assert (value.run.steps, value.name, value.run.precision) == (1000, "12", "float32")
    assert value.architecture.given_embedding is True
    assert value.architecture.soft_cap is None
    assert value.run.optimizer.betas == (0.8, 0.9)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "method.concentratoin",
            "1",
            "method.concentratoin is not a setting; did you mean method.concentration?",
        ),
        ("run.optimiser.clip", "1", "did you mean run.optimizer?"),
        ("rum.steps", "1", "did you mean run?"),
        ("run.steps", "many", "run.steps must be a whole number"),
        ("run.steps", "2.5", "run.steps must be a whole number"),
        ("run.compile", "maybe", "run.compile must be true or false"),
        ("run.precision", "float8", "run.precision must be one of auto, float32, bfloat16"),
        ("run.optimizer.betas", "0.9", "a list of 2 values"),
        ("method", "simplex", "did you mean simplax?"),
        ("method.concentration", "xyz", "choose one of constant, normalised, per_token, vanishing"),
        ("method.schedule.kind", "cosin", "did you mean cosine?"),
        ("method.weighting", "heavy", "unknown weighting 'heavy'"),
        ("architecture.width", "33", "must be a multiple of"),
        ("architecture", "huge", "choose one of"),
        ("run.steps", "0", "steps must be at least 1"),
        ("task.clues", "1", "task.clues is not a setting"),
        ("run.steps.more", "1", "run.steps must be a whole number"),
        ("method.concentration", "{", "not valid JSON"),
    ],
)
def test_mistakes_are_named(name: str, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        config.resolve(BASE, None, [(name, text)])
    assert message in str(caught.value)
    assert str(caught.value).rstrip("?.").count(". ") == 0  # one sentence


def test_files_that_are_no_configuration_are_refused(tmp_path: Path) -> None:
    for text, message in (("{", "not valid JSON"), ("[1]", "must hold a JSON object")):
        (tmp_path / "c.json").write_text(text)
        with pytest.raises(UserError, match=message):
            config.resolve(BASE, tmp_path / "c.json")
    with pytest.raises(UserError, match="cannot be read"):
        config.resolve(BASE, tmp_path / "missing.json")


def test_merging_leaves_its_arguments_alone() -> None:
    base = {"a": {"b": 1, "c": 2}}
    assert merge(base, {"a": {"b": 3}}) == {"a": {"b": 3, "c": 2}}
    assert base == {"a": {"b": 1, "c": 2}}


def test_unknown_recipes_suggest_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean sudoku4-simplax"):
        recipes.get("sudoku4-simplex")


def test_a_sampler_that_shows_the_network_something_else_is_refused() -> None:
    recipe = recipes.get("sudoku-cpu-simplax")
    states = {"reads_w": "true", "form": "atoms"}
    network = [(f"method.{name}", value) for name, value in states.items()]
    with pytest.raises(ValueError, match="reads simplex states w and the sampler Simplax shows it tokens z"):
        config.resolve(recipe, flags=network)
    with pytest.raises(ValueError, match="reads tokens z and the sampler Simplax shows it simplex states w"):
        UDLM().check_sampler(SimplaxSampler(form="atoms", reads_w=True))
    parts = ("sampling", "unconditional")
    shown = [(f"{part}.sampler.{name}", value) for part in parts for name, value in states.items()]
    changed = config.resolve(recipe, flags=[*shown, *network])
    assert isinstance(changed.sampling.sampler, SimplaxSampler) and changed.sampling.sampler.reads_w
