"""Programs drawn at random compute the same with all their memory moved at every step: a short run of the script."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_random_programs_compute_the_same_when_everything_is_moved_at_every_step():
    command = [sys.executable, "-m", "tests.stress.random_programs", "--seeds", "0:10"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-6000:]
    assert run.stdout.splitlines()[-1] == "10 programs, 0 wrong"
