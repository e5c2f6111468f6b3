"""What a program says of itself: ``hocket.steps(loader)``, ``hocket.step()`` and ``hocket.away()``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from hocket import _job, _strays

T = TypeVar("T")


class Steps(Generic[T]):
    """What ``steps()`` returns: iterate over it once or many times; ``len()`` is the loader's.

    Each pass is a generator that only the ``for`` holds. So a ``break``, an exception and Ctrl-C all end the open
    step at once: the loop drops the generator, and the generator's ``finally`` ends the step. Where passes are mixed
    (``zip``), the step of the one that began first is the step, and ends what began in it.
    """

    def __init__(self, loader: Iterable[T], optimizers: tuple[Any, ...]) -> None:
        self._loader = loader
        self._optimizers = optimizers
        self._pass: Iterator[T] | None = None

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[T]:
        return self._steps()

    def __next__(self) -> T:
        if self._pass is None:
            self._pass = self._steps()
        return next(self._pass)

    def _steps(self) -> Iterator[T]:
        job = _job.current()
        for batch in self._loader:  # fetched between two steps: another job may have the turn meanwhile
            _strays.look(job)
            step = job.begin_step()
            finished = False
            try:
                yield batch
                finished = True
                for optimizer in self._optimizers:
                    optimizer.zero_grad(set_to_none=True)
            finally:
                job.end_step(finished, step)


def steps(loader: Iterable[T], optimizer: Any = None) -> Steps[T]:
    """Yields ``loader``'s batches, each inside a step of its own.

    A batch is fetched between two steps; the body of the loop is the step. The step waits for this job's turn,
    and hands the turn on at its end when somebody waits for it. A step that the loop leaves by ``break`` or by an
    exception ends there and is not counted. Iterate on one thread: a step that ends on another one than it began on
    is an error.

    Args:
        loader: what to iterate over: a DataLoader, a list, a generator.
        optimizer: one optimizer or several. Their gradients are freed (``zero_grad(set_to_none=True)``) at the end
            of each step, so that they are not held, or moved, while others have the turn.

    >>> for batch in hocket.steps(loader, optimizer=optimizer):
    ...     model(batch).loss.backward()
    ...     optimizer.step()
    """
    if not hasattr(loader, "__iter__"):
        raise TypeError(f"hocket.steps() takes something to iterate over, not {type(loader).__name__}")
    several = isinstance(optimizer, (list, tuple))
    optimizers = tuple(optimizer) if several else () if optimizer is None else (optimizer,)
    for each in optimizers:
        if not callable(getattr(each, "zero_grad", None)):
            raise TypeError(f"optimizer={type(each).__name__} has no zero_grad(): pass an optimizer or a list of them")
    return Steps(loader, optimizers)


class away:
    """The calling thread does not use the GPU in here: it waits for data, a lock, an answer, or computes on the CPU.

    Meanwhile its job's memory may be moved to the host for another job that has its turn. At the end the thread waits
    until all of it is back, if it was moved. Waiting for a DataLoader with workers counts as away by itself. A step, an
    allocation on the GPU or one of PyTorch's operators on a GPU tensor in here ends it; in a step it does nothing.
    **Never let other code than PyTorch's operators use GPU tensors in here:** they may be on the host.

    >>> with hocket.away():
    ...     batch = slow_queue.get()
    """

    def __enter__(self) -> away:
        self._job = _job.require()
        self._job.begin_away()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._job.end_away()


class step:
    """Runs one step: waits for the turn at its begin, hands it on at its end when somebody waits.

    A step inside a step is part of the outer one, and ends with it at the latest. A step that ends with an exception
    is not counted. If no coordinator can be had, the body runs all the same and ``coordinated`` is False.

    >>> with hocket.step():
    ...     train(batch)
    """

    def __enter__(self) -> step:
        self._job = _job.current()
        _strays.look(self._job)
        self._step = self._job.begin_step()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._job.end_step(kind is None, self._step)

    @property
    def coordinated(self) -> bool:
        """Whether a coordinator gave the turn of this step."""
        return bool(self._job.info()["coordinated"])
