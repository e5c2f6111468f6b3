"""The page at the end, and the record as data: at most 8 files of at most 16 MiB.

report.md         the page
record.json       machine, parts, tests, facts, every benchmark's raw data, and which histories belong to it
log.txt           all that was printed; its middle is left out where it is too long
histories.tar.gz  the allocation histories of the trainings (programs/history.py says the format)
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import shutil
from typing import Any

from tests.bench import harness, table
from tests.bench.adopt import OF_A_RESULT
from tests.gpu.check import histories, machine
from tests.gpu.check.parts import RECORDS, RESULTS

PAGE, DATA, LOG = "report.md", "record.json", "log.txt"
MOST_LOG, MOST_FILE = 8 << 20, 16 << 20
ABOUT_A_RESULT = ("driver", "load", "not_measured", "python", "scheduling", "speaks_of")  # what is no raw data


def _lines(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _results() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]


def _histories() -> dict[str, Any]:
    """Which file they are, so that nobody takes another run's for this one's; {} where none were recorded."""
    if not histories.FILE.exists():
        return {}
    data = histories.FILE.read_bytes()
    said = {"file": histories.FILE.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return said | ({"left out": f"at most {MOST_FILE:,} bytes a file"} if len(data) > MOST_FILE else {})


def gather(parts: list[dict[str, Any]], about: dict[str, Any]) -> dict[str, Any]:
    """Everything that is known so far."""
    lines = [line for path in RECORDS for line in _lines(path)]
    return {
        "about": about,
        "machine": json.loads(machine.FILE.read_text()) if machine.FILE.exists() else {},
        "parts": parts,
        "tests": [line for line in lines if "test" in line],
        "facts": [line for line in lines if "fact" in line],
        "results": _results(),
        "histories": _histories(),
    }


def fitted(record: dict[str, Any]) -> str:
    """The record as JSON, small enough for a file: of the largest results first the raw data go, then the results
    themselves; "left out" names them."""
    record = {**record, "results": [*record["results"]]}
    left_out: list[str] = []

    def text() -> str:
        return json.dumps({**record, "left out": left_out} if left_out else record, indent=1) + "\n"

    while len(text()) > MOST_FILE and record["results"]:
        result = max(record["results"], key=lambda result: len(json.dumps(result)))
        record["results"].remove(result)
        kept = {key: result[key] for key in (*OF_A_RESULT, *ABOUT_A_RESULT) if key in result}
        if kept != result:
            record["results"].append(kept)
        left_out.append(f"{result['benchmark']}: {'its raw data' if kept != result else 'all of it'}")
    return text()


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def _table(heads: list[str], rows: list[list[object]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n\n"


def _summary(record: dict[str, Any]) -> str:
    tests = record["tests"]
    count = {what: sum(t["outcome"] == what for t in tests) for what in ("passed", "failed", "cannot")}
    figures = [f for result in record["results"] for f in result["figures"]]
    met = sum(harness.met(f) == "yes" for f in figures)
    missing = sum(len(result.get("not_measured", ())) for result in record["results"])
    left = [p["name"] for p in record["parts"] if p["outcome"] != "done"]
    text = f"**{count['passed']} tests passed, {count['failed']} failed, {count['cannot']} need what this device "
    text += f"cannot do; {met} of {len(figures)} figures meet their goals"
    text += f", {missing} more were not measured.**" if missing else ".**"
    return text + (f" Not done: {', '.join(left)}.\n\n" if left else " Every part was done.\n\n")


def _tests(tests: list[dict[str, Any]]) -> str:
    text = ""
    for test in tests:
        if test["outcome"] == "failed":
            text += f"### failed: {test['test']}\n\n```\n{test['why'][-1500:]}\n```\n\n"
    cannot = [t for t in tests if t["outcome"] == "cannot"]
    if cannot:
        text += "Left out, with what the device answered when it was tried:\n\n"
        text += _table(["test", "why"], [[t["test"], t["why"]] for t in cannot])
    passed = [f"{t['test']} ({t['seconds']} s)" for t in tests if t["outcome"] == "passed"]
    return text + (f"Passed: {', '.join(passed)}.\n\n" if passed else "")


def markdown(record: dict[str, Any]) -> str:
    """The page."""
    about, mach = record["about"], record["machine"]
    title = mach.get("device", "no device was reached")
    text = f"# Hocket on {title}\n\n{_summary(record)}"
    text += "".join(f"- {name}: {value}\n" for name, value in {**about, **mach}.items() if value not in ("", None))
    if "left out" in record.get("histories", {}):
        said = record["histories"]
        text += f"- the histories of allocations are left out: {said['bytes']:,} bytes; {said['left out']}\n"
    text += "\n## Figures\n\n"
    rows = [
        [f["text"], table.goal(f), table.value(f), table.met(f), f["baseline"], result["device"]]
        for result in record["results"]
        for f in result["figures"]
    ]
    rows += [
        [f["text"], "-", f"not measured: {f['why']}", "-", f["baseline"], result["device"]]
        for result in record["results"]
        for f in result.get("not_measured", ())
    ]
    text += _table(["figure", "goal", "measured", "met", "baseline", "device"], rows) if rows else "None.\n\n"
    text += "## Facts\n\n"
    facts = [[f["fact"], f"{f['value']} {f['unit']}"] for f in record["facts"]]
    text += _table(["fact", "measured"], facts) if facts else "None.\n\n"
    text += "## Tests\n\n" + _tests(record["tests"])
    rows = [[p["name"], p["outcome"], f"{p['seconds']:.0f} s", p["text"]] for p in record["parts"]]
    text += "## Parts\n\n" + _table(["part", "outcome", "took", "what"], rows)
    for part in record["parts"]:
        if part["outcome"] in ("failed", "stopped") and part["tail"]:
            text += f"The last lines of {part['name']}:\n\n```\n{part['tail']}\n```\n\n"
    return text


def clear(out: pathlib.Path) -> None:
    """Takes away what an earlier run has left there; the folder may hold other files, too."""
    for name in (PAGE, DATA, LOG, histories.FILE.name):
        (out / name).unlink(missing_ok=True)


def write(out: pathlib.Path, log: pathlib.Path, parts: list[dict[str, Any]], about: dict[str, Any]) -> None:
    """Writes all files; called after every part, so that what was reached is there whatever happens next."""
    record = gather(parts, about)
    (out / DATA).write_text(fitted(record))
    (out / PAGE).write_text(markdown(record))
    said = log.read_bytes() if log.exists() else b""
    if len(said) > MOST_LOG:
        said = said[: MOST_LOG // 2] + b"\n[...]\n" + said[-MOST_LOG // 2 :]
    (out / LOG).write_bytes(said)
    if record["histories"] and "left out" not in record["histories"]:
        shutil.copy(histories.FILE, out / histories.FILE.name)
