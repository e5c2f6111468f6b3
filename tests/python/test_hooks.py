"""Boundaries without a line: real optimizers and loaders on the CPU, each a scene with the steps it must give.

A scene's loop calls nothing of Hocket. `run` installs the hooks for it and takes them out again.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from fakes import FakeNative
from hocket import hooks
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Job(FakeNative):
    """Counts boundaries too: the ends of steps."""

    is_inherited = False

    def inherited(self) -> bool:
        return self.is_inherited

    def fork(self) -> None:
        """What a forked child's copy sees."""
        self.story, self.steps, self.open = [], 0, []
        self.tracker.forked()

    @property
    def boundaries(self) -> int:
        return sum(event.startswith("end") for event in self.story)


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """PyTorch with the hooks in it, driving a job that only counts."""
    from torch.amp.grad_scaler import GradScaler
    from torch.optim import optimizer as optim
    from torch.utils.data import dataloader

    monkeypatch.setattr(optim, "_global_optimizer_pre_hooks", optim._global_optimizer_pre_hooks.copy())
    monkeypatch.setattr(optim, "_global_optimizer_post_hooks", optim._global_optimizer_post_hooks.copy())
    monkeypatch.setattr(optim.Optimizer, "zero_grad", optim.Optimizer.zero_grad)
    monkeypatch.setattr(GradScaler, "step", GradScaler.step)
    monkeypatch.setattr(dataloader._BaseDataLoaderIter, "__next__", dataloader._BaseDataLoaderIter.__next__)
    for method in ("capture_begin", "capture_end", "replay"):
        monkeypatch.setattr(torch.cuda.CUDAGraph, method, getattr(torch.cuda.CUDAGraph, method))
    monkeypatch.setattr(hooks, "_tracker", None)
    monkeypatch.setattr(hooks.atexit, "register", lambda _: None)
    monkeypatch.setattr(hooks.os, "register_at_fork", lambda **_: None)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: Graph.capturing)
    fake = Job(torch.__version__)
    fake.joined = True
    with warnings.catch_warnings():
        warnings.resetwarnings()
        fake.tracker = hooks.install(fake)
        fake.filters = warnings.filters[:]
    yield fake
    fake.tracker.finish()
    assert fake.depth == 0


def finished(job: Job) -> int:
    """Steps counted once the process ends."""
    job.tracker.finish()
    return job.steps


def loader(batches: int, **options: object) -> DataLoader:
    return DataLoader(TensorDataset(torch.ones(batches, 4)), batch_size=1, **options)


class Net(nn.Module):
    """A linear layer that tells when its forward runs, in the job's story."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)
        self.job = job

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.job.story.append("forward")
        return self.linear(x).sum()


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def test_a_loop_over_a_loader_has_a_step_per_batch_and_fetches_between_them(job: Job) -> None:
    model = Net(job)
    optimizer = sgd(model)
    for (x,) in loader(4):
        optimizer.zero_grad()
        model(x).backward()
        optimizer.step()
    assert finished(job) == 4
    first_begin = job.story.index("begin")
    assert "".join(event[0] for event in job.story).count("bfe") >= 4, job.story
    assert first_begin < job.story.index("forward")


def test_gradient_accumulation_counts_when_the_optimizer_steps_and_may_yield_at_every_batch(job: Job) -> None:
    model = Net(job)
    optimizer = sgd(model)
    for i, (x,) in enumerate(loader(12), start=1):
        model(x).backward()
        if i % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    assert finished(job) == 3
    assert job.boundaries >= 12


def test_two_optimizers_in_turn_are_one_step(job: Job) -> None:
    generator, critic = Net(job), Net(job)
    optimizers = sgd(generator), sgd(critic)
    for (x,) in loader(5):
        for model, optimizer in zip((generator, critic), optimizers, strict=True):
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
    assert finished(job) == 5


def test_a_steady_round_is_counted_at_its_own_end(job: Job) -> None:
    model = Net(job)
    optimizer = sgd(model)
    counts = []
    for (x,) in loader(4):
        counts.append(job.steps)
        model(x).backward()
        optimizer.step()
    assert counts == [0, 0, 2, 3]


def test_an_evaluation_loop_has_boundaries_but_counts_nothing(job: Job) -> None:
    model = Net(job)
    with torch.no_grad():
        for (x,) in loader(6):
            model(x)
    assert job.boundaries >= 6
    assert finished(job) == 0


def test_training_and_evaluation_in_turn_count_the_training_only(job: Job) -> None:
    model = Net(job)
    optimizer = sgd(model)
    for _ in range(3):
        for (x,) in loader(2):
            model(x).backward()
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad():
            for (x,) in loader(5):
                model(x)
    assert finished(job) == 6


def test_steps_that_grad_scaler_skips_count_like_any_other(job: Job) -> None:
    model = Net(job)
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    skipped = 0
    for i, (x,) in enumerate(loader(6)):
        optimizer.zero_grad()
        loss = model(x) * (float("inf") if i in (1, 2) else 1.0)
        scaler.scale(loss).backward()
        skipped += scaler.step(optimizer) is None and i in (1, 2)
        scaler.update()
    assert skipped == 2
    assert finished(job) == 6


def test_an_optimizer_per_parameter_stepped_in_backward_counts_once_a_pass(job: Job) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.01) for parameter in model.parameters()}

    def step(parameter: torch.Tensor) -> None:
        job.story.append("stepped")
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for (x,) in loader(5):
        model(x).sum().backward()
    assert finished(job) == 5
    inside = [job.story[i + 1] for i in range(len(job.story) - 1) if job.story[i] == "stepped"]
    assert inside.count("begin") <= 1, "no step begins inside backward"


def test_an_optimizer_in_backward_without_a_loader_has_its_boundaries_at_the_forward(job: Job) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.01) for parameter in model.parameters()}
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())
    for _ in range(5):
        model(torch.ones(1, 4)).sum().backward()
    assert finished(job) == 5
    assert job.boundaries >= 3


def test_lbfgs_closures_are_inside_one_step(job: Job) -> None:
    model = Net(job)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(1, 4)) ** 2
        loss.backward()
        return loss

    for _ in range(3):
        job.story.append("step")
        optimizer.step(closure)
        job.story.append("stepped")
    assert finished(job) == 3
    passes = " ".join(job.story).split("stepped")
    for one in passes:
        assert "forward" not in one.partition("end")[2], f"a boundary before the last closure: {job.story}"


def test_without_a_loader_the_end_of_step_is_the_boundary_and_the_next_forward_begins(job: Job) -> None:
    model = Net(job)
    optimizer = sgd(model)
    for _ in range(4):
        model(torch.ones(1, 4)).backward()
        optimizer.step()
    assert finished(job) == 4
    assert job.story[:7] == ["forward", "begin", "end uncounted", "begin", "forward", "end", "begin"]


def test_the_boundary_waits_for_zero_grad_where_it_follows_the_step(job: Job) -> None:
    model = Net(job)
    optimizer = sgd(model)
    held = []
    real_end = job.end_step
    job.end_step = lambda count: (held.append(model.linear.weight.grad is not None), real_end(count))[1]
    for _ in range(5):
        model(torch.ones(1, 4)).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert finished(job) == 5
    assert held[2:5] == [False] * 3, "gradients are gone at the boundary, once the pattern is known"


def test_a_function_without_modules_has_boundaries_too(job: Job) -> None:
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(4):
        (weight**2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert finished(job) == 4
    assert job.boundaries >= 4


def test_one_batch_used_for_many_steps_has_boundaries(job: Job) -> None:
    model = Net(job)
    optimizer = sgd(model)
    (x,) = next(iter(loader(1)))
    for _ in range(5):
        model(x).backward()
        optimizer.step()
    assert finished(job) == 5
    assert job.boundaries >= 4


class Graph:
    """As torch.cuda.CUDAGraph is driven."""

    capturing = False

    def __init__(self, job: Job) -> None:
        self.job = job

    def capture_begin(self, pool: object = None) -> None:
        self.job.story.append("capture")
        Graph.capturing = True

    def capture_end(self) -> None:
        Graph.capturing = False

    def replay(self) -> None:
        self.job.story.append("replay")


@pytest.fixture
def graph(job: Job, monkeypatch: pytest.MonkeyPatch) -> Graph:
    for method in ("capture_begin", "capture_end", "replay"):
        monkeypatch.setattr(Graph, method, getattr(Graph, method))
    hooks._see_graphs(job.tracker, Graph)
    return Graph(job)


def test_a_graph_of_a_whole_step_makes_a_step_of_each_replay_and_none_of_its_capture(job: Job, graph: Graph) -> None:
    model = Net(job)
    optimizer = sgd(model)
    for _ in range(3):
        model(torch.ones(1, 4)).backward()
        optimizer.step()
    graph.capture_begin()
    model(torch.ones(1, 4)).backward()
    optimizer.step()
    optimizer.zero_grad()
    graph.capture_end()
    assert job.story[job.story.index("capture") :] == ["capture", "forward"], "nothing waits in a capture"
    before = len(job.story)
    for _ in range(5):
        graph.replay()
    assert finished(job) == 3 + 5
    assert "".join(event[0] for event in job.story[before:]).count("bre") >= 4, job.story


def test_a_scaled_step_in_a_graph_is_one_step_of_each_replay(job: Job, graph: Graph) -> None:
    model = Net(job)
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    graph.capture_begin()
    model(torch.ones(1, 4)).backward()
    scaler.step(optimizer)
    graph.capture_end()
    for _ in range(5):
        graph.replay()
    assert finished(job) == 5


def test_a_graph_replayed_without_gradients_waits_for_the_turn_and_counts_nothing(job: Job, graph: Graph) -> None:
    graph.capture_begin()
    graph.capture_end()
    with torch.no_grad():
        for _ in range(3):
            graph.replay()
    assert job.story == ["capture", *["begin", "replay", "end uncounted"] * 3]
    assert finished(job) == 0


def test_steps_of_others_during_a_capture_are_theirs(job: Job, graph: Graph) -> None:
    optimizer = sgd(Net(job))
    graph.capture_begin()
    Graph.capturing = False  # on the calling thread
    optimizer.step()
    graph.capture_end()
    assert finished(job) == 1


def test_a_graph_of_the_forward_begins_the_step(job: Job, graph: Graph) -> None:
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    graph.capture_begin()
    graph.capture_end()
    for _ in range(5):
        graph.replay()
        (weight**2).sum().backward()
        optimizer.step()
    assert finished(job) == 5
    assert "".join(event[0] for event in job.story).count("bre") >= 3, job.story


def test_a_capture_that_fails_is_forgotten(job: Job, graph: Graph) -> None:
    model = Net(job)
    optimizer = sgd(model)
    with pytest.raises(RuntimeError, match="not permitted"):
        graph.capture_begin()
        try:
            optimizer.step()
            raise RuntimeError("not permitted when stream is capturing")
        finally:
            graph.capture_end()
    for _ in range(4):
        model(torch.ones(1, 4)).backward()
        optimizer.step()
    assert finished(job) == 4


@pytest.mark.parametrize("at_the_top", [True, False])
def test_a_loop_that_is_left_ends_its_step(job: Job, at_the_top: bool) -> None:
    model = Net(job)
    optimizer = sgd(model)
    for i, (x,) in enumerate(loader(8)):
        if at_the_top and i == 3:
            break
        model(x).backward()
        optimizer.step()
        optimizer.zero_grad()
        if not at_the_top and i == 2:
            break
    assert job.depth == 0
    assert job.steps == 3


def test_a_thread_that_rests_within_a_loop_ends_the_step_and_the_loop_may_go_on(job: Job) -> None:
    model = Net(job)
    optimizer = sgd(model)
    batches = iter(loader(4))

    def step() -> None:
        model(next(batches)[0]).backward()
        optimizer.step()

    step()
    step()
    assert job.depth == 1
    hooks.rest()
    assert job.depth == 0
    hooks.rest()
    assert job.depth == 0
    step()
    step()
    assert finished(job) == 4


def test_a_forward_without_gradients_begins_no_step(job: Job) -> None:
    model = Net(job)
    optimizer = sgd(model)
    for _ in range(3):
        job.story.clear()
        with torch.no_grad():
            model(torch.ones(4))
        assert "begin" not in job.story
        model(torch.ones(4)).backward()
        optimizer.step()
    assert finished(job) == 3
    assert job.story[:2] == ["forward", "begin"], "acting, then training"


def test_an_interrupted_begin_in_a_fetch_leaves_the_boundaries_on(job: Job) -> None:
    model = Net(job)
    optimizer = sgd(model)
    begin = job.begin_step

    def interrupted() -> None:
        job.begin_step = begin
        raise KeyboardInterrupt

    job.begin_step = interrupted
    with pytest.raises(KeyboardInterrupt):
        next(iter(loader(3)))
    for (x,) in loader(3):
        model(x).backward()
        optimizer.step()
    assert job.steps == 3
    assert job.boundaries >= 3


def test_a_thread_inherits_nothing_of_one_that_had_its_number(job: Job) -> None:
    class Thread:
        ident = 7

    first, second = Thread(), Thread()
    of_first = job.tracker._thread(first)
    of_first.in_step = of_first.trains = True
    assert job.tracker._thread(first) is of_first
    assert not job.tracker._thread(second).trains


class Wrapped:
    """An optimizer around another one, as gradient compression and the like have it: no hooks, no base class."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner
        self.param_groups = inner.param_groups

    def step(self) -> None:
        self.inner.step()


@pytest.mark.parametrize("enabled", [True, False])
def test_grad_scaler_steps_what_has_no_hooks(job: Job, enabled: bool) -> None:
    model = Net(job)
    optimizer = Wrapped(sgd(model))
    scaler = torch.amp.GradScaler("cpu", enabled=enabled)
    for (x,) in loader(3):
        scaler.scale(model(x)).backward()
        scaler.step(optimizer)
        scaler.update()
    assert finished(job) == 3


def test_loader_workers_and_pinning_threads_are_ignored(job: Job) -> None:
    model = Net(job)
    optimizer = sgd(model)
    for (x,) in loader(4, num_workers=2):
        model(x).backward()
        optimizer.step()
    assert finished(job) == 4


def test_a_thread_that_only_prefetches_is_ignored(job: Job) -> None:
    batches: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: batches.extend(x for (x,) in loader(3)))
    thread.start()
    thread.join()
    assert len(batches) == 3
    assert job.story == []


def test_two_training_threads_each_have_their_steps(job: Job) -> None:
    def train() -> None:
        model = Net(job)
        optimizer = sgd(model)
        for (x,) in loader(4):
            model(x).backward()
            optimizer.step()
        job.tracker.finish()

    threads = [threading.Thread(target=train) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    assert job.steps == 8


class Nested(Dataset):
    """Reads its items through a loader of its own."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> torch.Tensor:
        return next(iter(loader(1)))[0][0]


def test_a_loader_inside_a_data_set_makes_no_boundaries_of_its_own(job: Job) -> None:
    for _ in DataLoader(Nested(), batch_size=1):
        pass
    assert job.boundaries == 4


def test_a_step_that_raised_does_not_end_all_boundaries(job: Job) -> None:
    model = Net(job)
    optimizer = torch.optim.LBFGS(model.parameters())

    def broken() -> float:
        raise MemoryError

    for i, (x,) in enumerate(loader(5)):
        if i == 1:
            with pytest.raises(MemoryError):
                optimizer.step(broken)
            continue
        optimizer.step(lambda x=x: model(x) ** 2)
    assert job.boundaries >= 5
    assert finished(job) == 4


def test_activation_checkpointing_makes_no_boundary_in_backward(job: Job) -> None:
    from torch.utils.checkpoint import checkpoint

    model = Net(job)
    optimizer = sgd(model)
    for _ in range(4):
        checkpoint(model, torch.ones(1, 4), use_reentrant=False).backward()
        optimizer.step()
    assert finished(job) == 4


def test_events_before_cuda_has_started_are_ignored(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job.tracker, "_started", lambda: False)
    next(iter(loader(2)))
    assert job.story == []


@pytest.mark.parametrize("is_inherited", [True, False])
def test_only_a_child_that_may_use_the_device_has_steps_of_its_own(job: Job, is_inherited: bool) -> None:
    model = Net(job)
    optimizer = sgd(model)

    def train(steps: int) -> None:
        for _ in range(steps):
            model(torch.ones(4)).backward()
            optimizer.step()
            optimizer.zero_grad()

    train(3)
    job.is_inherited = is_inherited
    job.fork()
    train(4)
    assert finished(job) == (0 if is_inherited else 4)
    assert ("begin" in job.story) == (not is_inherited)


def test_a_compiled_module_does_not_warn_of_our_hook(job: Job) -> None:
    model = torch.compile(nn.Linear(4, 1), backend="eager", fullgraph=True)
    optimizer = sgd(model)
    with warnings.catch_warnings():
        warnings.filters[:] = job.filters
        warnings.simplefilter("error", append=True)
        warnings.filterwarnings("ignore", "Guards may run slower on Python")  # PyTorch's own, of Python 3.13.0
        for _ in range(4):
            model(torch.ones(1, 4)).sum().backward()
            optimizer.step()
    assert finished(job) == 4


def test_a_function_compiled_while_a_forward_is_waited_for_is_one_graph(job: Job) -> None:
    model = nn.Linear(4, 1)
    optimizer = sgd(model)
    compiled = torch.compile(lambda x: model(x).sum(), backend="eager", fullgraph=True)
    for size in (1, 2, 3, 4):  # another size is compiled anew
        compiled(torch.ones(size, 4)).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert finished(job) == 4
    assert job.boundaries >= 4


def test_a_program_that_says_its_steps_itself_is_believed(job: Job) -> None:
    model = Net(job)
    optimizer = sgd(model)
    for (x,) in loader(3):
        model(x).backward()
        optimizer.step()
    before = finished(job)
    hooks.stand_down()
    said = len(job.story)
    for (x,) in loader(3):
        model(x).backward()
        optimizer.step()
    assert job.depth == 0
    assert job.steps == before
    assert [event for event in job.story[said:] if event != "forward"] == []


def test_a_thread_that_says_its_steps_is_believed_of_itself_only(job: Job) -> None:
    says = threading.Thread(target=hooks.stand_down)
    says.start()
    says.join()
    model = Net(job)
    optimizer = sgd(model)
    for (x,) in loader(3):
        model(x).backward()
        optimizer.step()
    assert finished(job) == 3


def test_the_forward_hook_is_gone_while_no_boundary_is_due(job: Job) -> None:
    from torch.nn.modules import module

    model = Net(job)
    optimizer = sgd(model)
    seen: list[Callable] = []
    for (x,) in loader(3):
        loss = model(x)
        seen.extend(module._global_forward_pre_hooks.values())
        loss.backward()
        optimizer.step()
    assert seen == []


def test_no_boundary_in_time_is_said_once_with_what_to_add(
    job: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("HOCKET_BOUNDARY_WARNING_SECONDS", "0.01")
    before = threading.enumerate()
    hooks.warn_without_boundaries(job.tracker, "resnet")
    for thread in threading.enumerate():
        if thread not in before:
            thread.join()
    said = capsys.readouterr().err
    assert "no step boundary of job resnet was found in 0.01 s" in said
    assert "for batch in hocket.steps(loader):" in said
