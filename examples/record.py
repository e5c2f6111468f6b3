"""What the examples write down: losses to the last bit (``--losses FILE``) and times and memory (``--report FILE``)."""

from __future__ import annotations

import argparse
import json
import time

import torch


def add_options(parser: argparse.ArgumentParser, steps: int) -> None:
    parser.add_argument("--steps", type=int, default=steps, help=f"training steps (default {steps})")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--losses", metavar="FILE", help="write each step's loss there, as a hexadecimal float")
    parser.add_argument("--report", metavar="FILE", help="write step times and peak memory there, as JSON")


class Record:
    """One training's losses and step times."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self._name = name
        self._options = options
        self._losses: list[float] = []
        self._times: list[float] = [time.perf_counter()]

    def step(self, loss: torch.Tensor) -> None:
        """A step has ended with this loss."""
        self._losses.append(loss.item())
        self._times.append(time.perf_counter())
        done = len(self._losses)
        if done % max(1, self._options.steps // 5) == 0:
            print(f"{self._name}: step {done}/{self._options.steps}, loss {self._losses[-1]:.4f}", flush=True)

    def save(self) -> None:
        """Writes what the options ask for."""
        losses = self._losses
        if self._options.losses:
            with open(self._options.losses, "w", encoding="ascii") as file:
                file.writelines(f"{loss.hex()}\n" for loss in losses)
        if self._options.report:
            cuda = self._options.device.startswith("cuda")
            report = {
                "name": self._name,
                "steps": len(losses),
                "step_seconds": [after - before for before, after in zip(self._times, self._times[1:], strict=False)],
                "first_loss": losses[0],
                "last_loss": losses[-1],
                "peak_bytes": torch.cuda.max_memory_allocated() if cuda else 0,
            }
            with open(self._options.report, "w", encoding="utf-8") as file:
                json.dump(report, file)
