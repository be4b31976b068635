"""InterfaceOptions: how a client wants to look at a game, and what of it is not possible."""

from __future__ import annotations

from typing import Any

from sc2_envs.engine.camera import CAMERA_WIDTH
from sc2_envs.sc2api.pictures import problem_of_render
from sc2_envs.sc2api.replays import MAX_MESSAGE_SIZE
from sc2_envs.spaces import MAX_SIDE


def problem_of_options(options: Any) -> str | None:
    """Why a game cannot be looked at in this way; None where it can."""
    if options.ByteSize() > MAX_MESSAGE_SIZE:
        return f"options of {options.ByteSize()} bytes: at most {MAX_MESSAGE_SIZE}"
    if options.HasField("feature_layer"):
        setup = options.feature_layer
        sides = (setup.resolution.x, setup.resolution.y, setup.minimap_resolution.x, setup.minimap_resolution.y)
        if not all(1 <= side <= MAX_SIDE for side in sides):
            return f"feature_layer: sides of {sides} pixels: each can have 1 to {MAX_SIDE}"
        if setup.HasField("width") and setup.width != CAMERA_WIDTH:
            return f"feature_layer: the camera is {CAMERA_WIDTH:g} wide and cannot be {setup.width:g}"
    return problem_of_render(options.render) if options.HasField("render") else None
