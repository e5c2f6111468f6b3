"""Writes one refusing function for each symbol that torch imports and the emulated runtime lacks.

usage: generate_refusals.py OUTPUT.cc --torch LIB_FOLDER --implemented OBJECT...

The list is made anew for each torch: what its libraries import from the vendor's, less what the objects
define, and less those that the vendor's libraries answer rightly without a device (versions, error texts).
"""

import argparse
import glob
import os
import re
import subprocess

IMPORTED = re.compile(r"^(_*cuda[A-Z]|cublas|cusolver|cusparse|cufft|curand|cudnn|nccl|cupti)")

ANSWERED_BY_VENDOR = re.compile(r"Get(\w*Version|\w*ErrorString|LastError|ResultString|CallbackName|Property)$")


def symbols(path, *options):
    out = subprocess.run(["nm", *options, path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines() if line.strip()}


def imported(folder):
    found = set()
    for library in glob.glob(os.path.join(folder, "libc10_cuda.so")) + glob.glob(os.path.join(folder, "libtorch*.so")):
        imported = symbols(library, "-D", "--undefined-only")
        found |= {s for s in imported if IMPORTED.match(s) and not ANSWERED_BY_VENDOR.search(s)}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output")
    parser.add_argument("--torch", required=True)
    parser.add_argument("--implemented", nargs="+", required=True)
    arguments = parser.parse_args()
    implemented = set()
    for path in arguments.implemented:
        implemented |= symbols(path, "--defined-only", "--extern-only")
    missing = sorted(imported(arguments.torch) - implemented)
    with open(arguments.output, "w") as out:
        out.write('extern "C" int hocket_emulator_refuse(const char* function, const void* handle);\n')
        out.write(
            '#define REFUSE(f) extern "C" __attribute__((visibility("default"))) int f(const void* handle) '
            "{ return hocket_emulator_refuse(#f, handle); }\n"
        )
        out.writelines(f"REFUSE({symbol})\n" for symbol in missing)


if __name__ == "__main__":
    main()
