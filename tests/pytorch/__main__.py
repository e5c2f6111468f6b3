"""``scripts/pytorch-tests FOLDER``: PyTorch's own tests on the emulated GPU, with its allocator and with Hocket's.

FOLDER is a checkout of PyTorch's repository, best at the installed version's tag; its tests run unmodified. A test
that passes with PyTorch's allocator must pass with Hocket's, or be among the differences that
tests/pytorch/differences.py lists with their reasons; exit status 0 only if so. What fails with PyTorch's allocator
as well (an emulated GPU has no profiler, say) decides nothing, and is counted.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import sys
import tempfile

from tests.bench import harness
from tests.pytorch import contenders, differences

# Those that concern memory, streams, pools and graphs.
FILES = ("test_cuda.py", "test_cuda_multigpu.py", "test_cuda_trace.py", "test_cuda_primary_ctx.py")
RIVALS = {
    "hocket": (contenders.OURS, differences.HOCKET),
    "native": (contenders.NATIVE_OVER_CHUNKS, differences.NATIVE_OVER_CHUNKS),
}


def plain(test: str) -> str:
    """The key of a test in the list of differences."""
    return test.split("[")[0]


def lost(native: dict[str, contenders.Outcome], ours: dict[str, contenders.Outcome]) -> dict[str, contenders.Outcome]:
    """What passes with PyTorch's allocator and does not with the other."""
    nothing = contenders.Outcome("not run")
    pairs = {test: ours.get(test, nothing) for test, outcome in native.items() if outcome.word == "passed"}
    return {test: outcome for test, outcome in pairs.items() if outcome.word != "passed"}


def again_alone(
    place: contenders.Place,
    rival: contenders.Contender,
    native: dict[str, contenders.Outcome],
    ours: dict[str, contenders.Outcome],
) -> None:
    """Runs each test that is lost once more, by itself: a test before it may have left its process in disorder."""
    for test in lost(native, ours):
        for contender, outcomes in ((contenders.NATIVE, native), (rival, ours)):
            outcomes.update(contenders.Run(place, contender, test).run())


def surprises(
    native: dict[str, contenders.Outcome], ours: dict[str, contenders.Outcome], listed: dict[str, str]
) -> list[str]:
    """One sentence for each test that is not as listed."""
    found = lost(native, ours)
    said = [f"{test}: {outcome.word}: {outcome.why}" for test, outcome in found.items() if plain(test) not in listed]
    differ = {plain(test) for test in found}
    ran = {plain(test) for test, outcome in native.items() if outcome.word == "passed"}
    return said + [f"{test} is listed as a difference, and passes" for test in listed if test in ran - differ]


def counts(outcomes: dict[str, contenders.Outcome]) -> str:
    words = collections.Counter(outcome.word for outcome in outcomes.values())
    return ", ".join(f"{count} {word}" for word, count in sorted(words.items()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/pytorch-tests", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--file", action="append", help=f"default: {' '.join(FILES)}")
    parser.add_argument("--allocator", choices=RIVALS, default="hocket", help="whose allocator is compared")
    parser.add_argument(
        "--timing", action="store_true", help="in timing mode: nothing is computed, graphs are captured"
    )
    parser.add_argument("-k", dest="select", default="", help="as pytest's")
    parser.add_argument("--json", type=pathlib.Path, help="write every outcome there")
    options = parser.parse_args()
    tests = options.folder.resolve() / "test"
    if not (tests / FILES[0]).exists():
        parser.error(f"{options.folder} is no checkout of PyTorch: there is no test/{FILES[0]}")
    rival, listed = RIVALS[options.allocator]
    native: dict[str, contenders.Outcome] = {}
    ours: dict[str, contenders.Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="hocket-pytorch-") as folder:
        place = contenders.Place(tests, pathlib.Path(folder), timing=options.timing)
        for file in options.file or FILES:
            for contender, outcomes in ((contenders.NATIVE, native), (rival, ours)):
                found = contenders.Run(place, contender, file, options.select).run()
                print(f"{file}, {contender.name} allocator: {counts(found)}", flush=True)
                outcomes.update(found)
        again_alone(place, rival, native, ours)
    said = surprises(native, ours, listed)
    for sentence in said:
        print(sentence)
    found = lost(native, ours)
    passed = sum(outcome.word == "passed" for outcome in native.values())
    seen = f"{passed - len(found)} of the {passed} that pass with PyTorch's; {len(said)} not as listed"
    print(f"{rival.name} allocator: {seen}")
    if options.json:
        mode = "timing" if options.timing else "values"
        text = f"PyTorch's own tests of CUDA memory, streams, pools and graphs with {rival.name} allocator, {mode} mode"
        outcomes = {name: [native[name].word, ours[name].word if name in ours else "not run"] for name in native}
        code = ["allocator", "csrc", "python/hocket", "tests/pytorch"]
        checks = [(text, not said, seen)]
        record = harness.checks_record("pytorch_tests", "scripts/pytorch-tests", checks, code, outcomes=outcomes)
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(1 if said else 0)


if __name__ == "__main__":
    main()
