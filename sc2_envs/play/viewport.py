"""Where things are: on the picture, in the window, on the feature screen and on the minimap.

A window's pixel becomes a point of the world by the picture that is shown (`Viewport`), and that a pixel of the feature
screen by the camera's rules (`FeatureCamera`). `Layout` divides the window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from sc2_envs.engine.camera import CAMERA_WIDTH
from sc2_envs.engine.pictures.canvas import Field, Point
from sc2_envs.engine.world import MAP_SIZE

Pixel = tuple[int, int]
"""(column, row)."""


class Box(NamedTuple):
    """A rectangle of pixels."""

    left: int
    top: int
    width: int
    height: int

    def holds(self, pixel: Pixel) -> bool:
        """Whether a pixel lies inside."""
        column, row = pixel
        return 0 <= column - self.left < self.width and 0 <= row - self.top < self.height

    def share(self, pixel: Pixel) -> tuple[float, float]:
        """Where the centre of a pixel lies, as shares of width and height; of the nearest pixel inside."""
        column = min(max(pixel[0], self.left), self.left + self.width - 1)
        row = min(max(pixel[1], self.top), self.top + self.height - 1)
        return (column + 0.5 - self.left) / self.width, (row + 0.5 - self.top) / self.height

    def fit(self, width: int, height: int) -> Box:
        """The largest box inside with the shape of width x height, in the middle."""
        scale = min(self.width / width, self.height / height)
        inner_width, inner_height = max(1, int(width * scale)), max(1, int(height * scale))
        left, top = self.left + (self.width - inner_width) // 2, self.top + (self.height - inner_height) // 2
        return Box(left, top, inner_width, inner_height)


@dataclass(frozen=True)
class FeatureCamera:
    """Where points of the world are on the feature screen and on the minimap, by the rules of engine/camera.py."""

    x: float
    y: float
    screen_size: tuple[int, int]
    minimap_size: tuple[int, int]

    @property
    def reach(self) -> tuple[float, float]:
        """World units from the screen's middle to its left and right side, and to its upper and lower one."""
        width, height = self.screen_size
        return CAMERA_WIDTH / 2, CAMERA_WIDTH / 2 * height / width

    def screen_pixel(self, point: Point, clamp: bool = False) -> Pixel | None:
        """The screen's pixel that holds a point; None beyond the screen, or with `clamp` the nearest one."""
        width, height = self.screen_size
        scale = width / CAMERA_WIDTH
        column = math.floor(width / 2 + (point[0] - self.x) * scale)
        row = math.floor(height / 2 - (point[1] - self.y) * scale)
        inside = min(max(column, 0), width - 1), min(max(row, 0), height - 1)
        # a picture's pixel at the edge may reach over it
        if clamp or max(abs(inside[0] - column), abs(inside[1] - row)) <= 1:
            return inside
        return None

    def minimap_pixel(self, point: Point) -> Pixel:
        """The minimap's pixel that holds a point, or the nearest one."""
        width, height = self.minimap_size
        column = math.floor(point[0] * width / MAP_SIZE)
        row = math.floor((MAP_SIZE - point[1]) * height / MAP_SIZE)
        return min(max(column, 0), width - 1), min(max(row, 0), height - 1)


@dataclass(frozen=True)
class Viewport:
    """The part of the picture that the camera shows, and where it stands in the window."""

    source: Box
    """pixels of the picture"""
    target: Box
    """pixels of the window"""
    left: float
    """world x of the picture's left side"""
    top: float
    """world y of its upper side"""
    scale: float
    """pixels of the picture a world unit"""

    @classmethod
    def of(cls, field: Field, camera: FeatureCamera, area: Box) -> Viewport:
        """The viewport that fills an area of the window."""
        reach_x, reach_y = camera.reach
        left = max(0, round((camera.x - reach_x - field.left) * field.scale))
        right = min(field.width, round((camera.x + reach_x - field.left) * field.scale))
        top = max(0, round((field.top - camera.y - reach_y) * field.scale))
        bottom = min(field.field_height, round((field.top - camera.y + reach_y) * field.scale))
        source = Box(left, top, right - left, bottom - top)
        return cls(source, area.fit(source.width, source.height), field.left, field.top, field.scale)

    def point(self, pixel: Pixel) -> Point:
        """World position of the centre of a window's pixel, or of the nearest one that shows the world."""
        across, down = self.target.share(pixel)
        column = self.source.left + across * self.source.width
        row = self.source.top + down * self.source.height
        return self.left + column / self.scale, self.top - row / self.scale


@dataclass(frozen=True)
class Layout:
    """How the window is divided: the game, and a panel at the right with the minimap in its lower corner."""

    area: Box
    panel: Box
    minimap: Box

    PANEL_WIDTH = 320
    PAD = 12

    @classmethod
    def of(cls, width: int, height: int) -> Layout:
        """The layout of a window of this size."""
        panel_width = min(cls.PANEL_WIDTH, width // 2)
        side = max(1, min(panel_width - 2 * cls.PAD, height // 3))
        return cls(
            Box(0, 0, width - panel_width, height),
            Box(width - panel_width, 0, panel_width, height),
            Box(width - cls.PAD - side, height - cls.PAD - side, side, side),
        )

    def minimap_point(self, pixel: Pixel) -> Point:
        """World position of the centre of a window's pixel on the minimap."""
        across, down = self.minimap.share(pixel)
        return across * MAP_SIZE, (1.0 - down) * MAP_SIZE
