"""A Jupyter kernel that a test starts in its World, and talks to as a notebook's page does."""

from __future__ import annotations

import json
import sys

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file
from world import PATIENCE, World, hocket_command


class Notebook:
    """Its cells run one after the other. ``program`` is its process."""

    def __init__(self, world: World, *, unchanged: bool, **variables: str) -> None:
        """``unchanged``: started by ``hocket run``; otherwise a cell has to import hocket."""
        file = str(world.folder / "kernel.json")
        write_connection_file(file, transport="ipc", ip=str(world.folder / "k"))
        start = [*hocket_command(), "run", "--"] if unchanged else []
        kernel = [sys.executable, "-m", "ipykernel_launcher", "-f", file]
        variables |= {"IPYTHONDIR": str(world.folder / "ipython"), "JPY_SESSION_NAME": "/home/ann/notebook.ipynb"}
        self.program = world.start(*start, *kernel, **variables)
        self._client = BlockingKernelClient(connection_file=file)
        self._client.load_connection_file()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=PATIENCE)
        self._cell = ""

    def begin(self, cell: str) -> None:
        self._cell = self._client.execute(cell)

    def begin_tooltip(self, name: str) -> None:
        """What a page asks for where the user points at ``name``."""
        self._cell = self._client.inspect(name)

    def outcome(self) -> str:
        """What the cell has printed; where it raised, also the exception's type and text."""
        said = ""
        while True:
            message = self._client.get_iopub_msg(timeout=PATIENCE)
            if message["parent_header"].get("msg_id") != self._cell:
                continue
            content = message["content"]
            if message["msg_type"] == "stream" and content["name"] == "stdout":
                said += content["text"]
            elif message["msg_type"] == "error":
                said += f"{content['ename']}: {content['evalue']}"
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return said.strip()

    def run(self, cell: str) -> str:
        self.begin(cell)
        return self.outcome()

    def counted(self, what: str) -> int:
        """Of its device, as its allocator counts (``spilled_total``)."""
        return int(json.loads(self.run(f"from hocket import _native; print(_native.holdings()[0]['{what}'])")))

    def close(self) -> None:
        self._client.stop_channels()
