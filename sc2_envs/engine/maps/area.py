"""Areas of a map, and random points in them. Lengths are world units."""

from typing import NamedTuple

from sc2_envs.engine.compile import jit
from sc2_envs.engine.random import uniform
from sc2_envs.engine.units import on_grid


class Rectangle(NamedTuple):
    """An axis-parallel rectangle."""

    left: float
    bottom: float
    right: float
    top: float


@jit
def uniform_point(world, area):
    """A uniform random point of a rectangle."""
    x = uniform(world, area[0], area[2])
    y = uniform(world, area[1], area[3])
    return on_grid(x), on_grid(y)


@jit
def near(x_1, y_1, x_2, y_2, radius):
    """Whether two points are closer than this."""
    return (x_1 - x_2) ** 2 + (y_1 - y_2) ** 2 < radius * radius
