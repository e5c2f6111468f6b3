"""Others' training programs, unchanged, under ``hocket run``: two copies share a device too small for both.

    python -m tests.public [--nanogpt FOLDER] [--examples FOLDER] [--only WORD] [--json FILE]

Each program of ``scripts.py`` trains once with plain torch, alone, and then twice at once under ``hocket run``, all
three on the emulated GPU in check mode. Only its own options are used. The folders are checkouts (``scripts.py`` says
of what); programs of packages are run where these are installed (``pip install torchvision transformers lightning``).
Exit status 0 only if of each program all losses that it printed and all that it saved are those of the plain run, each
copy had several turns, and bytes were spilled.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import torch

from tests.bench import harness
from tests.public import scripts

HOCKET = [str(pathlib.Path(sys.executable).parent / "hocket")]
CODE = ["allocator", "csrc", *harness.COORDINATOR, "python/hocket", "tests/public"]
OWN = {"out_dir", "default_root_dir", "dirpath", "best_model_path", "last_model_path"}  # name this run's folder


def start(
    script: scripts.Script, checkout: pathlib.Path | None, out: pathlib.Path, device: str, memory: str, run: list[str]
) -> subprocess.Popen[str]:
    (out / "run").mkdir(parents=True)
    if script.prepare:
        script.prepare(out)
    emulate = [*HOCKET, "emulate", "--memory", memory, "--name", device, "--check", "--"]
    environment = {
        **os.environ,
        "HOCKET_RUNTIME_DIR": str(out.parent),
        "OMP_NUM_THREADS": "1",  # losses do not depend on how many threads the CPU has
        "HF_HUB_OFFLINE": "1",
    }
    return subprocess.Popen(
        [*emulate, *run, *scripts.command(script, checkout, out)],
        cwd=checkout if script.needs == "nanogpt" else out / "run",
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], script: scripts.Script) -> list[str]:
    """What is compared of its output."""
    text, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"{process.args} ended with {process.returncode}:\n{text[-3000:]}")
    return re.findall(script.says, text)


def same(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(key in OWN or same(one[key], other[key]) for key in one)
        )
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return one == other


def saved(out: pathlib.Path, pattern: str) -> dict[str, object]:
    files = sorted(out.glob(pattern)) if pattern else []
    return {
        str(file.relative_to(out)): file.read_bytes()
        if file.suffix == ".png"
        else torch.load(file, map_location="cpu", weights_only=False)
        for file in files
    }


def compare(script: scripts.Script, checkout: pathlib.Path | None) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory(prefix="hocket-public-") as place, contextlib.ExitStack() as stack:
        alone, *copies = outs = [pathlib.Path(place) / name for name in ("alone", "first", "second")]
        said = ended(start(script, checkout, alone, f"public-alone-{os.getpid()}", "2GiB", []), script)
        device = f"public-shared-{os.getpid()}"
        both = [
            start(script, checkout, out, device, script.memory, [*HOCKET, "run", "--name", out.name, "--"])
            for out in copies
        ]
        for process in both:
            stack.callback(process.kill)  # where the other one fails
        shared = [ended(process, script) for process in both]
        trace = pathlib.Path(place) / "turns.json"
        environment = {**os.environ, "HOCKET_RUNTIME_DIR": place}
        subprocess.run([*HOCKET, "trace", "-o", str(trace)], env=environment, check=True, stdout=subprocess.DEVNULL)
        rows = json.loads(trace.read_text())["turns"]
        turns = [sum(turn["name"] == out.name for turn in rows) for out in copies]
        spilled = sum(turn["spilled"] for turn in rows)
        plain, *others = [saved(out, script.saves) for out in outs]
        held = len(said) >= 10 and all(each == said for each in shared)
        held = held and bool(plain) == bool(script.saves) and all(same(plain, other) for other in others)
        held = held and min(turns) > 1 and spilled > 0
    return held, f"{len(said)} values, {len(plain)} saved files, turns {turns}, {spilled} bytes spilled"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, what in scripts.CHECKOUTS.items():
        parser.add_argument(f"--{name}", type=pathlib.Path, help=f"a checkout of {what}")
    parser.add_argument("--only", default="", help="those whose title has this in it")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    checks, commits = [], {}
    for script in scripts.SCRIPTS:
        if arguments.only not in script.title:
            continue
        checkout = None
        if script.needs in scripts.CHECKOUTS:
            if not getattr(arguments, script.needs):
                print(f"not run: {script.title} (--{script.needs})")
                continue
            checkout = getattr(arguments, script.needs).resolve()
            describe = ["git", "-C", str(checkout), "describe", "--always"]
            commits[script.needs] = subprocess.run(describe, capture_output=True, text=True).stdout.strip()
        elif importlib.util.find_spec(script.needs) is None:
            print(f"not run: {script.title} (pip install {script.needs})")
            continue
        held, seen = compare(script, checkout)
        print(f"{'as alone' if held else 'NOT AS ALONE'}: {script.title}: {seen}", flush=True)
        text = f"{script.title}, unchanged: two copies under `hocket run` on {script.memory}, bit for bit as alone"
        checks.append((text, held, seen))
    if arguments.json:
        record = harness.checks_record("public_script", "python -m tests.public", checks, CODE, its_commits=commits)
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(0 if checks and all(held for _, held, _ in checks) else 1)


if __name__ == "__main__":
    main()
