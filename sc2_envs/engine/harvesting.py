"""Workers that harvest: the way to a resource, the work on it, the way back, again and again."""

from sc2_envs.engine.compile import jit


@jit
def harvest(world, slot):
    """One game loop of a worker whose first order is GATHER."""


@jit
def return_cargo(world, slot):
    """One game loop of a worker whose first order is RETURN."""
