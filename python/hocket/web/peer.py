"""Whose process is at the other end of a connection on this machine. Linux says so in /proc/net/tcp (proc(5))."""

from __future__ import annotations

import socket
import struct

# A program may reach us through a socket of IPv6, which lists our address as one of IPv4 inside it.
TABLES = (("/proc/net/tcp", ""), ("/proc/net/tcp6", "0000000000000000FFFF0000"))
Address = tuple[str, int]


def user(peer: Address, own: Address, tables: tuple[tuple[str, str], ...] = TABLES) -> int | None:
    """The uid that the socket at ``peer`` belongs to, as seen from ours at ``own``; None where it is not listed.

    A socket that its process has closed already is listed as root's; nobody is left to read the answer then.
    """
    for path, before in tables:
        wanted = [before + _written(peer), before + _written(own)]
        try:
            with open(path, encoding="ascii") as lines:
                for line in lines:
                    fields = line.split()
                    if fields[1:3] == wanted:
                        return int(fields[7])
        except OSError:
            continue
    return None


def _written(address: Address) -> str:
    """``0100007F:24F9``: the address as a number in the machine's own order of bytes."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
