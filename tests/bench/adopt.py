"""Takes over what scripts/gpu-check has found on a machine with a GPU: ``scripts/bench --adopt FOLDER``.

``FOLDER`` is the check's output. Each benchmark's record goes into docs/results beside the emulated one, with where it
comes from; the histories of allocations that it has recorded go there, too. Before anything is written all of it is
looked at: a record that does not belong together, or that does not show what this tree does, is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import pathlib
import re
import shutil
import subprocess
import tarfile
from collections.abc import Collection
from typing import Any

from tests.bench import harness, source
from tests.bench.histories import FILE

MOST = 16 << 20  # bytes of a file, as the check keeps to
OF_A_FIGURE = ("name", "text", "value", "low", "high", "goal", "baseline", "samples")
OF_A_RESULT = ("benchmark", "commit", "date", "command", "machine", "device", "torch", "figures")


class NotAdopted(Exception):
    """Nothing was written; the text says what is wrong, and where."""


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise NotAdopted(what)


def _text(data: Any, key: str, where: str) -> str:
    said = isinstance(data, dict) and isinstance(data.get(key), str) and data[key] != ""
    _need(said, f"{where} does not say its {key}")
    return data[key]


def _read(folder: pathlib.Path) -> dict[str, Any]:
    path = folder / "record.json"
    _need(path.is_file(), f"there is no {path}: --adopt takes the folder that scripts/gpu-check --out has filled")
    _need(path.stat().st_size <= MOST, f"{path} has {path.stat().st_size:,} bytes; the check writes {MOST:,} at most")
    try:
        record = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise NotAdopted(f"{path} is no JSON: {error}") from error
    for part, kind in (("about", dict), ("machine", dict), ("results", list)):
        _need(isinstance(record, dict) and isinstance(record.get(part), kind), f"{path} has no '{part}'")
    return record


def _check_figure(figure: Any, where: str) -> None:
    for key in OF_A_FIGURE:
        _need(isinstance(figure, dict) and key in figure, f"{where}: a figure has no '{key}'")
    numbers = [figure["value"], figure["low"], figure["high"], figure["goal"]]
    sampled = isinstance(figure["samples"], list) and len(figure["samples"]) > 0
    _need(sampled, f"{where}: {figure['name']} has no samples")
    for value in [*numbers, *figure["samples"]]:
        finite = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        _need(finite, f"{where}: {figure['name']} has {value!r} where a number belongs")
    _need(figure["low"] <= figure["value"] <= figure["high"], f"{where}: {figure['name']} lies outside its own bounds")


def _check_not_measured(figure: Any, where: str) -> None:
    for key in ("name", "text", "baseline", "why"):
        _text(figure, key, f"{where}: a figure that was not measured")


def _check_result(result: Any, machine: dict[str, Any], names: Collection[str]) -> None:
    name = _text(result, "benchmark", "a result")
    _need(name in names, f"there is no benchmark called {name!r}: was the record made by another version?")
    for key in OF_A_RESULT:
        _need(key in result, f"{name} has no '{key}'")
    for key in ("commit", "device", "torch"):
        said = f"{name} says {key} {result[key]!r}, the machine {machine[key]!r}: they are not of one run"
        _need(result[key] == machine[key], said)
    _need(isinstance(result["figures"], list) and result["figures"] != [], f"{name} has no figures")
    for figure in result["figures"]:
        _check_figure(figure, name)
    missing = result.get("not_measured", [])
    _need(isinstance(missing, list), f"{name} has a 'not_measured' that is no list")
    for figure in missing:
        _check_not_measured(figure, name)


def _check_source(commit: str) -> None:
    _need(re.fullmatch(r"[0-9A-Za-z.-]+", commit) is not None and commit != "unknown", f"commit {commit!r} is none")
    _need(
        not commit.endswith("-dirty"),
        f"it was measured with changes on top of {commit.removesuffix('-dirty')} that nobody else has.\n"
        "  Make the bundle (scripts/offline-bundle) from a commit, and check again.",
    )
    known = subprocess.run(
        ["git", "-C", str(source.ROOT), "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, check=False
    )
    _need(known.returncode == 0, f"this repository has no commit {commit}: what was measured is not here")


def _check_histories(path: pathlib.Path, named: Any) -> None:
    """``named``: what the record says of them."""
    _need(isinstance(named, dict), f"the record's 'histories' are {named!r}")
    if not named or "left out" in named:
        _need(not path.exists(), f"the record names no histories: {path} is of another run")
        return
    _need(path.is_file(), f"the record names histories, and there is no {path}")
    _need(path.stat().st_size <= MOST, f"{path} has {path.stat().st_size:,} bytes; the check writes {MOST:,} at most")
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                fits = member.isfile() and FILE.fullmatch(member.name) is not None
                _need(fits, f"{path} has {member.name!r}, which is no history")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise NotAdopted(f"{path} cannot be read: {error}") from error
    same = hashlib.sha256(path.read_bytes()).hexdigest() == named.get("sha256")
    _need(same, f"{path} is not the file that the record names: it is of another run")


def adopt(folder: pathlib.Path, names: Collection[str]) -> list[pathlib.Path]:
    """Writes the records, and the histories where there are any, into the results; their paths. NotAdopted: nothing."""
    record = _read(folder)
    about, machine = record["about"], record["machine"]
    for key in ("commit", "device", "torch"):
        _text(machine, key, "the machine")
    command = _text(about, "command", "the record")
    options = command.split()
    device = machine["device"]
    _need("--emulate" not in options and device != harness.EMULATED and "emulated" not in device.lower(),
          "it is of an emulated GPU: such figures come from scripts/bench --emulate")  # fmt: skip
    _need("--quick" not in options, "it was made with --quick, which shows that the kit works and measures nothing")
    _check_source(machine["commit"])
    _need(record["results"] != [], "it has no benchmark's results: the check did not get that far")
    for result in record["results"]:
        _check_result(result, machine, names)
    histories = folder / "histories.tar.gz"
    _check_histories(histories, record.get("histories", {}))
    came = {"command": command, "date": about.get("date", ""), "nvidia-smi": machine.get("nvidia-smi", "")}
    written = []
    for result in record["results"]:
        path = harness.RESULTS / harness.record_name(result["benchmark"], device)
        path.write_text(json.dumps({**result, "adopted": came}, indent=1) + "\n")
        written.append(path)
    if histories.exists():
        path = harness.RESULTS / harness.record_name("histories", device).replace(".json", ".tar.gz")
        shutil.copy(histories, path)
        written.append(path)
    return written
