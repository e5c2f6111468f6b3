"""Why a goal is not met, or not surely: found by profiling or by arithmetic, with what was tried.

By the name of the figure, for any device; and by name and device where a device has its own cause, or what was found
says nothing about others. The page of results lists them for the figures that miss their goals or have them inside
their intervals, and says so of one that is missing here; what is here of a figure that meets its goal is not shown.
"""

from __future__ import annotations

from tests.bench.harness import EMULATED

H200 = "NVIDIA H200"
UNKNOWN = "no cause known yet."


def of(name: str, device: str) -> str:
    """The cause of a figure of this device, or ``UNKNOWN``."""
    return CAUSES.get((name, device)) or CAUSES.get(name) or UNKNOWN


_SMALL = (
    "chunks are 8 MiB on a device of 80 GiB, where restores need them so large (decision 0042), and a job of 45 MiB "
    "holds eight of them in its first steps and seven later, when PyTorch's allocator reserves as much as seven. With "
    "chunks of 4 MiB it was 1.07 and 0.93 of that. Jobs of hundreds of MiB do not notice."
)
_FEW = (
    "20 MiB more than their 84, ten chunks of 2 MiB (the least that drivers give) for four jobs: the last chunk of "
    "what lives on is a job's own (6 MiB of them are unused by arithmetic), and the arena is that of whoever needs "
    "most, chunk by chunk. Plain torch reserves 200 MiB for the four. Jobs of hundreds of MiB do not notice."
)
_REDIRECTED = (
    "each call asks whether the job has the turn and counts what it is given (7 to 22 % of a call, by perf), which "
    "PyTorch's allocator does not do for itself. It was 1.26 and 1.40 on a Xeon while a status was made for each call, "
    "and is 1.15 and 1.09 without on an AMD EPYC. Hocket's own allocator, the default, has the turn in its own word."
)
_EXCHANGE = (
    "some of the turns came when their jobs did not expect them: then the host's copies are taken away from their "
    "addresses beside the copying, which is the dearest call of a restore (decision 0045)."
)
_NOT_FORESEEN = (
    "the turn comes when it is not expected, and no coordinator says that it is near (one does since then: `exchange`, "
    "whose waits are of any length). Beside each copy of 8 MiB, 151 us, go 175 us of calls with the costs of "
    "an H200, 111 of them for taking the host's copy away from its address. Where a job can foresee its turn that is "
    "done before (the row of the same size says what then), and with chunks of 16 MiB the copies hide it (decision "
    "0045)."
)
_UNMAPPED = (
    "by the times of the driver's calls there: for a chunk of 8 MiB, whose copy takes 152 us, 104 to 134 us to take "
    "the host's copy away from its address, 38 to set access, 13 to 15 to create memory, 2 to map it (decision 0042). "
    "Since then chunks are of 16 MiB on such a device, and a job that expects its turn takes the copy away before "
    "(decision 0045): not measured there yet."
)

CAUSES: dict[str | tuple[str, str], str] = {
    "allocation_steady_reserved": _SMALL,
    "allocation_steady_reserved_first": _SMALL,
    ("makespan_three", EMULATED): (
        "in the first blocks the first hand-overs, for which host memory is taken and pinned, make turns long (0.57 "
        "and 0.65, then 0.53 and 0.54; decision 0047)."
    ),
    "allocation_changing_reserved": (
        "outputs and losses that are kept until they are overwritten are of another length each time, so the chunks "
        "of 8 MiB in which they lie are seldom full. With chunks of 4 MiB it is 1.000; restores need them larger "
        "(decision 0042)."
    ),
    "allocation_steady_redirected": _REDIRECTED,
    "allocation_changing_redirected": _REDIRECTED,
    "inference_sliced_p99": "this is the driver's time-slicing, which Hocket is compared with.",
    "production_sliced_slowed": "this is the driver's time-slicing, which Hocket is compared with.",
    "timing_step_cpu_unpaced": (
        "the pauses cost it, not the emulated GPU: its baseline has none. With a step every 20 ms in the baseline, "
        "too, the figure is the row above, and met."
    ),
    "coordinator_cpu": (
        "by perf, two fifths are the kernel's (waking up, two messages in and two out); the rest lies in many small "
        "functions that look anew at who is next after each of the two messages, with caches that the jobs have used "
        "since. The figure is as large before and after turns were passed on by holders, in one run on one machine; it "
        "was 5.97, 8.2 and 7.6 on three machines. Tried: no question to idle shortly before the one to stop, no timer "
        "where a step outlasts it, estimates without a sort; it woke three times before. Since then 16 % fewer "
        "instructions (by callgrind, 62.4 to 52.2 thousand for core and encoding) and 7.69 to 6.89 system calls (by "
        "perf): 6.0 on an AMD EPYC, where a program that only waits, reads twice and writes twice in the same rhythm "
        "took 3.6 to 4.3. Since then a fifth fewer again (a scene of two jobs, 54.9 to 42.6 thousand): 4.2 on another "
        "AMD EPYC, where the version before took 4.3 to 4.6. It depends on the host's hour: 3.7 and 4.6 on one, "
        "and half an hour later 6.1 [5.0 .. 6.6]; this version and the one before in turns took 3.2 to 4.6 and 3.3 to "
        "5.3, and in that hour 3.5 to 6.5 and 3.7 to 8.4."
    ),
    "hand_over_p50": (
        "where the holder passes its turn on (decision 0044) what is left is its message to the coordinator and the "
        "wake-up of the next job, which takes the lane's lock and looks whether the coordinator lives. These are "
        "instructions, and the relay is the kernel's: on an AMD EPYC it was 1.02, and 1.14 beside 1000 jobs, and on a "
        "Xeon of 2.5 GHz with the same code 1.38 and 1.48."
    ),
    "boundary_atomics": (
        "by perf, six tenths are the reading of the clock where a step begins and where it ends, which policies and "
        "`hocket top` live on; the goal in nanoseconds is met."
    ),
    ("device_idle", EMULATED): (
        "by a trace of both jobs: 45 us until the thread that waits for the device has woken, and until a queued "
        "kernel begins, 13 until the memory is passed, 13 to take the turn, 14 until the program has queued its "
        "kernel; the rest is the message to the coordinator and the next job's wake-up, whose code has left the caches "
        "in the 2 ms of a kernel. Tried: the holder passes its turn on itself, which saves 30 us (decision 0044). "
        "The next job is not told before the drain: a job that is killed then could take it along (decision 0046)."
    ),
    ("device_idle", H200): (
        "not traced there. What the device takes itself to change from one process to another is not known: the two "
        "processes without Hocket beside the figure (`device_idle` has them since) have not run there. It was measured "
        "before a holder passed its turn on itself, which saves 30 us of 211 on the emulated GPU (decision 0044). Of "
        "that machine is known: who is woken up when the device is done comes 45 us after who asks again and again "
        "(decision 0042). A hand-over without a drain was considered, and is not wanted (decision 0046)."
    ),
    ("spill_rate_0.25_gib", H200): "the pause after each 16 MiB: the next are queued when those have arrived, since a "
    "copy that is queued makes who restores meanwhile wait for a millisecond at each chunk (decision 0042).",
    "iterator": (
        "on an AMD EPYC it is 584 ns with the same code, on a Xeon of 2.5 GHz more than 1000. By timing each part of "
        "1.2 us (beside other work): 0.4 are the two calls into C++, each of which gives Python's interpreter lock "
        "back and takes it again, 0.35 the question whether other Python threads run, the rest is the generator. "
        "Tried: that question without threading.enumerate(), whose lock was two thirds of it."
    ),
    ("inference_training", EMULATED): (
        "a request costs the training 1.9 ms beside its device time of 4.8: for 0.9 of them the device waits for the "
        "server's host (alone a request takes 5.7 ms), the rest is two hand-overs, 0.2 in which the server may have "
        "another request, and the training's first kernels afterwards. 50 requests a second make 9 % of that. Without "
        "requests the training has 0.99 of its speed. Tried: to wait for another request for 0.05 ms only, which makes "
        "no difference beyond the spread; that the program may queue more before it is held up (decision 0024)."
    ),
    ("link_limited", EMULATED): (
        "not settled: 1.0237 [1.022 .. 1.028] with parts of 8 MiB, 1.0158 [1.0124 .. 1.0228] with 32 MiB, 1.0221 "
        "[1.0157 .. 1.0235] since an order of up to 32 MiB is one part (decision 0017), within two hours on a host "
        "whose speed varied by a quarter."
    ),
    "link_free": "this is what happens without the limit; the row below is with it.",
}
CAUSES["exchange_0.25", EMULATED] = (
    "of 5.9 ms 1.35 pass before the first byte comes back, as much at each size; by a trace: 0.2 to give the turn, 0.2 "
    "until the next job has it, 0.25 in which that looks for room twice in vain, 0.05 for its question, 0.5 until the "
    "other's first 8 MiB are on the host, 0.15 until that is known. Tried: the room is asked for when the turn is "
    "given also where other programs hold memory, which changes nothing beyond the spread (0.848 and 0.847)."
)
CAUSES["production_slowed", EMULATED] = CAUSES["production_harvest", EMULATED] = (
    "on a Xeon the bound holds in each pair's median (0.018, 0.018, 0.017), and the interval of five repetitions "
    "reaches beyond. "
    "By timing each part of a cycle of 44 ms: production waits for 1.0 to 1.05 ms at its begin, of which up to 0.2 are "
    "messages and 0.09 the giving of its turn; its account pays for both. The others get 1.00 and 0.97 of the oracle's "
    "harvest, and 0.90 where the pauses are shortest (15 ms): what hand-overs cost is more of those. Tried: the "
    "hand-overs' own time in the account, before which it waited 1.15 to 1.25 ms. On an AMD EPYC whose speed "
    "varies 0.90, 0.77 and, half an hour after that, 0.75 [0.71 .. 0.85], production slowed by 0.021 [0.014 .. "
    "0.028]: where four steps of the other just fit into a pause for the oracle, three do beside the hand-overs."
)
CAUSES["survivors_changing_private"] = (
    "three lengths in turn leave outputs of three sizes, and each finds the holes of the others: by 600 steps of it, "
    "private memory settles at 1.12 within the first hundred, and does not grow from there."
)
_TWO_SPEEDS = (
    "on this Xeon a step of small allocations takes 2.1 or 4.6 ms, in streaks of tens of steps, and the pass right "
    "after it, in which each call is timed, is at the quicker of the two (165 ns a call in either); which of the "
    "contenders is in which, chance decides. On an AMD EPYC there are no two, and it is 0.43. By perf nothing stands "
    "out. Not found: what differs between the streaks."
)
CAUSES |= {f"allocation_steady_{key}": _TWO_SPEEDS for key in ("ns", "p50")}
CAUSES["allocation_steady_p99"] = (
    "the slowest calls of the U-Net whose outputs live until the next step: 0.79 [0.77 .. 0.82] on an AMD EPYC, 0.82 "
    "on a Xeon, where that of small jobs is larger still, as it has two speeds there. Not profiled."
)
CAUSES["allocation_threads_2"] = (
    "two threads that do nothing else, on two processors, for one lock: 0.94 [0.89 .. 1.005] on an AMD EPYC, 0.81 on a "
    "Xeon. Not profiled."
)
CAUSES["allocation_threads_8"] = (
    "eight threads on two processors of a host whose speed varies; on an AMD EPYC it is 0.91 [0.86 .. 0.99]. Not "
    "profiled."
)
CAUSES["step_cpu_timing"] = CAUSES["timing_step_cpu"] = (
    "no difference that this host shows: the same block takes 0.75 to 1.3 of another's processor time, as the host's "
    "speed varies. On an AMD EPYC 0.938 [0.916 .. 0.961] and 0.986 [0.915 .. 1.046]."
)
CAUSES["memory_of_four_small"] = CAUSES["memory_of_four_small_whole"] = _FEW
CAUSES |= {(f"exchange_{gib}", EMULATED): _EXCHANGE for gib in (1, 4, 16)}
CAUSES |= {(f"restore_rate_{gib}_gib", EMULATED): _NOT_FORESEEN for gib in ("0.25", "1", "4", "16")}
CAUSES |= {(f"restore_rate_{gib}_gib", H200): _UNMAPPED for gib in ("0.25", "1", "4", "16")}
CAUSES["inference_sliced_p99_drawn"] = CAUSES["inference_sliced_p99"]
CAUSES["crowd_p50"] = CAUSES["hand_over_p50"]
