"""The raw interface's actions: orders to units by their tags, and exact positions where the others have pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import boolean, float64, int64, void

from sc2_envs.engine.abilities import FUNCTION_COMMAND
from sc2_envs.engine.camera import clamp_camera
from sc2_envs.engine.commands import command
from sc2_envs.engine.compile import entry, jit
from sc2_envs.engine.errors import ERROR, FINE, FUNCTION_NOT_AVAILABLE
from sc2_envs.engine.games import Games
from sc2_envs.engine.interface import is_available
from sc2_envs.engine.units import NOTHING, slot_of
from sc2_envs.engine.vision import sees_unit
from sc2_envs.engine.world import NOBODY, WORLDS_TYPE


@jit
def remembers(world, player, tag):
    """Whether a player has a snapshot of a unit."""
    for index in range(world.snapshots[player - 1]):
        if world.snapshot_tag[player - 1, index] == tag:
            return True
    return False


@entry(int64(WORLDS_TYPE, int64, int64, float64, float64, int64, boolean))
def _command(worlds, player, function, x, y, target, queued):
    """Let the selected units do what a function asks; target: tag of a unit, 0 = the position."""
    world = worlds[0]
    if not is_available(world, player, function):
        return FUNCTION_NOT_AVAILABLE
    slot = NOBODY
    if target != 0:
        slot = slot_of(world, target)
        if slot < 0 or not (sees_unit(world, player, slot) or remembers(world, player, target)):
            return ERROR
        x, y = world.x[slot], world.y[slot]
    return command(world, player, FUNCTION_COMMAND[function], x, y, slot, queued)


@entry(void(WORLDS_TYPE, int64, float64, float64))
def _move_camera(worlds, player, x, y):
    world = worlds[0]
    world.camera_x[player - 1], world.camera_y[player - 1] = clamp_camera(world, x, y)


@dataclass(frozen=True)
class RawCommand:
    """An order to units by their tags."""

    function: int
    """the function of the feature interface that asks for the same"""
    tags: tuple[int, ...]
    x: float
    y: float
    target: int
    """tag of a unit, 0 = the position"""
    queued: bool

    def carry_out(self, games: Games, selects: bool) -> int:
        """Give the order; returns FINE, or why it could not be given.

        Args:
            games: the game, a batch of one.
            selects: whether the units are selected from now on, too.
        """
        selected = games.worlds["selected"][0]
        world = games.worlds[0]
        before, tags = selected.copy(), world["tag"].copy()
        named = np.isin(world["tag"], self.tags) & (world["type"] != NOTHING) & (world["owner"] == games.player)
        bit = np.uint8(1 << (games.player - 1))
        selected[:] = np.where(named, before | bit, before & ~bit)
        reason = int(_command(games.worlds, games.player, self.function, self.x, self.y, self.target, self.queued))
        if not selects or not named.any():
            stays = (world["type"] != NOTHING) & (world["tag"] == tags)  # who was not cancelled
            selected[:] = np.where(stays, before, 0)
        return reason


@dataclass(frozen=True)
class RawCameraMove:
    """The camera's centre to a position."""

    x: float
    y: float

    def carry_out(self, games: Games, selects: bool) -> int:
        """Move it there, or as near as the map lets it; returns FINE."""
        _move_camera(games.worlds, games.player, self.x, self.y)
        return FINE
