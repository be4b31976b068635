"""Fighting: whom a unit attacks, when its blows land, what they do."""

from sc2_envs.engine.compile import jit


@jit
def fly_missiles(world):
    """One game loop of every missile's flight."""


@jit
def regenerate(world):
    """One game loop of the regeneration of health."""
