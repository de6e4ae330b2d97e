"""The one way a denoiser is called: state and time in, prediction out.

Losses, samplers and likelihoods all go through `Network`. It owns what surrounds the bare call: which categories are
the data's, what one call carries to the next, whether the projection to logits is left to the loss, transforms of the
logits, and the count of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from simplax.nn.carry import Carry, carry_of
from simplax.nn.denoiser import Denoiser
from simplax.nn.foreign import attribute, call, unwrapped
from simplax.processes.prediction import GuidedPrediction, Prediction, Projection
from simplax.typing import Batch, StepContext

LogitTransform = Callable[[Tensor], Tensor]
SMALLEST_VOCABULARY = 1024
"""Below it the logits are small beside the trunk, and one product is faster than chunks."""
_smallest: ContextVar[int | None] = ContextVar("smallest", default=SMALLEST_VOCABULARY)


@contextmanager
def fusing(smallest_vocabulary: int | None) -> Iterator[None]:
    """Inside, losses are fused from this vocabulary size on; None never fuses them."""
    token = _smallest.set(smallest_vocabulary)
    try:
        yield
    finally:
        _smallest.reset(token)


def num_categories(denoiser: object) -> int:
    """The number of data categories: a denoiser says `num_categories`, or it is what it predicts."""
    for name in ("num_categories", "output_size", "vocab_size"):
        size = attribute(denoiser, name)
        if size is not None:
            return int(size)
    raise ValueError("the denoiser must have an attribute vocab_size, the number of categories it predicts")


class Network:
    """A denoiser as everybody calls it; any callable `(z, t) -> logits` will do.

    `calls` counts calls and `sequences` the sequences in them, `block_passes` the transformer blocks that sequences
    went through and `multiply_adds` those of matrix products (0 for networks that do not say how deep they are): nobody
    hides depth inside a call. `loops` replaces the number of times that a call goes through the network's blocks. A
    `record` takes what every call with a gradient predicts after each loop but its last, and what it carries on.
    """

    def __init__(
        self, denoiser: Callable[..., Tensor], size: int | None = None, loops: int | None = None
    ) -> None:
        self.denoiser, self.size = denoiser, size
        self.inner: Any = unwrapped(denoiser) if isinstance(denoiser, nn.Module) else denoiser
        self.carry: Carry = carry_of(self.inner)
        self.depth = int(attribute(denoiser, "block_passes", 0) or 0)
        self.loops = loops
        self.record: list[tuple[list[Prediction], Tensor | None]] | None = None
        self.calls = self.sequences = self.block_passes = self.multiply_adds = 0

    @staticmethod
    def of(denoiser: Any) -> Network:
        """`denoiser` itself if it is a network already, else a network around it, for the data's categories."""
        return denoiser if isinstance(denoiser, Network) else Network(denoiser, num_categories(denoiser))

    @property
    def categories(self) -> int:
        return num_categories(self.denoiser) if self.size is None else self.size

    def __call__(
        self,
        state: Any,
        t: Tensor | None,
        batch: Batch,
        context: StepContext | None = None,
        *,
        share: float | None = None,
        **keywords: Any,
    ) -> Prediction:
        """A prediction for losses and likelihoods, whose projection may be left to the loss.

        A network that carries something from call to call reads that of a first call on the same state, without
        gradient: in training for a random `share` of the samples (the carry's own if not given), for all of them where
        something is measured. Without a `context` nobody makes a first call: the carry is empty.
        """
        keywords = {"given": batch.given, "attend": batch.attend, "labels": batch.labels, **keywords}
        carried = None if context is None else self._first_call(state, t, context, share, keywords)
        return self.predict(state, t, carried, fuse=True, raw_only=True, **keywords)[0]

    def predict(
        self,
        state: Any,
        t: Tensor | None,
        carried: Tensor | None = None,
        *,
        fuse: bool = False,
        raw_only: bool = False,
        **keywords: Any,
    ) -> tuple[Prediction, Tensor | None]:
        """One call, and what it hands to the next; `fuse` may leave the projection out, `raw_only` the carry."""
        if carried is not None:
            keywords[self.carry.keyword] = carried
        late = fuse and self._projects_late()
        every_loop = self.record is not None and torch.is_grad_enabled()
        self._count(state, keywords, every_loop=every_loop)
        output, hidden = self._call(state, t, keywords, project=not late, every_loop=every_loop)
        earlier, output = (output[:-1], output[-1]) if every_loop else ((), output)
        prediction = self._prediction(output, late)
        if late:
            fresh = hidden
        else:  # what is made from transformed logits is left to whoever transforms them
            fresh = None if raw_only else self.carry.after(prediction.logits, hidden, self.inner)
        if every_loop:
            assert self.record is not None
            self.record.append(([self._prediction(each, late) for each in earlier], fresh))
        return prediction, fresh

    def _call(
        self,
        state: Any,
        t: Tensor | None,
        keywords: dict[str, Any],
        *,
        project: bool = True,
        every_loop: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Logits, or features without the projection, and the hidden state if the network carries it."""
        time = None if t is None else t.float()
        options = {
            "project": None if project else False,
            "every_loop": every_loop or None,
            "loops": self.loops,
        }
        result: Any = call(self.denoiser, state, time, **options, **self.carry.request, **keywords)
        return result if self.carry.request else (result, None)

    def _prediction(self, output: Tensor, late: bool) -> Prediction:
        if late:
            return Prediction(projection=self._projection(output))
        logits = output.float()
        if self.size is not None and attribute(self.denoiser, "num_categories") == self.size:
            logits = logits[..., : self.size]  # published networks also have an output for the mask
        return Prediction(logits)

    def _first_call(
        self,
        state: Any,
        t: Tensor | None,
        context: StepContext,
        share: float | None,
        keywords: dict[str, Any],
    ) -> Tensor | None:
        if not self.carry.carries:
            return None
        share = self.carry.share if share is None else share
        if not context.training:
            share = 1.0 if share > 0 else 0.0
        if share <= 0:
            return None
        with torch.no_grad():
            if share >= 1:
                return self._carried(state, t, keywords)
            chosen = context.keys.stream("carry").uniform(1)[:, 0] < share
            if self._static_shapes():
                return self.carry.where(chosen, self._carried(state, t, keywords))
            rows = chosen.nonzero().squeeze(-1)
            if not len(rows):
                return None
            few = {name: v[rows] if isinstance(v, Tensor) else v for name, v in keywords.items()}
            part = self._carried(_rows_of(state, rows), None if t is None else t[rows], few)
            assert part is not None
            return torch.zeros(len(chosen), *part.shape[1:], dtype=part.dtype, device=part.device).index_copy(
                0, rows, part
            )

    def _carried(self, state: Any, t: Tensor | None, keywords: dict[str, Any]) -> Tensor | None:
        """What a first call with an empty carry leaves; for hidden states nothing K-sized is built."""
        if not self.carry.hidden:
            return self.predict(state, t, **keywords)[1]
        self._count(state, keywords, project=False)
        return self._call(state, t, keywords, project=False)[1]

    def _static_shapes(self) -> bool:
        """Where every batch makes the same calls: compiled networks, devices that would wait to count rows, and
        processes that train together, each of which must make the calls that the others make.
        """
        if self.inner is not self.denoiser or (dist.is_available() and dist.is_initialized()):
            return True
        parameter = next(self.inner.parameters(), None) if isinstance(self.inner, nn.Module) else None
        return parameter is not None and parameter.device.type != "cpu"

    def _projects_late(self) -> bool:
        """Whether a fused loss pays: our own denoisers with large vocabularies, projected as they project themselves.

        A subclass that overrides `forward` or `logits`, or has another head, projects by itself.
        """
        inner, smallest = self.inner, _smallest.get()
        if smallest is None or not isinstance(inner, Denoiser) or type(inner.head) is not nn.Linear:
            return False
        if type(inner).forward is not Denoiser.forward or type(inner).logits is not Denoiser.logits:
            return False
        return bool(inner.output_size >= smallest)

    def _projection(self, features: Tensor) -> Projection:
        head, size = self.inner.head, self.categories
        if hasattr(head.weight, "placements"):
            # split over processes; FSDP2 leaves the outermost weights whole after a call only where it was told so,
            # and splits them again, with their gradients, at the end of the backward pass
            self.inner.unshard()
        weight, bias = head.weight, head.bias
        if len(weight) > size:
            weight, bias = weight[:size], None if bias is None else bias[:size]
        return Projection(features, weight, bias, self.inner.architecture.soft_cap, self.inner.autocast)

    def _count(self, state: Any, keywords: dict[str, Any], **options: bool) -> None:
        sequences = _batch_of(state)
        self.calls += 1
        self.sequences += sequences
        own = getattr(getattr(self.inner, "architecture", None), "loops", 1)
        self.block_passes += sequences * (
            self.depth if self.loops is None else self.depth // own * self.loops
        )
        if hasattr(self.inner, "multiply_adds"):
            self.multiply_adds += self.inner.multiply_adds(state, loops=self.loops, **options, **keywords)


class Chain(Network):
    """A network along a chain of sampling steps: it keeps each sequence's carry from call to call.

    `given`, `attend` and `labels` are those of the whole batch; `transform` is applied to the logits of every call.
    With a strength `guided_by` every sequence is read twice, with its labels and without, each reading with a carry of
    its own, and the predictions are guided ones. `spent` counts the calls of each sequence. A `watched` chain keeps the
    `latest` prediction, and the same as the network said it, before the transform.
    """

    def __init__(
        self,
        denoiser: Callable[..., Tensor],
        size: int,
        transform: LogitTransform | None = None,
        given: Tensor | None = None,
        attend: Tensor | None = None,
        batch: int = 0,
        labels: Tensor | None = None,
        guided_by: float | None = None,
        loops: int | None = None,
        watched: bool = False,
    ) -> None:
        super().__init__(denoiser, size, loops)
        self.strength = guided_by
        self.copies = 1 if guided_by is None else 2
        self.batch = batch * self.copies
        self.spent = torch.zeros(batch, dtype=torch.long)
        self.watched = watched
        self.latest: Prediction | None = None
        self.latest_raw: Prediction | None = None
        self._places = torch.arange(batch)
        self.transform = transform or (lambda logits: logits)
        self.known = {"given": given, "attend": attend, "labels": labels}
        if guided_by is not None:
            assert labels is not None
            self.known = {name: None if v is None else torch.cat([v, v]) for name, v in self.known.items()}
            self.known["labels"] = torch.cat([labels, torch.full_like(labels, torch.nan)])
        self.carried: Tensor | None = None

    def read(
        self,
        state: Any,
        t: Tensor,
        *,
        rows: Tensor | None = None,
        busy: Tensor | None = None,
        aside: bool = False,
        **keywords: Any,
    ) -> Prediction:
        """x_hat at `state`, which holds the whole batch or its sequences `rows`.

        Only those carry on, or where `busy` (batch,) holds; the others' carry stays as it was. A call `aside` is about
        another state than the step began with: it does not become the `latest` one.
        """
        self._spend(rows, busy)
        before = self.latest_raw
        prediction = self._guided(state, t, rows, busy, keywords)
        if aside:
            self.latest_raw = before
        elif self.watched:
            self.latest = prediction
        return prediction

    def _guided(
        self, state: Any, t: Tensor, rows: Tensor | None, busy: Tensor | None, keywords: dict[str, Any]
    ) -> Prediction:
        if self.strength is None:
            return self._read(state, t, rows, busy, keywords)
        count = _batch_of(state)
        both = torch.arange(count, device=_device_of(state)).repeat(2)
        prediction = self._read(
            _rows_of(state, both),
            t[both.to(t.device)] if t.dim() else t,
            None if rows is None else torch.cat([rows, rows + self.batch // 2]),
            None if busy is None else busy.repeat(2),
            keywords,
        )
        labelled, unlabelled = prediction.logits.split(count)
        if self.latest_raw is not None:
            self.latest_raw = Prediction(self.latest_raw.logits[:count])
        return GuidedPrediction(Prediction(labelled), Prediction(unlabelled), self.strength)

    @property
    def given(self) -> Tensor | None:
        """Which positions of each sequence are clamped."""
        given = self.known["given"]
        return None if given is None else given[: self.batch // self.copies]

    @property
    def attend(self) -> Tensor | None:
        """Which positions of each sequence are no padding."""
        attend = self.known["attend"]
        return None if attend is None else attend[: self.batch // self.copies]

    def _read(
        self, state: Any, t: Tensor, rows: Tensor | None, busy: Tensor | None, keywords: dict[str, Any]
    ) -> Prediction:
        count = _batch_of(state)
        known = self.known
        if rows is not None:
            known = {name: None if value is None else value[rows] for name, value in known.items()}
        carried = self.carried if rows is None or self.carried is None else self.carried[rows]
        time = t.to(_device_of(state), torch.float32).expand(count)
        tempered = self.carry.tempered
        raw, fresh = self.predict(state, time, carried, raw_only=tempered, **{**known, **keywords})
        prediction = Prediction(self.transform(raw.logits))
        if self.watched:
            self.latest_raw = raw
        if tempered:
            fresh = self.carry.after(prediction.logits, None, self.inner)
        if fresh is not None:
            self._keep(fresh, rows, busy)
        return prediction

    def select(self, rows: Tensor) -> None:
        """Go on with these sequences only."""
        before = self.batch // self.copies
        both = torch.cat([rows + before * copy for copy in range(self.copies)])
        self.batch, self._places = len(both), self._places[rows.cpu()]
        self.known = {name: None if value is None else value[both] for name, value in self.known.items()}
        self.carried = None if self.carried is None else self.carried[both]
        self.latest = None  # the next call's; what was said last of those that stay may still be their score
        if self.latest_raw is not None:
            self.latest_raw = Prediction(self.latest_raw.logits[rows])

    def _spend(self, rows: Tensor | None, busy: Tensor | None) -> None:
        if not self.batch:  # nobody said how many sequences there are
            return
        if busy is not None:
            self.spent = self.spent.to(busy.device) + self.copies * busy
        elif rows is not None:
            self.spent[self._places[rows]] += self.copies
        else:
            self.spent[self._places] += self.copies

    def _keep(self, fresh: Tensor, rows: Tensor | None, busy: Tensor | None) -> None:
        if busy is not None:
            before = torch.zeros_like(fresh) if self.carried is None else self.carried
            fresh = torch.where(busy.view(-1, *(1,) * (fresh.dim() - 1)), fresh, before)
        if rows is None:
            self.carried = fresh
            return
        whole = self.carried
        if whole is None:
            whole = torch.zeros(self.batch, *fresh.shape[1:], dtype=fresh.dtype, device=fresh.device)
        self.carried = whole.index_copy(0, rows, fresh)


def _batch_of(state: Any) -> int:
    """The number of sequences in a state of any kind."""
    for name in ("ids", "vectors"):
        if hasattr(state, name):
            return int(getattr(state, name).shape[0])
    return int(state.shape[0])


def _device_of(state: Any) -> torch.device:
    for name in ("ids", "vectors"):
        if hasattr(state, name):
            state = getattr(state, name)
    device: torch.device = state.device
    return device


def _rows_of(state: Any, rows: Tensor) -> Any:
    if isinstance(state, Tensor):
        return state[rows]
    return state.rows(rows)
