"""Building structures: where they can stand, what they cost, the worker's share of it, repair."""

from sc2_envs.engine.compile import jit


@jit
def build(world, slot):
    """One game loop of a worker whose first order is to build something."""


@jit
def repair(world, slot):
    """One game loop of a worker whose first order is REPAIR."""
