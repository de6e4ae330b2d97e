"""What clients send and get: the models that the OpenAPI document is made of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from simplax.serve.limits import LARGEST_ETA, MOST_CHARACTERS, MOST_SEED, MOST_SEQUENCES, MOST_STEPS

Kind = Literal["sudoku", "text", "molecules"]
Short = Annotated[str, StringConstraints(max_length=80)]


class Asked(BaseModel):
    """Settings that every request may have; what is left out is the model's own default."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)

    model: Short | None = Field(None, description="a name of /v1/models; the first of its kind if left out")
    steps: int | None = Field(None, ge=1, le=MOST_STEPS, description="steps of the sampler: network calls")
    sampler: Short | None = Field(None, description="a name in the model's `samplers`; its own if left out")
    eta: float | Short | None = Field(
        None,
        description="concentration of Simplax's sampler: a number, vanish:VALUE:POWER:UNTIL:LEAST or "
        f"pertoken:REDRAWS; at most {LARGEST_ETA:g}",
    )
    temperature: float | None = Field(None, ge=0.01, le=100, description="divides the logits")
    seed: int = Field(0, ge=0, le=MOST_SEED, description="of the noise; the same seed gives the same noise")
    belief: bool = Field(
        False, description="stream what the network believes: of every attempt at a board, of the first text"
    )


class SudokuRequest(Asked):
    """A board to fill in."""

    puzzle: str = Field(
        max_length=1000, description="81 (or 16) cells with . or 0 for blank, on one line or a row per line"
    )
    attempts: int = Field(1, ge=1, le=MOST_SEQUENCES, description="independent attempts, each with its noise")


class TextRequest(Asked):
    """A text to go on with, or one with gaps to fill in."""

    text: str = Field(
        "",
        max_length=MOST_CHARACTERS,
        description="a prompt, or a text with <gap:8> wherever eight tokens are to be filled in; nothing for a "
        "free sample",
    )
    num: int = Field(1, ge=1, le=MOST_SEQUENCES, description="how many answers")
    top_p: float | None = Field(None, gt=0, le=1, description="nucleus of each prediction")


class MoleculesRequest(Asked):
    """Molecules to draw from the model."""

    num: int = Field(4, ge=1, le=MOST_SEQUENCES, description="how many molecules")
    top_p: float | None = Field(None, gt=0, le=1, description="nucleus of each prediction")


class Answer(BaseModel):
    """What all answers say."""

    steps: int = Field(description="steps that were made")
    calls: float = Field(description="network calls per sequence")
    seconds: float = Field(description="from the request's arrival, waiting included")


class SudokuAnswer(Answer):
    boards: list[str] = Field(description="a board per attempt, 81 (or 16) digits, 0 where there is none")
    valid: list[bool] = Field(description="whether a board is complete, breaks no rule and keeps the clues")
    share: float = Field(description="share of the attempts that are valid")
    solution: str | None = Field(description="the only solution by search, for comparison; null if not known")


class TextAnswer(Answer):
    texts: list[str]
    gaps: list[list[str]] = Field(description="what was filled into each gap, for each answer")


class MoleculesAnswer(Answer):
    strings: list[str] = Field(description="SMILES")
    valid: list[bool | None] = Field(
        description="whether RDKit can read them; null where nothing can be drawn"
    )
    structures: list[str | None] = Field(
        description="drawings of the valid ones, as SVG; null where RDKit or what it draws with is not installed"
    )


class Puzzle(BaseModel):
    puzzle: str = Field(description="81 cells, 0 for blank")
    clues: int = Field(description="as many as asked for, or a few more")
    seed: int


class Defaults(BaseModel):
    """How a model is sampled if a request does not say; `eta` is null for samplers that have none."""

    steps: int
    fixed_steps: bool = Field(description="whether this sampler makes exactly so many steps")
    eta: str | None
    temperature: float
    top_p: float


class SamplerInfo(BaseModel):
    """A sampler that suits a model; `eta` is its default, null where it has none."""

    name: str
    eta: str | None
    fixed_steps: int | None = Field(description="the steps it makes, null where any number will do")


class ModelInfo(BaseModel):
    name: str
    kind: Kind
    method: str
    parameters: int
    length: int = Field(description="tokens of a sequence")
    categories: int = Field(description="size of the vocabulary")
    size: int | None = Field(description="side of the board, for Sudoku")
    defaults: Defaults
    samplers: list[SamplerInfo]
    free: Defaults = Field(description="defaults where nothing is given")


class Models(BaseModel):
    models: list[ModelInfo]


class Health(BaseModel):
    status: Literal["ok"] = "ok"
    version: str


class Problem(BaseModel):
    """Why a request was refused: one sentence."""

    error: str
