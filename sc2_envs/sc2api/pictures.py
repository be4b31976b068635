"""Rendered pictures, as the protocol's ImageData: the camera's view, and the whole map as a minimap.

They show what the picture for people shows (engine/pictures/picture.py), without its text: an approximation of the
game's own rendering, in colours of owners and shapes of unit types. Each pixel is where the feature layers of the same
size have it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sc2_envs.engine import Games, Interface
from sc2_envs.engine.camera import CAMERA_WIDTH
from sc2_envs.engine.pictures.canvas import GAS_COLOUR, LARGEST, MINERAL_COLOUR, SMOOTHING, Colour, Drawing, View
from sc2_envs.engine.pictures.picture import FRAME_COLOUR, Scene, draw_fog, draw_scene
from sc2_envs.engine.pictures.shapes import BEACON_COLOUR, OWNER_COLOURS
from sc2_envs.engine.units import BEACON, MINERAL_FIELD, MINIMAP_RADIUS, SHARD, VESPENE_GEYSER
from sc2_envs.sc2api.cropping import interface_of

MAX_SIDE = 1000
"""Of a picture, in pixels."""

_BITS = 24
_LEAST_MARK = 0.75  # radius of a unit on the minimap, in pixels
_MARK_COLOURS: dict[int, Colour] = {
    BEACON: BEACON_COLOUR,
    SHARD: MINERAL_COLOUR,
    MINERAL_FIELD: MINERAL_COLOUR,
    VESPENE_GEYSER: GAS_COLOUR,
}
"""Of what is nobody's, on the minimap; units have their owner's colour."""


def problem_of_render(setup: Any) -> str | None:
    """Why the pictures that a SpatialCameraSetup asks for cannot be drawn; None where they can."""
    sides = [getattr(size, axis) for size in (setup.resolution, setup.minimap_resolution) for axis in ("x", "y")]
    if not all(1 <= side <= MAX_SIDE for side in sides):
        return f"render: sides of {sides} pixels: each can have 1 to {MAX_SIDE}"
    if setup.HasField("width") and setup.width != CAMERA_WIDTH:
        return f"render: the camera is {CAMERA_WIDTH:g} wide and cannot be {setup.width:g}"
    return None


def write_render(games: Games, options: Any, render: Any) -> None:
    """Fill an ObservationRender with what the player sees.

    Args:
        games: the player's game, a batch of one.
        options: the player's InterfaceOptions; `render` names the sizes.
        render: the message.

    Raises:
        ValueError: for sizes that `problem_of_render` refuses.
    """
    setup = options.render
    problem = problem_of_render(setup)
    if problem is not None:
        raise ValueError(problem)
    scene = Scene.of(games.worlds[0], games.player)
    screen_size = setup.resolution.x, setup.resolution.y
    _write_image(render.map, draw_screen(scene, screen_size))
    minimap = draw_minimap(scene, interface_of(setup, games.map.name), screen_size[1] / screen_size[0])
    _write_image(render.minimap, minimap)


def _write_image(image: Any, pixels: NDArray[np.uint8]) -> None:
    image.size.y, image.size.x = pixels.shape[:2]
    image.bits_per_pixel = _BITS
    image.data = pixels.tobytes()


def draw_screen(scene: Scene, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Draw the camera's view.

    Args:
        scene: what the player sees.
        size: width and height in pixels.

    Returns:
        (height, width, 3) uint8, the upper row first.
    """
    width, height = size
    scale = width / CAMERA_WIDTH
    x, y = _camera(scene)
    drawing = _drawing(scene, View(x - CAMERA_WIDTH / 2, y + height / scale / 2, scale, width, height))
    draw_scene(drawing, scene)
    return drawing.pixels(size)


def draw_minimap(scene: Scene, interface: Interface, camera_aspect: float) -> NDArray[np.uint8]:
    """Draw the map, or a part of it: units as marks of their owner's colour, and the frame of the camera's view.

    Args:
        scene: what the player sees.
        interface: the minimap's size and what it shows; each axis has its own scale.
        camera_aspect: height of the camera's view over its width.

    Returns:
        (height, width, 3) uint8, the upper row first.
    """
    (width, height), area = interface.minimap_size, interface.minimap_area
    scale = max(width / area.width, height / area.height)
    view = View(area.left, area.top, scale, round(area.width * scale), round(area.height * scale))
    drawing = _drawing(scene, view)
    _mark_snapshots(drawing, scene)
    draw_fog(drawing, scene)
    for slot in scene.slots:
        _mark(drawing, scene.type(slot), int(scene.world["owner"][slot]), *scene.place(slot))
    x, y = _camera(scene)
    half_x, half_y = CAMERA_WIDTH / 2, CAMERA_WIDTH / 2 * camera_aspect
    drawing.rectangle(x - half_x, y - half_y, x + half_x, y + half_y, outline=FRAME_COLOUR, line=1 / drawing.scale)
    return drawing.pixels((width, height))


def _camera(scene: Scene) -> tuple[float, float]:
    """Centre of the player's view."""
    row = scene.player - 1
    return float(scene.world["camera_x"][row]), float(scene.world["camera_y"][row])


def _drawing(scene: Scene, view: View) -> Drawing:
    smoothing = max(1, min(SMOOTHING, LARGEST // max(view.width, view.height)))
    return Drawing(view, tuple(float(edge) for edge in scene.world["playable"]), smoothing)


def _mark_snapshots(drawing: Drawing, scene: Scene) -> None:
    """What the player remembers in the fog."""
    world, row = scene.world, scene.player - 1
    for index in range(int(world["snapshots"][row])):
        x, y = float(world["snapshot_x"][row, index]), float(world["snapshot_y"][row, index])
        owner = int(world["snapshot_owner"][row, index])
        _mark(drawing, int(world["snapshot_type"][row, index]), owner, x, y)


def _mark(drawing: Drawing, unit_type: int, owner: int, x: float, y: float) -> None:
    """A unit on the minimap, where that shows it at all."""
    if MINIMAP_RADIUS[unit_type] > 0.0:
        radius = max(float(MINIMAP_RADIUS[unit_type]), _LEAST_MARK / drawing.scale)
        drawing.disc(x, y, radius, fill=_MARK_COLOURS.get(unit_type, OWNER_COLOURS[owner]))
