"""A job that takes no turns but writes down what it is told: stands in for the compiled parts."""

from __future__ import annotations

import json
import os
import types


class FakeNative(types.ModuleType):
    """``story`` is what happened, in order: "begin", "end", "end uncounted", "join", "leave", "install", "gang ...".

    ``steps`` counts like the client: the outermost step of a thread, if it is counted.
    """

    def __init__(self, torch_version: str) -> None:
        super().__init__("hocket._native")
        self.built_for = torch_version
        self.story: list[str] = []
        self.steps = 0
        self.open: list[int] = []
        self.begun = 0
        self.options: dict[str, object] = {}
        self.joined = False
        self.expects_strays = True

    def configure(self, **options: object) -> None:
        self.options = options

    def install_allocator(self) -> None:
        self.story.append("install")

    def keep_native_allocator(self) -> int:
        self.story.append("keep native")
        return 0

    def join(self) -> None:
        self.joined = True
        self.story.append("join")

    @property
    def depth(self) -> int:
        return len(self.open)

    def begin_step(self) -> int:
        if not self.joined:
            self.join()
        self.begun += 1
        self.open.append(self.begun)
        self.story.append("begin")
        return self.begun

    def end_step(self, count: bool = True, step: int | None = None) -> None:
        assert self.begun > 0, f"a step ends that never began: {self.story}"
        if step is None:
            step = self.open[-1]
        if step not in self.open:  # it has ended with the one that it is part of
            return
        del self.open[self.open.index(step) :]
        self.steps += bool(count and self.depth == 0)
        self.story.append("end" if count else "end uncounted")

    def expect_strays(self, expected: bool) -> None:
        self.expects_strays = expected

    def watch_visitor(self) -> None:
        pass

    def end_steps(self) -> None:
        self.open.clear()

    def begin_away(self) -> None:
        self.story.append("away")

    def end_away(self) -> None:
        self.story.append("back")

    def join_gang(self, gang: str, rank: int, size: int) -> None:
        self.story.append(f"gang {rank}/{size}")

    def declare_constant(self, tensor: int, name: str) -> int:
        self.story.append(f"constant {name}")
        return 0

    def end_constant(self, address: int) -> None:
        self.story.append("no longer constant")

    last_stage = 1000

    def set_stage(self, address: int, stage: int) -> int:
        self.story.append(f"stage {stage}")
        return 0

    def await_stage(self, stage: int) -> None:
        self.story.append(f"await {stage}")

    def leave(self) -> None:
        self.joined = False
        self.story.append("leave")

    def info(self) -> dict[str, object]:
        return {
            "id": 1,
            "name": self.options.get("name") or "job",
            "device_name": "no device",
            "sharing_with": "",
            "steps": self.steps,
            "turns": 0,
            "joined": self.joined,
            "coordinated": self.joined,
            "holds_turn": self.depth > 0,
        }


DEVICE = {"name": "a GPU", "uuid": "GPU-1", "capacity": 64 << 30, "free": 60 << 30, "alone": ""}


def fake_control(torch_version: str) -> types.ModuleType:
    module = types.ModuleType("hocket._control")
    module.built_for_torch = torch_version  # type: ignore[attr-defined]
    module.parse_bytes = _parse_bytes  # type: ignore[attr-defined]
    module.format_bytes = _format_bytes  # type: ignore[attr-defined]
    module.probe_driver = lambda: {"found": True, "reason": "", "version": 13000, "devices": [dict(DEVICE)]}  # type: ignore[attr-defined]
    module.control = _answer_of_file  # type: ignore[attr-defined]
    module.coordinators = list  # type: ignore[attr-defined]
    module.ensure_runtime_dir = lambda: os.environ["HOCKET_RUNTIME_DIR"]  # type: ignore[attr-defined]
    module.socket_path = lambda: "/nowhere/hocketd.sock"  # type: ignore[attr-defined]
    return module


def _answer_of_file(path: str, command: str, arguments: str, timeout_ms: int = 10_000) -> str:
    """What a coordinator would answer: from the JSON object in the file $FAKE_ANSWERS, by command. A list is a list
    of pages, the one at ``since``; null: no coordinator runs. The command itself is appended to the file
    $FAKE_ANSWERS.asked."""
    file = os.environ["FAKE_ANSWERS"]
    with open(file + ".asked", "a", encoding="utf-8") as asked:
        print(json.dumps([command, json.loads(arguments)]), file=asked)
    with open(file, encoding="utf-8") as answers:
        answer = json.load(answers)[command]
    if answer is None:
        from hocket.errors import CoordinatorUnavailable

        raise CoordinatorUnavailable(f"no coordinator runs at {path}")
    return json.dumps(answer[json.loads(arguments)["since"]] if isinstance(answer, list) else answer)


def _format_bytes(size: int) -> str:
    shift, unit = next((s, u) for s, u in ((30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")) if size >= 1 << s or s == 0)
    return f"{size / (1 << shift):.1f} {unit}"


def _parse_bytes(text: str) -> int:
    return int(text.removesuffix("GiB")) << (30 if text.endswith("GiB") else 0)
