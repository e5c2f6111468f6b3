"""What torch.cuda says and does under Hocket's allocator. The device has 256 MiB."""

import io
import os
import threading

import pytest
import torch

MIB = 1 << 20


def block(mib: float) -> torch.Tensor:
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")


@pytest.mark.hockets_own
def test_it_is_hockets():
    assert torch.cuda.get_allocator_backend() == "hocket"


def test_statistics_follow_what_is_allocated_and_freed():
    before = torch.cuda.memory_stats()
    x = block(3)
    during = torch.cuda.memory_stats()
    assert during["allocated_bytes.all.current"] - before["allocated_bytes.all.current"] == 3 * MIB
    assert during["requested_bytes.all.current"] - before["requested_bytes.all.current"] == 3 * MIB
    assert during["allocation.all.current"] - before["allocation.all.current"] == 1
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    del x
    after = torch.cuda.memory_stats()
    assert after["allocated_bytes.all.current"] == before["allocated_bytes.all.current"]
    assert after["allocated_bytes.all.freed"] - before["allocated_bytes.all.freed"] == 3 * MIB
    assert "allocated memory" in torch.cuda.memory_summary().lower()


def test_the_peak_is_kept_until_it_is_reset():
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    x = block(8)
    del x
    assert torch.cuda.max_memory_allocated() == base + 8 * MIB
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == base
    torch.cuda.reset_accumulated_memory_stats()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == 0


def test_the_accelerator_interface_shows_the_same_allocator():
    x = block(3)
    assert torch.accelerator.memory_allocated() == torch.cuda.memory_allocated() >= x.nbytes
    torch.UntypedStorage(MIB, device="cuda")
    ours = torch.cuda.memory_stats()
    assert torch.accelerator.memory_stats()["reserved_bytes.all.peak"] == ours["reserved_bytes.all.peak"]


def test_an_empty_tensor_takes_nothing():
    before = torch.cuda.memory_stats()["allocation.all.current"]
    x = torch.empty(0, device="cuda")
    assert x.data_ptr() == 0
    assert torch.cuda.memory_stats()["allocation.all.current"] == before


def test_the_snapshot_shows_a_living_block():
    x = block(2.5)
    segments = torch.cuda.memory_snapshot()
    found = [s for s in segments if s["address"] <= x.data_ptr() < s["address"] + s["total_size"]]
    assert len(found) == 1
    living = [b for b in found[0]["blocks"] if b["state"] == "active_allocated" and b["address"] == x.data_ptr()]
    assert len(living) == 1
    assert living[0]["requested_size"] == int(2.5 * MIB)


def test_out_of_memory_is_pytorchs_error_with_our_numbers_and_training_goes_on():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *numbers: seen.append(numbers))
    with pytest.raises(torch.cuda.OutOfMemoryError) as error:
        block(1024)
    assert "Tried to allocate 1024.00 MiB" in str(error.value)
    assert "capacity of 256.00 MiB" in str(error.value)
    assert len(seen) == 1
    assert seen[0][1] == 1024 * MIB
    assert block(1).fill_(7).sum().item() == 7 * MIB


def test_a_fraction_of_the_device_is_a_limit():
    torch.cuda.set_per_process_memory_fraction(0.25)
    try:
        assert torch.cuda.get_per_process_memory_fraction() == pytest.approx(0.25)
        with pytest.raises(torch.cuda.OutOfMemoryError):
            block(100)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    block(100)


def test_a_fraction_out_of_range_is_refused():
    for fraction in (-0.5, 1.5):
        with pytest.raises(ValueError):
            torch.cuda.memory.set_per_process_memory_fraction(fraction)
            torch.cuda.caching_allocator_alloc(0)


def test_of_a_fraction_of_0_nothing_can_be_had():
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.0)
    try:
        assert torch.cuda.get_per_process_memory_fraction() == 0
        with pytest.raises(torch.cuda.OutOfMemoryError):
            block(100)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.hockets_own
def test_without_the_cache_memory_is_the_drivers():
    before = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()
    torch.cuda.caching_allocator_enable(False)
    try:
        direct = block(8).fill_(3)
        assert torch.cuda.memory_allocated() == before[0]
        assert direct.sum().item() == 3 * 8 * MIB
        with pytest.raises(torch.cuda.OutOfMemoryError, match="caching allocator was off"):
            block(1 << 20)
    finally:
        torch.cuda.caching_allocator_enable(True)
    cached = block(8)
    assert torch.cuda.memory_allocated() == before[0] + 8 * MIB
    del direct, cached  # each goes back where it came from
    assert torch.cuda.memory_allocated() == before[0]


def test_the_cache_can_be_emptied():
    before = torch.cuda.memory_reserved()
    block(64)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= max(before, 64 * MIB)
    block(200)  # nothing of it stands in the way


def test_raw_memory_can_be_had_and_given_back():
    before = torch.cuda.memory_allocated()
    address = torch.cuda.caching_allocator_alloc(4 * MIB)
    assert torch.cuda.memory_allocated() == before + 4 * MIB
    torch.cuda.caching_allocator_delete(address)
    assert torch.cuda.memory_allocated() == before


def test_a_block_recorded_on_another_stream_is_not_reused_too_early():
    side = torch.cuda.Stream()
    x = torch.arange(MIB, device="cuda", dtype=torch.int32)
    expected = x.sum().item()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        host = torch.empty(MIB, dtype=torch.int32, pin_memory=True)
        host.copy_(x, non_blocking=True)
    x.record_stream(side)
    del x
    over = torch.zeros(MIB, device="cuda", dtype=torch.int32)
    side.synchronize()
    assert host.sum().item() == expected
    assert over.sum().item() == 0


def test_a_pool_of_its_own_lives_while_it_is_used():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = block(3)
    assert x.fill_(1).sum().item() == 3 * MIB
    inside = [s for s in torch.cuda.memory_snapshot() if s["address"] <= x.data_ptr() < s["address"] + s["total_size"]]
    assert inside[0]["segment_pool_id"] == pool.id
    del x, pool


def test_a_pool_that_is_opened_again_in_mid_capture_is_the_captures():
    """As the capture of a conditional node does. A wait for the device would spoil the capture."""
    pool, graph = torch.cuda.graph_pool_handle(), torch.cuda.CUDAGraph()
    x = torch.ones(1000, device="cuda")
    with torch.cuda.graph(graph, pool=pool):
        torch._C._cuda_endAllocateToPool(0, pool)
        torch._C._cuda_beginAllocateCurrentThreadToPool(0, pool)
        y = x * 3
        torch.cuda.empty_cache()
    graph.replay()
    assert y.sum().item() == 3000
    torch._C._cuda_releasePool(0, pool)


@pytest.fixture
def graph_pool():
    """``allocate(MiB)`` in a pool of its own, as torch.compile's graph trees do, and the pool's id."""
    pool = torch.cuda.graph_pool_handle()
    begun = 0

    def allocate(mib):
        nonlocal begun
        torch._C._cuda_beginAllocateCurrentThreadToPool(0, pool)
        begun += 1
        try:
            return block(mib)
        finally:
            torch._C._cuda_endAllocateToPool(0, pool)

    yield pool, allocate
    for _ in range(begun):
        torch._C._cuda_releasePool(0, pool)


def storage(tensor):
    return tensor.untyped_storage()._cdata


def test_a_pool_goes_back_to_what_was_in_use_at_a_checkpoint(graph_pool):
    pool, allocate = graph_pool
    kept, dies = allocate(3), allocate(2)
    checkpoint = torch._C._cuda_getCheckpointState(0, pool)
    addresses = {kept.data_ptr(): 3 * MIB, dies.data_ptr(): 2 * MIB}
    del dies
    later = allocate(1)
    kept.fill_(7)
    assert torch._C._cuda_checkPoolLiveAllocations(0, pool, {kept.data_ptr(), later.data_ptr()})

    again = [torch._C._construct_storage_from_data_pointer(at, kept.device, size) for at, size in addresses.items()]
    stale, living = [storage(later), storage(kept)], [each._cdata for each in again]
    torch._C._cuda_setCheckpointPoolState(0, checkpoint, stale, living)
    del later, kept  # their blocks were freed: nothing happens
    assert torch._C._cuda_checkPoolLiveAllocations(0, pool, set(addresses))
    assert torch.empty(0, dtype=torch.uint8, device="cuda").set_(again[0]).sum().item() == 7 * 3 * MIB
    del again
    assert torch._C._cuda_checkPoolLiveAllocations(0, pool, set())


@pytest.mark.hockets_own
def test_a_checkpoint_of_a_pool_that_is_not_there_is_an_error():
    with pytest.raises(RuntimeError, match="no private pool"):
        torch._C._cuda_getCheckpointState(0, (0, 123456))


def test_convolutions_may_ask_for_the_largest_free_block():
    torch.backends.cudnn.benchmark = True
    try:
        with torch.no_grad():
            y = torch.nn.functional.conv2d(torch.ones(1, 1, 8, 8, device="cuda"), torch.ones(1, 1, 3, 3, device="cuda"))
        assert y.sum().item() == 9 * 36
    finally:
        torch.backends.cudnn.benchmark = False


def test_tensors_can_be_saved_and_loaded():
    file = io.BytesIO()
    torch.save(torch.arange(1000, device="cuda"), file)
    file.seek(0)
    assert torch.load(file, map_location="cuda").sum().item() == 499500


def test_threads_may_allocate_at_once():
    sums: list[float] = []

    def work() -> None:
        for i in range(50):
            sums.append(torch.full((1000,), float(i), device="cuda").sum().item())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(sums) == 4 * 1000 * sum(range(50))


def test_the_profiler_sees_memory():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        block(2)
    assert max(event.device_memory_usage for event in profile.events()) >= 2 * MIB


def test_a_forked_child_frees_nothing_of_its_parents():
    x = block(1).fill_(3)
    child = os.fork()
    if child == 0:
        del x
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert x.sum().item() == 3 * MIB


def test_a_forked_child_holds_nothing():
    from hocket import _native

    x = block(1).fill_(3)
    assert _native.holdings()
    child = os.fork()
    if child == 0:
        os._exit(len(_native.holdings()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert x.sum().item() == 3 * MIB


@pytest.mark.hockets_own
def test_a_free_of_what_is_nobodys_is_an_error():
    with pytest.raises(ValueError, match="no block of this process"):
        torch.cuda.caching_allocator_delete(0x1000)


def test_what_cannot_be_done_names_the_alternatives():
    with pytest.raises(NotImplementedError) as error:
        torch.multiprocessing.reductions.reduce_tensor(block(1))
    assert "tensor.cpu()" in str(error.value)
    assert "HOCKET_ALLOCATOR=off" in str(error.value)


def test_stopping_a_history_that_never_was_is_fine():
    torch.cuda.memory._record_memory_history(enabled=None)


@pytest.fixture
def history():
    torch.cuda.memory._record_memory_history(max_entries=1000)
    yield
    torch.cuda.memory._record_memory_history(enabled=None)


def entries(action: str) -> list[dict]:
    return [e for e in torch.cuda.memory._snapshot()["device_traces"][0] if e["action"] == action]


def test_the_history_names_who_allocated_and_opens_in_pytorchs_viewer(history):
    x = block(3)
    address = x.data_ptr()
    allocated = [e for e in entries("alloc") if e["addr"] == address]
    assert allocated[-1]["size"] == 3 * MIB
    assert any(frame["name"] == "block" for frame in allocated[-1]["frames"])
    snapshot = torch.cuda.memory._snapshot()
    blocks = [b for s in snapshot["segments"] for b in s["blocks"] if b.get("address") == address]
    assert any(frame["name"] == "block" for frame in blocks[0]["frames"])
    del x
    assert [e["size"] for e in entries("free_completed") if e["addr"] == address][-1] == 3 * MIB
    assert entries("free_requested")[-1]["time_us"] >= allocated[-1]["time_us"]
    from torch.cuda import _memory_viz

    snapshot = torch.cuda.memory._snapshot()
    assert "3.0MiB" in _memory_viz.trace(snapshot)
    assert "Active Memory Timeline" in _memory_viz.trace_plot(snapshot)
    assert "Allocator State History" in _memory_viz.segment_plot(snapshot)


@pytest.mark.skipif(not hasattr(torch.cuda.memory, "_allocation_traceback"), reason="this PyTorch has no such function")
def test_the_history_says_where_a_living_block_came_from(history):
    x = block(3)
    address = x.data_ptr()
    frames = torch.cuda.memory._allocation_traceback(address)
    assert any(frame["name"] == "block" for frame in frames)
    del x
    assert torch.cuda.memory._allocation_traceback(address) is None


def test_the_history_says_the_pool_of_a_block(history):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = block(1)
    outside = block(1)
    pools = {entry["addr"]: entry.get("pool_id", pool.id) for entry in entries("alloc")}
    assert pools[inside.data_ptr()] == pool.id
    if any("pool_id" in entry for entry in entries("alloc")):  # as PyTorch 2.12 and newer say it
        assert pools[outside.data_ptr()] == (0, 0)


@pytest.mark.skipif(not hasattr(torch.cuda.memory, "_set_memory_metadata"), reason="this PyTorch has no such function")
def test_the_history_carries_the_programs_note(history):
    torch.cuda.memory._set_memory_metadata("the first")
    x = block(3)
    torch.cuda.memory._set_memory_metadata("")
    y = block(3)
    notes = {entry["addr"]: entry["user_metadata"] for entry in entries("alloc")}
    assert notes[x.data_ptr()] == "the first"
    assert notes[y.data_ptr()] == ""


@pytest.mark.hockets_own
def test_the_history_shows_memory_that_comes_and_goes(history):
    torch.cuda.empty_cache()
    x = block(40)
    came = [e for e in entries("segment_map") if e["addr"] <= x.data_ptr() < e["addr"] + e["size"]]
    assert any(frame["name"] == "block" for frame in came[-1]["frames"])
    before = sum(e["size"] for e in entries("segment_unmap"))
    del x
    torch.cuda.empty_cache()
    gone = entries("segment_unmap")
    assert sum(e["size"] for e in gone) - before >= 40 * MIB
    assert any(frame["name"] == "empty_cache" for frame in gone[-1]["frames"])


def test_the_history_keeps_the_newest_entries_and_a_failed_allocation(history):
    torch.cuda.memory._record_memory_history(max_entries=10)
    for _ in range(20):
        block(1)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        block(1024)
    assert entries("oom")[-1]["size"] == 1024 * MIB
    assert len(torch.cuda.memory._snapshot()["device_traces"][0]) == 10


def test_a_history_of_state_only_keeps_no_stacks_of_what_is_freed():
    torch.cuda.memory._record_memory_history(enabled="state")
    try:
        x = block(1)
        blocks = [b for s in torch.cuda.memory._snapshot()["segments"] for b in s["blocks"]]
        assert any("frames" in b and b["address"] == x.data_ptr() for b in blocks)
        assert all(not e["frames"] for e in entries("alloc"))
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


def test_pytorchs_trace_is_told_of_each_block():
    """What torch.cuda._sanitizer listens to."""
    from torch.cuda import _gpu_trace

    told = []
    torch._C._activate_gpu_trace()
    _gpu_trace.register_callback_for_memory_allocation(lambda address: told.append(("new", address)))
    _gpu_trace.register_callback_for_memory_deallocation(lambda address: told.append(("gone", address)))
    x = block(1)
    address = x.data_ptr()
    del x
    assert told == [("new", address), ("gone", address)]


def test_memory_info_heeds_the_fraction():
    torch.cuda.set_per_process_memory_fraction(0.5)
    try:
        free, total = torch.cuda.mem_get_info()
        assert total == 128 * MIB
        assert 0 < free <= total
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.hockets_own
def test_memory_info_is_the_jobs_room_and_not_the_devices():
    torch.cuda.set_per_process_memory_fraction(0.5)
    try:
        before, total = torch.cuda.mem_get_info()
        assert total == 128 * MIB
        x = block(4)
        assert before - torch.cuda.mem_get_info()[0] == 4 * MIB
        del x
        assert torch.cuda.mem_get_info("cuda:0") == torch.cuda.memory.mem_get_info(0) == (before, total)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
