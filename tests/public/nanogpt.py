"""Somebody else's training script, unchanged, under ``hocket run``: two copies share a device too small for both.

    python -m tests.public.nanogpt FOLDER [--json FILE]

``FOLDER`` is a checkout of https://github.com/karpathy/nanoGPT whose ``data/shakespeare_char/prepare.py`` has been run.
Its ``train.py`` trains its character-level GPT once with plain torch, alone, and then twice at once under ``hocket
run``, all three on the emulated GPU. Only its own options are used: sizes, a few steps, and no ``torch.compile`` (whose
Triton kernels need a GPU). Exit status 0 only if all losses printed and all weights, optimizer states included, in
the last checkpoint are those of the plain run, and bytes were spilled.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import torch

from tests.bench import harness

OPTIONS = [
    "config/train_shakespeare_char.py",
    "--compile=False",
    "--max_iters=30",
    "--lr_decay_iters=30",
    "--eval_interval=10",
    "--eval_iters=2",
    "--log_interval=1",
    "--batch_size=4",
    "--block_size=64",
    "--n_layer=4",
    "--n_head=4",
    "--n_embd=256",
]
MEMORY = "96MiB"
HOCKET = [str(pathlib.Path(sys.executable).parent / "hocket")]


def start(folder: pathlib.Path, out: pathlib.Path, device: str, run: list[str]) -> subprocess.Popen[str]:
    emulate = [*HOCKET, "emulate", "--memory", MEMORY, "--name", device, "--check", "--"]
    command = [*emulate, *run, sys.executable, "train.py", *OPTIONS, f"--out_dir={out}"]
    environment = {**os.environ, "HOCKET_RUNTIME_DIR": str(out.parent)}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def losses(text: str) -> list[str]:
    return re.findall(r"iter \d+: loss [\d.]+|step \d+: train loss [\d.]+, val loss [\d.]+", text)


def same(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return one == other


def checkpoint(out: pathlib.Path) -> dict:
    saved = torch.load(out / "ckpt.pt", map_location="cpu", weights_only=False)
    saved["config"].pop("out_dir")
    return saved


def ended(process: subprocess.Popen[str]) -> str:
    text, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"{process.args} ended with {process.returncode}:\n{text}")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    if not (folder / "data/shakespeare_char/train.bin").exists():
        raise SystemExit(f"{folder} is no checkout of nanoGPT with its data prepared: run its prepare.py first")
    describe = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
    commit = subprocess.run(describe, capture_output=True, text=True)
    with tempfile.TemporaryDirectory(prefix="hocket-public-") as place:
        outs = [pathlib.Path(place) / name for name in ("alone", "first", "second")]
        alone = losses(ended(start(folder, outs[0], f"public-alone-{os.getpid()}", [])))
        device = f"public-shared-{os.getpid()}"
        both = [start(folder, out, device, [*HOCKET, "run", "--name", out.name, "--"]) for out in outs[1:]]
        shared = [losses(ended(process)) for process in both]
        trace = pathlib.Path(place) / "turns.json"
        environment = {**os.environ, "HOCKET_RUNTIME_DIR": place}
        subprocess.run([*HOCKET, "trace", "-o", str(trace)], env=environment, check=True, stdout=subprocess.DEVNULL)
        turns = json.loads(trace.read_text())["turns"]
        plain = checkpoint(outs[0])
        result = {
            "script": "karpathy/nanoGPT train.py, unchanged",
            "its_commit": commit.stdout.strip(),
            "options": " ".join(OPTIONS),
            "memory": f"{MEMORY}, check mode",
            "losses_printed": len(alone),
            "losses_identical": all(each == alone for each in shared),
            "checkpoints_identical": all(same(plain, checkpoint(out)) for out in outs[1:]),
            "turns": {out.name: sum(turn["name"] == out.name for turn in turns) for out in outs[1:]},
            "bytes_spilled": sum(turn["spilled"] for turn in turns),
            "bytes_restored": sum(turn["restored"] for turn in turns),
        }
    print(json.dumps(result, indent=2))
    held = result["losses_identical"] and result["checkpoints_identical"] and len(alone) > 30
    held = held and result["bytes_spilled"] > 0 and min(result["turns"].values()) > 1
    if arguments.json:
        text = f"{result['script']}: two copies under `hocket run` on {result['memory']}, bit for bit as alone"
        seen = f"{len(alone)} losses, turns {result['turns']}, {result['bytes_spilled']} bytes spilled"
        code = ["allocator", "csrc", "coordinator", "python/hocket", "tests/public"]
        record = harness.checks_record(
            "public_script", "python -m tests.public.nanogpt", [(text, held, seen)], code, **result
        )
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
