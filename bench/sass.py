#!/usr/bin/env python3
"""Counts the instructions of the loops in the GPU's machine code. Nothing is run, so this is no
measurement: it says what share of its instructions a loop spends on the arithmetic it is for.

    nvcc -std=c++17 -O3 -Isrc -arch=sm_90a -cubin -o l2.cubin src/gpu/product_l2.cu
    cuobjdump -sass l2.cubin | bench/sass.py

One line for each innermost loop of each kernel with at least --least instructions, and for each
stretch without jumps that uses tensor cores: where it begins, and how many of its instructions a
pass goes to fp32 lanes, to float64 lanes, to the special functions (MUFU), to tensor cores (HMMA,
HGMMA), to reads of shared memory (LDS, LDSM) and of the device's (LDG), to asynchronous copies
(LDGSTS), and elsewhere. `lanes` is the share of arithmetic in all: a multiprocessor starts as many
instructions a cycle as it has fp32 lanes for.
"""
import argparse
import re
import sys

FP32 = ("FFMA", "FADD", "FMUL")
FP64 = ("DFMA", "DADD", "DMUL")
JUMPS = ("BRA", "BRX", "EXIT", "BSYNC", "BSSY")
TENSOR = ("HMMA", "HGMMA")
KINDS = ("fp32", "fp64", "mufu", "hmma", "lds", "ldg", "ldgsts", "other")


def kind_of(name):
    if name in FP32:
        return "fp32"
    if name in FP64:
        return "fp64"
    if name in TENSOR:
        return "hmma"
    if name == "LDSM":
        return "lds"
    return name.lower() if name.lower() in KINDS else "other"


def kernels(lines):
    """(name, [(address, instruction, operands)]) of each function."""
    name, code = None, []
    for line in lines:
        function = re.search(r"Function : (\S+)", line)
        if function:
            if name:
                yield name, code
            name, code = function.group(1), []
        found = re.match(r"\s+/\*([0-9a-f]{4,6})\*/\s+(?:@!?U?P\d+ )?\s*([A-Z0-9_]+)\S*\s*(.*?);", line)
        if found and name:
            code.append((int(found.group(1), 16), found.group(2), found.group(3)))
    if name:
        yield name, code


def loops(code):
    """The ranges between a jump back and its target that hold no other such range."""
    ranges = []
    for address, name, operands in code:
        target = re.search(r"0x([0-9a-f]+)\s*$", operands)
        if name == "BRA" and target and int(target.group(1), 16) < address:
            ranges.append((int(target.group(1), 16), address))
    for first, last in ranges:
        if not any(first <= a and b <= last and (a, b) != (first, last) for a, b in ranges):
            yield first, [name for at, name, _ in code if first <= at <= last]


def stretches(code):
    """The runs of instructions without a jump, or the target of one, that use tensor cores."""
    begins = {int(t.group(1), 16) for _, name, operands in code if (t := re.search(r"0x([0-9a-f]+)\s*$", operands))
              if name in JUMPS}
    run = []
    for address, name, _ in code:
        if address in begins or name in JUMPS:
            if any(name in TENSOR for name in run):
                yield first, run
            run = []
        if not run:
            first = address
        run.append(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--least", type=int, default=60, help="instructions of a loop")
    least = parser.parse_args().least
    for name, code in kernels(sys.stdin):
        print(f"{name}: {len(code)} instructions")
        found = list(loops(code))
        found += [stretch for stretch in stretches(code) if stretch[0] not in dict(found)]
        for first, body in sorted(found):
            counts = dict.fromkeys(KINDS, 0)
            for instruction in body:
                counts[kind_of(instruction)] += 1
            if len(body) >= least:
                arithmetic = (counts["fp32"] + counts["fp64"]) / len(body)
                mix = "  ".join(f"{kind} {counts[kind]}" for kind in KINDS)
                print(f"  {first:#07x}  {len(body)}: {mix}  lanes {arithmetic:.3f}")


if __name__ == "__main__":
    main()
