"""The random stream of one game: SplitMix64 over a counter (Steele, Lea, Flood 2014), kept in the world record.

The n-th draw depends on the key and on n alone, so a stream does not know how many other games run beside it.
"""

import numpy as np
from numba import uint64

from sc2_envs.engine.compile import jit

_GOLDEN = uint64(0x9E3779B97F4A7C15)
_MIX_1 = uint64(0xBF58476D1CE4E5B9)
_MIX_2 = uint64(0x94D049BB133111EB)


def stream_key(seed: int | np.integer) -> np.uint64:
    """Key of the stream of a seed (any non-negative int): neighbouring seeds get unrelated keys."""
    return np.random.SeedSequence(int(seed)).generate_state(1, np.uint64)[0]


@jit
def random_bits(world):
    """The next 64 random bits."""
    world.random_counter += uint64(1)
    z = uint64(world.random_key) + uint64(world.random_counter) * _GOLDEN
    z = (z ^ (z >> uint64(30))) * _MIX_1
    z = (z ^ (z >> uint64(27))) * _MIX_2
    return z ^ (z >> uint64(31))


@jit
def uniform(world, low, high):
    """Uniform in [low, high), with 53 random bits."""
    return low + (high - low) * (float(random_bits(world) >> uint64(11)) * 2.0**-53)
