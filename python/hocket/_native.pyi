"""This process as a job, over PyTorch (csrc/bindings/native.cc)."""

from typing import TypedDict

class JobInfo(TypedDict):
    id: int
    name: str
    device_name: str
    sharing_with: str
    steps: int
    turns: int
    joined: bool
    coordinated: bool
    holds_turn: bool

class DeviceHoldings(TypedDict):
    device: int
    uuid: str
    persistent: int
    arena: int
    spilled: int
    transient_peak: int
    spilled_total: int
    restored_total: int
    adopted_total: int

built_for: str

def install_allocator() -> None: ...
def keep_native_allocator() -> int: ...
def allocator_in_use() -> str: ...
def configure(name: str, weight: float, priority: str, memory_limit: int, total_steps: int) -> None: ...
def join() -> None: ...
def begin_step() -> None: ...
def end_step(count: bool = True) -> None: ...
def join_gang(gang: str, rank: int, size: int) -> None: ...
def leave() -> None: ...
def info() -> JobInfo: ...
def holdings() -> list[DeviceHoldings]: ...
