"""Maps that a client asks to have cropped to their playable area: on its minimap, in its world coordinates, or both.

A cropped minimap has square pixels; the playable area begins in its upper left corner and fills one of its sides
(renderer_human.py of pysc2 asserts it). What the picture has room for besides is of the map beyond.

With raw_crop_to_playable_area the positions of "raw.proto" are "relative to the playable area. The map_size and
playable_area will be the diagonal of the real playable area" (sc2api.proto). Clients know no other positions then, so
those of queries and of debug commands are taken in the same way [?].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray
from s2clientprotocol import common_pb2

from sc2_envs.engine import Interface
from sc2_envs.engine.camera import WHOLE_MAP, MinimapArea
from sc2_envs.engine.world import MAP_SIZE
from sc2_envs.sc2api.maps import bounds

_POSITIONS = {common_pb2.Point.DESCRIPTOR.full_name, common_pb2.Point2D.DESCRIPTOR.full_name}


def interface_of(setup: Any, map_name: str) -> Interface:
    """Sizes of the screen and the minimap in a SpatialCameraSetup, and what the minimap shows of a map."""
    size = setup.minimap_resolution.x, setup.minimap_resolution.y
    area = playable_area(map_name, size) if setup.crop_to_playable_area else WHOLE_MAP
    return Interface((setup.resolution.x, setup.resolution.y), size, area)


def playable_area(map_name: str, size: tuple[int, int]) -> MinimapArea:
    """What a minimap of so many pixels shows that is cropped to a map's playable area."""
    (left, bottom), (right, top) = bounds(map_name)
    pixel = max((right - left) / size[0], (top - bottom) / size[1])  # world units of a side
    return MinimapArea(float(left), float(top), size[0] * pixel, size[1] * pixel)


def on_minimap(interface: Interface, x: float, y: float) -> tuple[float, float]:
    """Where a point of the world lies on the minimap, in pixels from the upper left corner, not rounded."""
    (width, height), area = interface.minimap_size, interface.minimap_area
    return (x - area.left) * width / area.width, (area.top - y) * height / area.height


def from_minimap(interface: Interface, column: float, row: float) -> tuple[float, float]:
    """The point of the world that lies so many pixels from the minimap's upper left corner."""
    (width, height), area = interface.minimap_size, interface.minimap_area
    return area.left + column * area.width / width, area.top - row * area.height / height


def crop_grid(grid: NDArray[np.int32], map_name: str) -> NDArray[np.int32]:
    """The playable area's part of a map's grid (64, 64), whose first row is the top one."""
    (left, bottom), (right, top) = bounds(map_name)
    return grid[MAP_SIZE - top : MAP_SIZE - bottom, left:right]


def move_positions(message: Message, x: float, y: float) -> None:
    """Add to all positions in a message, in place; those in pixels stay as they are."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in (value,) if isinstance(value, Message) else value:
            if field.message_type.full_name in _POSITIONS:
                part.x += x
                part.y += y
            else:
                move_positions(part, x, y)
