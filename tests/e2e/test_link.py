"""The host link beside a holder: what moves for others while it computes is counted, said, and changes no result."""

from __future__ import annotations

from collections.abc import Callable

from world import LARGE_BYTES, Program, World

SHAPE = ("--layers", 18, "--width", 744)
OFTEN = {"HOCKET_POLICY": "round-robin", "HOCKET_SWITCH_SHARE": "1"}  # bytes move for every step or two


def test_bytes_that_move_for_others_beside_a_holder_are_counted_and_said(
    world: World, alone: Callable[..., list[str]]
) -> None:
    """Of three jobs two fit: while one has the turn, the next one's bytes come and those of the last go for them."""
    world.memory = f"{(2 * LARGE_BYTES >> 20) + 64}MiB"

    def start(name: str, *how: object) -> Program:
        return world.job("train", "--name", name, *SHAPE, *how, **OFTEN)

    endless = [start("first", "--steps", 10_000), start("second", "--steps", 10_000)]
    for job in endless:
        job.expect("step 1")  # and has all of its bytes: what grows in a step has none to come back
    holder = start("holder", "--more", "--steps", 6, "--losses", world.losses("holder"))
    holder.expect("more")
    world.until_link(lambda link: link["beside_bytes"] > 0, "bytes of others moving beside the holder")
    holder.go_on()
    holder.finishes()
    assert world.losses("holder").read_text().split() == alone("train", *SHAPE, "--steps", 6)
    assert holder.counted("restored_total") > 0
    for job in endless:
        job.kill()
