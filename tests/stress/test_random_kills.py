"""A hundred kills of jobs and of the daemon leave nothing hung, lost or wrong."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("seed", [1, 2])
def test_fifty_random_kills_leave_nothing_hung_lost_or_wrong(tmp_path, seed):
    hocket = pathlib.Path(sys.executable).with_name("hocket")
    command = [hocket, "emulate", "--name", f"kills-{os.getpid()}-{seed}", "--memory", "64MiB", "--"]
    command += [sys.executable, "-m", "tests.stress.random_kills", "--kills", "50", "--seed", str(seed)]
    environment = {**os.environ, "HOCKET_RUNTIME_DIR": str(tmp_path)}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-6000:]
    report = json.loads(run.stdout.splitlines()[-1])
    assert report["killed_jobs"] + report["killed_daemons"] == 50
    assert report["killed_daemons"] > 0
