"""Boundaries of a program without a line of ours in it (``hocket run``).

Two kinds of events are seen: PyTorch's global optimizer hooks, and fetches from a ``torch.utils.data.DataLoader``.
A ``Tracker`` makes steps of them, by these rules:

1.  **A fetch is a boundary.** The step ends before the batch is fetched and the next begins when it is there, so
    another job may run while this one loads data. Activations are dead there, and mostly gradients too. A loop that is
    left (``break``) ends its step when its iterator is gone; a single ``next(iter(loader))`` is no loop.
2.  **A step is counted when an optimizer steps**, not when a batch is fetched: micro-batches of gradient
    accumulation may hand the turn on, and so may evaluation loops, but neither counts.
3.  **Several optimizers make one round** (GANs, one optimizer per parameter group). A round is over when an optimizer
    steps that has stepped in it already. Once one round is known, the next is counted as soon as the same optimizers
    have stepped. The first is therefore counted with the second, or when the process ends.
4.  **Without a DataLoader in the round, the end of ``optimizer.step()`` is the boundary**; a step begins at the next
    forward of a module with gradients. Where ``optimizer.zero_grad()`` was seen to follow the step, the boundary waits
    for it.
5.  **A step that GradScaler skips** (inf or nan in the gradients) counts like any other: the loop did its pass.
6.  **Inside ``optimizer.step(closure)``** (LBFGS) and **inside backward** (an optimizer per parameter stepped by hooks,
    activation checkpointing) there is no boundary: steps are noted there, and the boundary comes with rule 1 or 4.
7.  **Only training threads have boundaries**: the main thread, and any that has stepped an optimizer itself. Loader
    workers, pinning and prefetching threads, and autograd's own are ignored.
8.  **Events before CUDA starts and before any optimizer steps** are ignored: looking at a first batch says
    nothing yet about the device.
9.  A forked child of a job (a loader's worker) has no steps. A child forked before a device was used has its own.
10. **The replay of a CUDA graph is a forward**, and a step of each optimizer that stepped while it was captured. The
    capture itself is neither. A replay allocates nothing, so it is a scope of its own: it waits for the turn.
11. **Where a step ends is a guess**: one whose turn is not used for long gives it in its midst (``begin_step(True)``).
12. A thread that says ``hocket.steps()`` or ``hocket.step()`` itself is believed: from then on the hooks stand down
    there. Optimizers stepped in backward are then nobody's, unless another thread has boundaries.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Protocol

HOW = "steps found through PyTorch's optimizer hooks and DataLoader fetches"


class Steps(Protocol):
    """What a Tracker drives: a job's steps."""

    def begin_step(self) -> None: ...
    def end_step(self, count: bool) -> None: ...
    def inherited(self) -> bool: ...  # asked in a child just forked: it has no part in its parent's job


@dataclasses.dataclass
class _Thread:
    """What is known of one thread."""

    owner: weakref.ref[threading.Thread]
    trains: bool  # rule 7
    says: bool = False  # its steps itself (rule 12)
    in_step: bool = False
    fetching: int = 0  # depth: a data set may iterate over a DataLoader of its own
    stepping: list[int] = dataclasses.field(default_factory=list)  # ids of the optimizers now inside step()
    round: set[int] = dataclasses.field(default_factory=set)  # ids of the optimizers that stepped in this round
    known_round: frozenset[int] = frozenset()
    counted: bool = False  # this round is counted already
    uncounted: int = 0  # rounds that are over, to be told at the next boundary
    fetched: bool = False  # since the round began
    fetches_batches: bool = False  # the round before did
    zeroes_after_step: bool = False  # zero_grad() was seen between a step and the next forward
    after_step: bool = False  # the optimizer has stepped, no forward since
    steps_seen: int = 0  # of optimizers
    loop: object = None  # whose fetch began the step; None: none did
    pending: bool = False  # a boundary is due at the next forward or zero_grad


class Tracker:
    """Makes steps of events, by the rules above.

    ``watch_forward(True)`` is called when the next forward of a module matters, ``watch_forward(False)`` when it no
    longer does. ``started()`` says whether CUDA has (rule 8), ``capturing()`` whether this thread captures a graph.
    """

    def __init__(
        self,
        steps: Steps,
        watch_forward: Callable[[bool], None],
        started: Callable[[], bool],
        capturing: Callable[[], bool],
    ) -> None:
        self.boundaries = 0
        self._steps = steps
        self._watch_forward = watch_forward
        self._started = started
        self._capturing = capturing
        self._seen_optimizer = False
        self._threads: dict[int, _Thread] = {}
        self._last_training: _Thread | None = None
        self._waiting_for_forward = 0
        self._lock = threading.Lock()
        self._standing_down = False  # everywhere: a child without a part in its parent's job
        self._somebody_says = False
        self._captured: list[object] | None = None  # optimizers that stepped in the graph being captured

    # Events. `in_backward` is True where autograd is running on the calling thread.

    def fetching(self) -> None:
        """A DataLoader is asked for a batch."""
        thread = self._thread()
        thread.fetching += 1
        if thread.fetching == 1 and self._applies(thread):
            thread.stepping.clear()  # a step() that raised never reported its end
            self._end(thread)

    def fetched(self, got_batch: bool, loop: object = None) -> None:
        """It answered, with a batch or with the end of the data or an error. ``loop`` names who iterates."""
        thread = self._thread()
        thread.fetching -= 1
        if thread.fetching == 0 and self._applies(thread) and got_batch:
            thread.fetched = True
            self._begin(thread)
            thread.loop = loop

    def left(self, loop: object, batches: int) -> None:
        """Nobody iterates over ``loop`` any more, which has given so many batches."""
        thread = self._thread()
        if thread.in_step and thread.loop is loop and (batches > 1 or thread.after_step) and self._applies(thread):
            self._end(thread)

    def optimizer_began(self, optimizer: object, in_backward: bool) -> None:
        thread = self._thread()
        if not in_backward:
            if id(optimizer) in thread.stepping:  # it raised last time
                thread.stepping.clear()
            thread.stepping.append(id(optimizer))

    def optimizer_ended(self, optimizer: object, in_backward: bool) -> None:
        """``optimizer`` has stepped, or GradScaler skipped it."""
        self._thread().steps_seen += 1
        captured = self._captured  # another thread may end it meanwhile
        if captured is not None and self._in_capture():
            if self._thread().stepping:
                self._thread().stepping.pop()
            return captured.append(optimizer)
        self._seen_optimizer = True
        if in_backward:
            thread = self._last_training or self._thread(threading.main_thread())
            if thread.says or (self._somebody_says and self._last_training is None):
                return
            self._note(thread, optimizer)
            if not thread.fetches_batches:
                self._await_forward(thread)
            return
        thread = self._thread()
        thread.trains = True
        if thread.stepping:
            thread.stepping.pop()
        self._note(thread, optimizer)
        if not thread.stepping and self._applies(thread):
            self._after_step(thread)

    def steps_seen(self) -> int:
        """Steps of optimizers on the calling thread."""
        return self._thread().steps_seen

    def zeroed(self, in_backward: bool) -> None:
        """An optimizer's gradients were zeroed."""
        thread = self._thread()
        if in_backward or thread.stepping or not thread.after_step or self._in_capture() or not self._applies(thread):
            return
        thread.zeroes_after_step = True
        if thread.pending:
            self._end_if_open(thread)

    def forward_began(self, in_backward: bool) -> None:
        """A module's forward begins."""
        thread = self._thread()
        if in_backward or thread.stepping or not thread.pending or self._in_capture():
            return
        self._forward_came(thread)
        if self._applies(thread):
            self._end_if_open(thread)
            self._begin(thread)

    def capture_begins(self, in_backward: bool) -> None:
        """A CUDA graph is about to be captured. Its step begins before: nothing waits, or moves, in a capture."""
        self.forward_began(in_backward)
        self._captured = []

    def capture_ended(self) -> list[object]:
        """Returns the optimizers that stepped in it, for replay()."""
        captured, self._captured = self._captured or [], None
        return captured

    def replay(self, replay: Callable[[], Any], captured: list[object], trains: bool, in_backward: bool) -> Any:
        """``replay`` replays a graph; ``trains``: with gradients."""
        if in_backward or self._standing_down or self._thread().says:
            return replay()
        if trains or captured:
            self.forward_began(in_backward)
        self._steps.begin_step()
        try:
            result = replay()
        finally:
            self._steps.end_step(False)
        for optimizer in captured:
            self.optimizer_began(optimizer, in_backward)
            self.optimizer_ended(optimizer, in_backward)
        return result

    def stand_down(self) -> None:
        """The calling thread says its steps itself. The one that was found ends."""
        thread = self._thread()
        if thread.says:
            return
        thread.says = self._somebody_says = True
        if self._last_training is thread:
            self._last_training = None
        if thread.pending:
            self._forward_came(thread)
        self._end_if_open(thread)

    def forked(self) -> None:
        """Rule 9, in the child."""
        self._standing_down |= self._steps.inherited()
        says = self._thread().says
        self.boundaries = 0
        self._seen_optimizer = False
        self._threads.clear()
        self._last_training = None
        self._lock = threading.Lock()  # the one there was may be held by a thread that is not here
        self._thread().says = self._somebody_says = says
        if self._waiting_for_forward > 0:
            self._waiting_for_forward = 0
            self._watch_forward(False)

    def rest(self) -> None:
        """The calling thread's code is over for now: a boundary, if a step is open."""
        thread = self._thread()
        thread.stepping.clear()  # a step() that raised never reported its end
        if thread.in_step and self._applies(thread):
            self._end(thread)

    def finish(self) -> None:
        """The process ends: its last round is counted and its step ends."""
        thread = self._thread()
        if thread.round and not thread.counted:
            thread.uncounted += 1
            thread.counted = True
        if self._applies(thread) and (thread.in_step or thread.uncounted):
            self._end(thread)

    # What follows from them.

    def _thread(self, which: threading.Thread | None = None) -> _Thread:
        which = which or threading.current_thread()
        assert which.ident is not None
        thread = self._threads.get(which.ident)
        if thread is None or thread.owner() is not which:  # one that has ended had the same number
            if thread is not None and thread.pending:
                self._forward_came(thread)
            thread = _Thread(weakref.ref(which), trains=which is threading.main_thread())
            self._threads[which.ident] = thread
        return thread

    def _in_capture(self) -> bool:
        """The device is asked only while some thread captures: this is looked at in every step."""
        return self._captured is not None and self._capturing()

    def _applies(self, thread: _Thread) -> bool:
        if self._standing_down or thread.says or not thread.trains:
            return False
        if not self._seen_optimizer and not self._started():
            return False
        self._last_training = thread
        return True

    def _note(self, thread: _Thread, optimizer: object) -> None:
        """Rules 2 and 3."""
        over = id(optimizer) in thread.round or (thread.counted and thread.round == thread.known_round)
        if over or not thread.round:
            self._begin_round(thread)
        thread.round.add(id(optimizer))
        thread.after_step = True
        if thread.round == thread.known_round and not thread.counted:
            thread.counted = True
            thread.uncounted += 1

    def _begin_round(self, thread: _Thread) -> None:
        if thread.round and not thread.counted:
            thread.uncounted += 1
        thread.known_round = frozenset(thread.round)
        thread.round.clear()
        thread.counted = False
        thread.fetches_batches, thread.fetched = thread.fetched, False

    def _after_step(self, thread: _Thread) -> None:
        """Rule 4."""
        if thread.fetches_batches:
            return
        if not (thread.in_step and thread.zeroes_after_step):
            self._end(thread)
        self._await_forward(thread)

    def _begin(self, thread: _Thread) -> None:
        thread.after_step = False
        thread.loop = None
        if not thread.in_step:
            self._steps.begin_step()
            thread.in_step = True

    def _end(self, thread: _Thread) -> None:
        """A boundary: tells the rounds that are over, each as one step."""
        self.boundaries += 1
        if not thread.in_step:
            self._steps.begin_step()
        thread.in_step = False  # first: an exception may come out of each of these
        uncounted, thread.uncounted = thread.uncounted, 0
        self._steps.end_step(uncounted > 0)
        for _ in range(uncounted - 1):
            self._steps.begin_step()
            self._steps.end_step(True)

    def _end_if_open(self, thread: _Thread) -> None:
        if thread.in_step:
            self._end(thread)

    def _await_forward(self, thread: _Thread) -> None:
        if thread.pending:
            return
        with self._lock:
            thread.pending = True
            self._waiting_for_forward += 1
            if self._waiting_for_forward == 1:
                self._watch_forward(True)

    def _forward_came(self, thread: _Thread) -> None:
        with self._lock:
            thread.pending = False
            self._waiting_for_forward -= 1
            if self._waiting_for_forward == 0:
                self._watch_forward(False)


_tracker: Tracker | None = None


def stand_down() -> None:
    """Rule 12. Does nothing where no hooks are installed."""
    if _tracker is not None:
        _tracker.stand_down()


def rest() -> None:
    """The calling thread's code is over for now, in the midst of a loop, too (an exception in a notebook's cell)."""
    if _tracker is not None:
        _tracker.rest()


def install(steps: Steps) -> Tracker:
    """Sees PyTorch's events from now on. Once per process."""
    global _tracker
    import torch

    forward = _ForwardHook()
    tracker = Tracker(steps, forward.watch, torch.cuda.is_initialized, _capturing)
    forward.tracker = tracker
    _see_optimizers(tracker)
    _see_scalers(tracker)
    _see_loaders(tracker)
    _see_graphs(tracker, torch.cuda.CUDAGraph)
    _say_nothing_of_our_hook()
    os.register_at_fork(after_in_child=tracker.forked)
    atexit.register(tracker.finish)
    _tracker = tracker
    return tracker


def _in_backward() -> bool:
    import torch

    return torch._C._current_graph_task_id() != -1


def _capturing() -> bool:
    import torch

    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


class _ForwardHook:
    """PyTorch's global forward pre-hook, registered only while a tracker waits for a forward: it slows every module."""

    def __init__(self) -> None:
        self.tracker: Tracker | None = None
        self._handle: Any = None

    def watch(self, wanted: bool) -> None:
        from torch.nn.modules import module

        if wanted:
            self._handle = module.register_module_forward_pre_hook(self._forward)
        else:
            self._handle.remove()

    def _forward(self, module: Any, arguments: Any) -> None:
        import torch

        if torch.compiler.is_compiling():  # what is traced becomes part of the program's graph, and cannot wait
            return
        assert self.tracker is not None
        if torch.is_grad_enabled():  # else it is no training: an evaluation, or acting in an environment
            self.tracker.forward_began(_in_backward())


def _say_nothing_of_our_hook() -> None:
    """A compiled module warns that a global hook is called twice: no harm to ours, but the end under ``-W error``."""
    warnings.filterwarnings("ignore", r"Using `torch\.compile\(module\)` when there are global hooks", UserWarning)


def _see_optimizers(tracker: Tracker) -> None:
    from torch.optim import optimizer as optim

    optim.register_optimizer_step_pre_hook(lambda o, a, k: tracker.optimizer_began(o, _in_backward()))
    optim.register_optimizer_step_post_hook(lambda o, a, k: tracker.optimizer_ended(o, _in_backward()))
    zero_grad = optim.Optimizer.zero_grad

    @functools.wraps(zero_grad)
    def zero_grad_and_tell(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = zero_grad(self, *args, **kwargs)
        tracker.zeroed(_in_backward())
        return result

    optim.Optimizer.zero_grad = zero_grad_and_tell  # type: ignore[method-assign]


def _see_scalers(tracker: Tracker) -> None:
    from torch.amp.grad_scaler import GradScaler

    step = GradScaler.step

    @functools.wraps(step)
    def step_and_tell(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = tracker.steps_seen()
        result = step(self, optimizer, *args, **kwargs)
        if tracker.steps_seen() == before:
            tracker.optimizer_ended(optimizer, _in_backward())
        return result

    GradScaler.step = step_and_tell  # type: ignore[method-assign]


class _Loop:
    """One iteration over a loader. Does not keep the iterator alive."""

    def __init__(self) -> None:
        self.batches = 0


def _loop_of(iterator: Any, tracker: Tracker) -> _Loop:
    loop = getattr(iterator, "_hocket_loop", None)
    if loop is None:
        loop = iterator._hocket_loop = _Loop()
        weakref.finalize(iterator, lambda: tracker.left(loop, loop.batches)).atexit = False
    return loop


def _see_loaders(tracker: Tracker) -> None:
    from torch.utils.data import dataloader

    following = dataloader._BaseDataLoaderIter.__next__

    @functools.wraps(following)
    def next_and_tell(self: Any) -> Any:
        loop = _loop_of(self, tracker)
        got = False
        try:
            tracker.fetching()
            batch = following(self)
            got = True
            return batch
        finally:
            loop.batches += got
            tracker.fetched(got, loop)

    dataloader._BaseDataLoaderIter.__next__ = next_and_tell  # type: ignore[method-assign]


def _see_graphs(tracker: Tracker, graph: Any) -> None:
    """Rule 10. ``graph`` is torch.cuda.CUDAGraph."""
    import torch

    begin, end, replay = graph.capture_begin, graph.capture_end, graph.replay

    @functools.wraps(begin)
    def begin_and_tell(self: Any, *args: Any, **kwargs: Any) -> Any:
        tracker.capture_begins(_in_backward())
        return begin(self, *args, **kwargs)

    @functools.wraps(end)
    def end_and_tell(self: Any) -> Any:
        self._hocket_captured = tracker.capture_ended()
        return end(self)

    @functools.wraps(replay)
    def replay_and_tell(self: Any) -> Any:
        captured = getattr(self, "_hocket_captured", [])
        return tracker.replay(lambda: replay(self), captured, torch.is_grad_enabled(), _in_backward())

    graph.capture_begin, graph.capture_end, graph.replay = begin_and_tell, end_and_tell, replay_and_tell


def warn_without_boundaries(tracker: Tracker, job: str) -> None:
    """Says so once when no boundary was found in the first minute (HOCKET_BOUNDARY_WARNING_SECONDS)."""
    seconds = float(os.environ.get("HOCKET_BOUNDARY_WARNING_SECONDS") or 60)

    def check() -> None:
        time.sleep(seconds)
        if tracker.boundaries == 0:
            print(
                f"hocket: no step boundary of job {job} was found in {seconds:g} s, so it keeps the device while it "
                "computes. Write `for batch in hocket.steps(loader):` around its training loop, or "
                "`with hocket.step():` around one pass of it.",
                file=sys.stderr,
                flush=True,
            )

    # A threading.Timer would not be seen to be Hocket's own: see _strays.
    threading.Thread(target=check, name="hocket-boundaries", daemon=True).start()
