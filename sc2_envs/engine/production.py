"""Structures that train units: a queue of five, paid in advance, one at a time."""

from sc2_envs.engine.compile import jit


@jit
def produce(world):
    """One game loop of work in every structure that has something in its queue."""
