"""What the command line needs, without torch (csrc/bindings/control.cc)."""

from typing import TypedDict

class DeviceFound(TypedDict):
    name: str
    uuid: str
    capacity: int
    free: int
    # Why only one process can use it, or none, and in a second line what to do; empty: several can. Then nothing of it
    # is looked at that takes a context: `free` is 0.
    alone: str

class DriverFound(TypedDict):
    found: bool
    reason: str
    version: int
    devices: list[DeviceFound]

class CoordinatorSeen(TypedDict):
    uid: int
    pid: int
    epoch: int
    device: str

built_for_torch: str
version: str

def control(socket_path: str, command: str, arguments_json: str, timeout_ms: int = 10000) -> str: ...
def socket_path() -> str: ...
def runtime_dir() -> str: ...
def ensure_runtime_dir() -> str: ...
def parse_bytes(text: str) -> int: ...
def format_bytes(size: int) -> str: ...
def probe_driver() -> DriverFound: ...
def coordinators() -> list[CoordinatorSeen]: ...
