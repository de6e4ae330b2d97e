"""Requests denoised side by side in one thread, their network calls made together.

Every request runs the library's own sampling loop in a greenlet of its own. Where that loop calls the network, the
greenlet hands the call over and sleeps; the engine collects the calls of all requests, whatever their samplers, steps
and temperatures, makes those of one model as a single call, and wakes everybody with its rows. So a request can
start and stop at any time, and noise belongs to samples, so companions do not change what comes out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import torch
from greenlet import getcurrent, greenlet
from torch import Tensor, nn

from simplax.errors import UserError
from simplax.pretrained.model import Model
from simplax.serve.limits import Limits
from simplax.serve.merging import Call, call_together
from simplax.serve.metrics import Metrics

logger = logging.getLogger(__name__)
Deliver = Callable[[str, dict[str, Any]], None]
Work = Callable[["Job", Model], dict[str, Any]]
FAILED = "The server failed at this request; its log says why."


class Busy(Exception):
    """No more requests may wait; `seconds` is when to try again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Stopped(Exception):
    """Thrown into a request that must not go on; `status` and the message are for its client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Job:
    """One request: `work(job, model)` draws `sequences` samples and returns what the client gets.

    `deliver` is called in the engine's thread with the name and data of each event: `step` while it runs, then
    exactly one `done` or `error`. `logits` are what the network said at the last call, if it was about all sequences.
    """

    def __init__(
        self, model: Model, sequences: int, work: Work, deliver: Deliver, arrived: float | None = None
    ) -> None:
        self.model, self.sequences = model, sequences
        self.logits: Tensor | None = None
        self.arrived = time.monotonic() if arrived is None else arrived
        self.started: float | None = None
        self._work, self._deliver = work, deliver
        self._stopped: Stopped | None = None
        self._greenlet: Any = None
        self.call: Call | None = None

    def emit(self, name: str, data: dict[str, Any]) -> None:
        self._deliver(name, data)

    def stop(self, status: int, message: str) -> None:
        """From any thread: end it at its next network call."""
        self._stopped = self._stopped or Stopped(status, message)

    def check(self, now: float, seconds: float) -> Stopped | None:
        if self._stopped is None and now - self.arrived > seconds:
            self.stop(504, f"This took longer than {seconds:g} seconds: ask for fewer steps or sequences.")
        return self._stopped

    def start(self) -> None:
        self.started = time.monotonic()
        self._greenlet = greenlet(self._run)
        self.call = self._greenlet.switch()

    def resume(self, result: Any) -> None:
        logits = result[0] if isinstance(result, tuple) else result
        self.logits = logits if len(logits) == self.sequences else None
        self.call = self._greenlet.switch(result)

    def throw(self, error: BaseException) -> None:
        if self._greenlet is None:  # it never started
            self._fail(error)
        else:
            self.call = self._greenlet.throw(error)

    @property
    def running(self) -> bool:
        return self.call is not None

    def _run(self) -> None:
        try:
            shared = replace(self.model, denoiser=_Shared(self.model.denoiser))
            result = self._work(self, shared)
        except Exception as error:
            self._fail(error)
        else:
            self.emit("done", result)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, Stopped):
            self.emit("error", {"status": error.status, "error": str(error)})
        elif isinstance(error, UserError):
            self.emit("error", {"status": 422, "error": str(error)})
        else:
            logger.error("a request failed", exc_info=error)
            self.emit("error", {"status": 500, "error": FAILED})


class _Shared(nn.Module):
    """A denoiser whose calls are made by the engine. It is a wrapper like a compiled module: the network inside, found
    under the same name, says what it takes and carries."""

    def __init__(self, denoiser: nn.Module) -> None:
        super().__init__()
        self._orig_mod = denoiser

    def forward(self, state: Any, t: Tensor | None = None, **keywords: Any) -> Any:
        return getcurrent().parent.switch(Call(self._orig_mod, state, t, keywords))


class Engine:
    """The thread that runs all jobs. `submit`, `stop` and the counts may be used from any thread."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits, self.metrics = limits, metrics
        self._waiting: deque[Job] = deque()
        self._active: list[Job] = []
        self._changed = threading.Condition()
        self._refusal: str | None = None
        self._ended = False
        self._pace = 1.0  # seconds that a sequence took lately, its share of the batch
        self._thread = threading.Thread(target=self._run, name="simplax-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: Job) -> None:
        with self._changed:
            if self._refusal is not None:
                raise Stopped(503, self._refusal)
            if len(self._waiting) >= self.limits.queue:
                raise Busy(self.retry_after())
            self._waiting.append(job)
            self._changed.notify()

    def ahead(self, job: Job) -> int | None:
        """How many requests wait before this one; None once it runs."""
        with self._changed:
            return self._waiting.index(job) if job in self._waiting else None

    def counts(self) -> dict[str, int]:
        with self._changed:
            return {
                "waiting": len(self._waiting),
                "running": len(self._active),
                "sequences": sum(job.sequences for job in self._active),
            }

    def retry_after(self) -> int:
        """Whole seconds after which there should be room again."""
        return max(1, min(60, round(self._pace * max(1, self.limits.batch // 2))))

    def drain(self, message: str) -> None:
        """Take no more requests and give up those that wait; what runs goes on."""
        with self._changed:
            self._refusal = message
            for job in self._waiting:
                job.stop(503, message)
            self._changed.notify()

    def stop(self, message: str) -> None:
        """End everything, and the thread."""
        self.drain(message)
        with self._changed:
            self._ended = True
            for job in self._active:
                job.stop(503, message)
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        # gradients are off for the whole thread: each loop turns them off and on again, and all loops share one switch
        with torch.no_grad():
            while True:
                with self._changed:
                    while not self._waiting and not self._active:
                        if self._ended:
                            return
                        self._changed.wait()
                self._drop()
                self._admit()
                self._step()

    def _drop(self) -> None:
        """Give up what was stopped or takes too long, before anybody works for it again."""
        now = time.monotonic()
        with self._changed:
            late = [job for job in self._waiting if job.check(now, self.limits.seconds)]
            for job in late:
                self._waiting.remove(job)
        late += [job for job in self._active if job.check(now, self.limits.seconds)]
        for job in late:
            error = job.check(now, self.limits.seconds)
            assert error is not None
            job.throw(error)
        self._retire()

    def _admit(self) -> None:
        while True:
            with self._changed:
                room = self.limits.batch - sum(job.sequences for job in self._active)
                if not self._waiting or (self._active and self._waiting[0].sequences > room):
                    break
                job = self._waiting.popleft()
                self._active.append(job)
            job.start()
        self._retire()

    def _step(self) -> None:
        """One network call for everybody."""
        groups: dict[Hashable, list[Job]] = {}
        for job in self._active:
            assert job.call is not None
            groups.setdefault(job.call.key(), []).append(job)
        for jobs in groups.values():
            calls = [job.call for job in jobs if job.call is not None]
            self.metrics.network_call(sum(call.batch() for call in calls))
            try:
                results = call_together(calls)
            except Exception as error:  # it is nobody's fault in particular, and the others go on
                for job in jobs:
                    job.throw(error)
                continue
            for job, result in zip(jobs, results):
                job.resume(result)
        self._retire()

    def _retire(self) -> None:
        ended = [job for job in self._active if not job.running]
        if not ended:
            return
        now = time.monotonic()
        with self._changed:
            together = sum(job.sequences for job in self._active)
            self._active = [job for job in self._active if job.running]
        for job in ended:
            assert job.started is not None
            self._pace += 0.2 * ((now - job.started) / max(together, 1) - self._pace)
            self.metrics.job_ended(now - job.arrived, job.sequences)
