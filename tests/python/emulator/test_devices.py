"""Devices, streams, copies and other processes, as torch programs see them."""

from __future__ import annotations


def test_two_devices_hold_their_own_tensors_and_copy_between_them(emulator):
    assert (
        emulator.output(
            """
a = torch.arange(6., device='cuda:0'); b = a.to('cuda:1', non_blocking=True) * 2
c = torch.empty(6, device='cuda:0').copy_(b)
with torch.cuda.device(1): d = torch.ones(6, device='cuda')
used = [torch.cuda.memory_allocated(i) > 0 for i in range(2)]
model = nn.Linear(6, 2).to('cuda:1'); model(d).sum().backward()
print(torch.cuda.device_count(), str(b.device), c.tolist(), str(d.device), used, str(model.weight.grad.device))
""",
            HOCKET_EMULATOR_DEVICES="2",
        )
        == "2 cuda:1 [0.0, 2.0, 4.0, 6.0, 8.0, 10.0] cuda:1 [True, True] cuda:1"
    )


def test_a_copy_between_devices_is_ordered_with_what_both_do_before_and_after(emulator):
    assert (
        emulator.output(
            """
a = torch.full((6,), 3., device='cuda:0'); b = a.to('cuda:1'); a.fill_(4.); c = b * 2
side = torch.cuda.Stream(device='cuda:1'); side.wait_stream(torch.cuda.default_stream(1))
with torch.cuda.stream(side): d = (b + 1).to('cuda:0'); b.fill_(9.)
print(c.tolist()[0], d.tolist()[0], torch.cuda.current_device())
""",
            HOCKET_EMULATOR_DEVICES="2",
        )
        == "6.0 4.0 0"
    )


def test_arguments_on_several_devices_are_the_error_that_they_are_on_a_gpu(emulator):
    assert (
        emulator.output(
            """
a, b, host = torch.ones(3, device='cuda:0'), torch.ones(3, device='cuda:1'), torch.ones(3)
cell = nn.LSTM(3, 2)
def said(call):
    try: call(); return 'computed'
    except RuntimeError as error: return 'two devices' in str(error)
print([said(f) for f in (lambda: a + b, lambda: a * host, lambda: host + a, lambda: F.linear(a, host[None]),
                         lambda: torch.add(a, a, out=host), lambda: cell(a[None]))])
index, step = torch.tensor([2, 0]), torch.tensor(2.0)
print(a[index].tolist(), (a * step).tolist(), torch._foreach_add([a, a], 1.0)[1].tolist())
""",
            HOCKET_EMULATOR_DEVICES="2",
        )
        == "[True, True, True, True, True, True]\n[1.0, 1.0] [2.0, 2.0, 2.0] [2.0, 2.0, 2.0]"
    )


def test_memory_of_one_device_is_not_the_others(emulator):
    assert (
        emulator.output(
            """
before = [torch.cuda.mem_get_info(i)[0] for i in range(2)]
x = torch.empty(64 << 20, dtype=torch.uint8, device='cuda:1')
after = [torch.cuda.mem_get_info(i)[0] for i in range(2)]
print(before[0] == after[0], before[1] - after[1] >= 64 << 20)
""",
            HOCKET_EMULATOR_DEVICES="2",
        )
        == "True True"
    )


def test_a_stream_is_busy_to_other_threads_while_its_operator_runs(emulator):
    """A kernel that a thread computes in the stream's place is seen by whoever asks meanwhile."""
    assert (
        emulator.output("""
import threading, time
stream, inside, asked = torch.cuda.Stream(), threading.Event(), threading.Event()
a = torch.randn(1500, 1500, device='cuda'); torch.cuda.synchronize()
seen, patience = set(), time.monotonic() + 120
def work():
    with torch.cuda.stream(stream):
        inside.set()
        while not asked.is_set(): a @ a
def ask():
    inside.wait()
    while False not in seen and time.monotonic() < patience: seen.add(stream.query())
    asked.set()
threads = [threading.Thread(target=f) for f in (work, ask)]
[t.start() for t in threads]; [t.join() for t in threads]
stream.synchronize(); print(False in seen, stream.query())
""")
        == "True True"
    )


def test_a_pinned_copy_comes_late_and_a_pageable_one_does_not(emulator):
    assert (
        emulator.output(
            """
import time
pinned, x = torch.ones(4).pin_memory(), torch.zeros(4, device='cuda')
in_time = False
while not in_time:
    pinned.fill_(1.0); begun = time.monotonic()
    torch.cuda._sleep(1980 * 2_000_000)
    x.copy_(pinned, non_blocking=True)
    pinned.fill_(7.0)  # the mistake: the copy has not begun
    in_time = time.monotonic() - begun < 2  # or this process was kept from it for so long that the copy has
    first = x.tolist()
y = torch.ones(4); x.copy_(y, non_blocking=True); y.fill_(9.0)
print(first, x.tolist())
""",
        )
        == "[7.0, 7.0, 7.0, 7.0] [1.0, 1.0, 1.0, 1.0]"
    )


def test_a_tensor_is_shared_with_another_process(emulator, tmp_path):
    import subprocess
    import sys

    program = tmp_path / "share.py"
    program.write_text(
        emulator.prelude
        + """
import torch.multiprocessing as mp
def child(queue, done):
    tensor = queue.get(); tensor.mul_(3); torch.cuda.synchronize(); del tensor; done.set(); queue.get()
if __name__ == '__main__':
    context = mp.get_context('spawn'); queue, done = context.Queue(), context.Event()
    process = context.Process(target=child, args=(queue, done)); process.start()
    x = torch.ones(4, device='cuda'); queue.put(x); done.wait(); print(x.tolist()); queue.put(None); process.join()
"""
    )
    done = subprocess.run(
        [sys.executable, str(program)], env=emulator.environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "[3.0, 3.0, 3.0, 3.0]"


def test_a_profile_with_cuda_has_the_cpus_events_and_says_once_that_there_are_no_others(emulator):
    done = emulator.run("""
from torch.profiler import profile, ProfilerActivity
from torch.autograd import DeviceType
x = torch.ones(4, device='cuda')
for _ in range(2):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        (x * 2).sum().item()
names = {e.name for e in p.events()}
print('aten::mul' in names, any(e.device_type == DeviceType.CUDA for e in p.events()))
""")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().splitlines()[-1] == "True False"
    assert done.stderr.count("records no events of the device") == 1
