"""Jobs that exceed device and host memory together: who trains goes on, the other waits or is told why it cannot."""

from __future__ import annotations

from collections.abc import Callable

from world import LARGE, LARGE_BYTES, SMALL, Program, World

LITTLE_HOST = {"HOCKET_HOST_BUDGET": str(24 << 20)}


def one_trains(world: World, *arguments: object) -> Program:
    """114 MiB of it stay, on a device of 180 MiB; its host memory takes 24 MiB."""
    world.memory = "180MiB"
    first = world.job("train", "--name", "first", "--losses", world.losses("first"), *arguments, **LITTLE_HOST)
    first.expect("step 2")
    return first


def second_one(world: World) -> Program:
    """Another one like that."""
    return world.job("train", "--name", "second", "--losses", world.losses("second"), *LARGE, **LITTLE_HOST)


def test_who_trains_goes_on_beside_one_that_does_not_fit(world: World, alone: Callable[..., list[str]]) -> None:
    first = one_trains(world, "--hold", "2", *LARGE)
    second = second_one(world)
    world.until("second", "waits")
    first.go_on()
    first.finishes()
    second.wait()  # it has waited, or has been told no
    assert second.process.returncode == 0 or "cannot make room for" in second.stderr, second.story()
    assert world.losses("first").read_text().split() == alone("train", *LARGE)


def test_what_can_never_fit_is_told_so(world: World, alone: Callable[..., list[str]]) -> None:
    world.memory = "100MiB"
    first = world.job("train", "--name", "first", "--hold", "2", "--losses", world.losses("first"), *SMALL)
    first.expect("step 2")
    second = world.job("train", "--name", "second", *LARGE)
    first.go_on()
    assert second.wait() == 1, second.story()
    assert "OutOfMemoryError" in second.stderr, second.story()
    first.finishes()
    assert world.losses("first").read_text().split() == alone("train", *SMALL)


# --- what earlier runs of the same program needed ---------------------------------------------------


def again(world: World, *what: object) -> Program:
    """A run of one program: the same command line each time. Held in step 5, so that it is known what it needs."""
    return world.job("train", "--name", "again", "--losses", world.losses("again"), "--hold", "5", *what, **LITTLE_HOST)


def goes_on_once_known(world: World, job: Program, persistent: int) -> None:
    """From its step 5 to its end, when the coordinator knows that it holds so much."""
    job.expect("step 5")
    held, patience = 0, world.patience()
    while held < persistent:
        patience.look(f"{persistent} bytes of job again: {held}")
        held = next(job["persistent"] + job["spilled"] for job in world.status()["jobs"] if job["name"] == "again")
    job.go_on()
    job.finishes()


def learned(world: World, runs: int) -> dict[str, int]:
    """What so many runs have needed, once the coordinator has written it down."""
    file, patience = world.folder / "run" / "needs", world.patience()
    while True:
        patience.look(f"{runs} runs in {file}")
        lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        for program, *numbers in lines:
            if int(numbers[-1]) == runs:
                return {"program": int(program, 16), "persistent": int(numbers[0]), "transient": int(numbers[1])}


def another_need_is_known(world: World, persistent: int) -> None:
    """As if its one run had needed that: the next coordinator believes it."""
    program = learned(world, runs=1)["program"]
    assert world.hocket("stop").returncode == 0
    (world.folder / "run" / "needs").write_text(f"{program:016x} {persistent} {1 << 20} {24 << 20} 1\n")


def test_a_run_waits_for_what_an_earlier_one_has_needed(world: World, alone: Callable[..., list[str]]) -> None:
    world.memory = "180MiB"
    goes_on_once_known(world, again(world, *LARGE), LARGE_BYTES)
    assert learned(world, runs=1)["persistent"] >= LARGE_BYTES
    first = one_trains(world, "--hold", "2", *LARGE)
    second = again(world, *LARGE)
    world.until_why("again", "by 1 earlier run(s)")
    said = " ".join(world.hocket("explain", "again").stdout.split())
    assert "it needs " in said and "that stay and" in said and "are free; first holds" in said, said
    first.go_on()
    first.finishes()
    goes_on_once_known(world, second, LARGE_BYTES)
    for name in ("first", "again"):
        assert world.losses(name).read_text().split() == alone("train", *LARGE)


def test_a_run_that_needs_more_than_the_earlier_ones_costs_others_no_step(
    world: World, alone: Callable[..., list[str]]
) -> None:
    world.memory = "180MiB"
    goes_on_once_known(world, again(world, *LARGE), LARGE_BYTES)
    another_need_is_known(world, 8 << 20)
    first = one_trains(world, "--hold", "2", *LARGE)
    second = again(world, *LARGE)
    second.go_on()  # once it is in its step 5
    world.until("again", "waits")
    assert "earlier run(s)" not in world.hocket("explain", "again").stdout, "so little would fit"
    first.go_on()
    first.finishes()
    assert second.wait() == 0 or "cannot make room for" in second.stderr, second.story()
    goes_on_once_known(world, again(world, *LARGE), LARGE_BYTES)  # alone it has room
    assert learned(world, runs=2 if second.process.returncode else 3)["persistent"] >= LARGE_BYTES
    for name in ("first", "again"):
        assert world.losses(name).read_text().split() == alone("train", *LARGE)


def test_a_run_that_needs_less_than_the_earlier_ones_waits_once_for_too_much(
    world: World, alone: Callable[..., list[str]]
) -> None:
    world.memory = "180MiB"
    goes_on_once_known(world, again(world, *SMALL), 1)
    another_need_is_known(world, 160 << 20)
    first = one_trains(world, "--hold", "2", *LARGE)
    second = again(world, *SMALL)
    world.until_why("again", "160.0 MiB that stay")
    first.go_on()
    first.finishes()
    goes_on_once_known(world, second, 1)
    assert learned(world, runs=2)["persistent"] < 100 << 20, "half of the way"
    assert world.losses("first").read_text().split() == alone("train", *LARGE)
    assert world.losses("again").read_text().split() == alone("train", *SMALL)


def test_a_run_that_ends_at_once_is_remembered_with_all_that_it_needed(world: World) -> None:
    world.memory = "180MiB"
    brief = world.job("train", "--name", "brief", "--steps", 3, "--layers", 6, "--width", 744)
    brief.finishes()  # the model was gone before the job's last word, and nobody had asked in between
    known = learned(world, runs=1)
    assert known["persistent"] + known["transient"] >= LARGE_BYTES // 3, known
    assert known["persistent"] >= LARGE_BYTES // 9, "the weights themselves"
