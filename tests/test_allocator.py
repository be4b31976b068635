"""Freed memory stays with the process: what one pass has freed, the next one does not ask the system for."""

import platform
import subprocess
import sys

import pytest

# Page faults of 50 rounds that allocate, touch and free eight blocks of 8 MiB, as the passes of a network do.
PROGRAM = """
import ctypes, resource, sys
from sc2_envs.allocator import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()
c = ctypes.CDLL(None)
c.malloc.restype, c.malloc.argtypes, c.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
sizes = [2**23] * 8
for round in range(60):
    if round == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [c.malloc(size) for size in sizes]
    for block, size in zip(blocks, sizes):
        ctypes.memset(block, 1, size)
    for block in blocks[::-1]:
        c.free(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_memory_that_was_freed_is_not_asked_for_again():
    faults = {}
    for how in ("keep", "as it comes"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True, timeout=60
        )
        faults[how] = int(done.stdout)
    assert faults["keep"] < 100 < 10_000 < faults["as it comes"]
