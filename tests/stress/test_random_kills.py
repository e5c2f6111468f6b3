"""Random kills of jobs and of the daemon leave nothing hung, lost or wrong: a short run of random_kills.py."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KILLS, SEED = 16, 1


def test_random_kills_leave_nothing_hung_lost_or_wrong():
    hocket = pathlib.Path(sys.executable).with_name("hocket")
    command = [hocket, "emulate", "--name", f"kills-{os.getpid()}", "--memory", "20MiB", "--check", "--"]
    command += [sys.executable, "-m", "tests.stress.random_kills", "--kills", str(KILLS), "--seed", str(SEED)]
    with tempfile.TemporaryDirectory(prefix="hk-") as folder:  # pytest's own path is long for a socket's
        environment = {**os.environ, "HOCKET_RUNTIME_DIR": folder}
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        subprocess.run([hocket, "stop", "--force"], env=environment, capture_output=True)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-6000:]
    report = json.loads(run.stdout.splitlines()[-1])
    assert report["killed_jobs"] + report["killed_daemons"] == KILLS
    assert report["killed_daemons"] > 0
    assert report["kills_while_spilled"] > 0
