"""What pictures are drawn on: a part of the map, and shapes in world units on it.

A picture for people shows the playable area with a margin, and a line of text below it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sc2_envs.engine.world import MAP_SIZE

MARGIN = 1.0  # world units of ground shown beyond the playable area
SMOOTHING = 3  # everything is drawn this many times as large, then made smaller ...
LARGEST = 1024  # ... but pictures of many pixels only as many times as leaves them this large, and at least once
MIN_WIDTH = 64  # of a picture, in pixels

Colour = tuple[int, int, int]
Point = tuple[float, float]

GROUND_COLOUR: Colour = (70, 66, 60)
BEYOND_COLOUR: Colour = (30, 30, 34)
EDGE_COLOUR: Colour = (128, 120, 100)
BAR_COLOUR: Colour = (18, 20, 26)
TEXT_COLOUR: Colour = (226, 230, 236)
SCORE_COLOUR: Colour = (110, 255, 120)
MINERAL_COLOUR: Colour = (104, 190, 255)
GAS_COLOUR: Colour = (96, 220, 120)
SUPPLY_COLOUR: Colour = (240, 206, 110)

FOG_COLOUR: Colour = (8, 9, 12)
# How much of the ground's light the fog takes: where it is hidden, was seen, is visible.
DARKNESS = np.array([0.8, 0.5, 0.0])


class Caption(NamedTuple):
    """The line of text."""

    name: str
    score: str
    time: str
    resources: tuple[str, str, str] | None = None
    """minerals, vespene and supply, where the game has any"""


class View(NamedTuple):
    """Which part of the world a picture shows; its pixels are square."""

    left: float
    """world x of its left side"""
    top: float
    """world y of its upper side"""
    scale: float
    """pixels a world unit"""
    width: int
    """in pixels"""
    height: int


class Field:
    """Where a picture shows the world: the playable area and MARGIN round it, above the line of text.

    Attributes:
        width: of the picture in pixels.
        scale: pixels a world unit.
        field_height: pixels of the world, from the picture's top.
        bar_height: pixels of the line of text below.
        left: world x of the picture's left side.
        top: world y of its upper side.
    """

    def __init__(self, playable: tuple[float, ...], width: int) -> None:
        if width < MIN_WIDTH:
            raise ValueError(f"a picture must be at least {MIN_WIDTH} pixels wide, not {width}")
        left, bottom, right, top = playable
        self.width = width
        self.scale = width / (right - left + 2 * MARGIN)
        self.field_height = round((top - bottom + 2 * MARGIN) * self.scale)
        self.bar_height = max(14, width // 20)
        # an even height, as video formats want it
        self.bar_height += (self.field_height + self.bar_height) % 2
        self.left = left - MARGIN
        self.top = top + MARGIN

    @property
    def height(self) -> int:
        """Of the picture in pixels."""
        return self.field_height + self.bar_height

    @property
    def view(self) -> View:
        """The part above the line of text."""
        return View(self.left, self.top, self.scale, self.width, self.field_height)


class Drawing:
    """A picture in the making: shapes in world units, on a bare map.

    Args:
        view: what it shows.
        playable: left, bottom, right and top of the playable area.
        smoothing: how many times as large everything is drawn, at least 1.
    """

    def __init__(self, view: View, playable: tuple[float, ...], smoothing: int = SMOOTHING) -> None:
        self.left, self.top, self.scale, self.width, self.field_height = view
        self.smoothing = smoothing
        self.thinnest = 1  # width of a line at least, in pixels of the enlarged picture
        self.image = _ground(view, playable, smoothing).copy()
        # the mode lets colours with a fourth number, their opacity, shine through
        self.draw = ImageDraw.Draw(self.image, "RGBA")

    def at(self, x: float, y: float) -> Point:
        """Position in the enlarged image of a point of the world."""
        scale = self.scale * self.smoothing
        return (x - self.left) * scale, (self.top - y) * scale

    def length(self, units: float) -> float:
        """Length in the enlarged image of a length in world units."""
        return units * self.scale * self.smoothing

    def stroke(self, units: float) -> int:
        """Width of a line in the enlarged image."""
        return max(self.thinnest, round(self.length(units)))

    def disc(
        self, x: float, y: float, radius: float, fill: Any = None, outline: Any = None, line: float = 0.06
    ) -> None:
        """A disc, a ring, or both."""
        column, row = self.at(x, y)
        size = self.length(radius)
        box = (column - size, row - size, column + size, row + size)
        self.draw.ellipse(box, fill=fill, outline=outline, width=self.stroke(line) if outline else 0)

    def polygon(self, points: list[Point], fill: Any, outline: Any = None, line: float = 0.05) -> None:
        """A filled polygon with a line round it."""
        corners = [self.at(*point) for point in points]
        if fill:
            self.draw.polygon(corners, fill=fill)
        if outline:
            self.draw.line([*corners, corners[0], corners[1]], fill=outline, width=self.stroke(line), joint="curve")

    def line(self, points: list[Point], fill: Any, line: float = 0.06) -> None:
        """A line through points."""
        self.draw.line([self.at(*point) for point in points], fill=fill, width=self.stroke(line), joint="curve")

    def rectangle(
        self,
        left: float,
        bottom: float,
        right: float,
        top: float,
        fill: Any = None,
        outline: Any = None,
        line: float = 0.05,
    ) -> None:
        """A rectangle, filled, with a line along the inside of its edge, or both."""
        box = (*self.at(left, top), *self.at(right, bottom))
        self.draw.rectangle(box, fill=fill, outline=outline, width=self.stroke(line) if outline else 0)

    def bar(self, left: float, bottom: float, width: float, share: float, colour: Any) -> None:
        """A bar that is filled from the left, BAR_HEIGHT high with its dark edge."""
        share = min(max(share, 0.0), 1.0)
        edge = BAR_EDGE
        self.rectangle(left - edge, bottom - edge, left + width + edge, bottom + BAR_FILL + edge, fill=(0, 0, 0, 210))
        if share > 0.0:
            self.rectangle(left, bottom, left + width * share, bottom + BAR_FILL, fill=colour)

    def fog(self, visibility: NDArray[np.uint8]) -> None:
        """Darken what is hidden (0) and what was seen (1); visibility: (64, 64), cell [y, x]."""
        darkness = np.rint(255 * DARKNESS[np.minimum(visibility, 2)]).astype(np.uint8)[::-1]
        view = View(self.left, self.top, self.scale, self.width, self.field_height)
        beyond = round(255 * DARKNESS[0])
        mask = _crop(Image.fromarray(darkness), view, self.smoothing, beyond, Image.Resampling.BILINEAR)
        self.image.paste(Image.new("RGB", self.image.size, FOG_COLOUR), mask=mask)

    def pixels(self, size: tuple[int, int]) -> NDArray[np.uint8]:
        """The picture at its final size, (height, width, 3); another shape than the view's stretches it."""
        return np.array(self.image.resize(size, Image.Resampling.BOX))


class Canvas(Drawing):
    """A picture for people in the making.

    Args:
        playable: left, bottom, right and top of the playable area.
        width: of the picture in pixels, at least MIN_WIDTH.
    """

    def __init__(self, playable: tuple[float, ...], width: int) -> None:
        field = Field(playable, width)
        super().__init__(field.view, playable)
        self.thinnest = self.smoothing  # people are to see every line
        self.bar_height, self.height = field.bar_height, field.height

    def finish(self, caption: Caption) -> NDArray[np.uint8]:
        """The picture at its final size, with a line of text below."""
        picture = Image.new("RGB", (self.width, self.height), BAR_COLOUR)
        picture.paste(self.image.reduce(SMOOTHING))
        draw = ImageDraw.Draw(picture)
        draw.line((0, self.field_height, self.width, self.field_height), fill=EDGE_COLOUR)
        font = _font(round(self.bar_height * 0.5))
        row = self.field_height + self.bar_height / 2
        pad = self.bar_height * 0.4
        draw.text((pad, row), caption.name, TEXT_COLOUR, font, anchor="lm")
        draw.text((self.width - pad, row), caption.time, TEXT_COLOUR, font, anchor="rm")
        if caption.resources is None:
            draw.text((self.width / 2, row), caption.score, SCORE_COLOUR, font, anchor="mm")
        else:
            draw.text((0.375 * self.width, row), caption.score, SCORE_COLOUR, font, anchor="mm")
            for place, text, icon in zip((0.48, 0.59, 0.7), caption.resources, _ICONS, strict=True):
                icon(draw, place * self.width, row, 0.22 * self.bar_height)
                draw.text((place * self.width + 0.35 * self.bar_height, row), text, TEXT_COLOUR, font, anchor="lm")
        return np.array(picture)


BAR_FILL, BAR_EDGE = 0.13, 0.04  # heights in world units


def _mineral_icon(draw: ImageDraw.ImageDraw, x: float, y: float, size: float) -> None:
    draw.polygon([(x, y - size), (x + 0.7 * size, y), (x, y + size), (x - 0.7 * size, y)], fill=MINERAL_COLOUR)


def _gas_icon(draw: ImageDraw.ImageDraw, x: float, y: float, size: float) -> None:
    size *= 0.8
    draw.ellipse((x - size, y - size, x + size, y + size), fill=GAS_COLOUR)


def _supply_icon(draw: ImageDraw.ImageDraw, x: float, y: float, size: float) -> None:
    size *= 0.85
    roof = [(x - size, y - 0.1 * size), (x, y - size), (x + size, y - 0.1 * size)]
    draw.polygon([*roof, (x + size, y + size), (x - size, y + size)], fill=SUPPLY_COLOUR)


_ICONS = (_mineral_icon, _gas_icon, _supply_icon)


@lru_cache(maxsize=8)
def _font(size: int) -> Any:
    return ImageFont.load_default(size)


@lru_cache(maxsize=8)
def _ground(view: View, playable: tuple[float, ...], smoothing: int) -> Image.Image:
    """The bare map, enlarged: rough ground with a faint grid of its cells, dark beyond the playable area."""
    left, bottom, right, top = playable
    ground = _crop(_rough_ground(), view, smoothing, BEYOND_COLOUR, Image.Resampling.BICUBIC)

    unit = view.scale * smoothing
    box = [(left - view.left) * unit, (view.top - top) * unit, (right - view.left) * unit, (view.top - bottom) * unit]
    draw = ImageDraw.Draw(ground, "RGBA")
    for x in range(math.ceil(left), math.floor(right) + 1):
        column = (x - view.left) * unit
        draw.line((column, box[1], column, box[3]), fill=(255, 255, 255, 14), width=smoothing)
    for y in range(math.ceil(bottom), math.floor(top) + 1):
        row = (view.top - y) * unit
        draw.line((box[0], row, box[2], row), fill=(255, 255, 255, 14), width=smoothing)

    within = Image.new("L", ground.size, 0)
    ImageDraw.Draw(within).rectangle(box, fill=255)
    dark = Image.blend(ground, Image.new("RGB", ground.size, BEYOND_COLOUR), 0.75)
    picture = Image.composite(ground, dark, within)
    edge = min(max(round(EDGE * view.scale), 1), 2)
    ImageDraw.Draw(picture).rectangle(box, outline=EDGE_COLOUR, width=edge * smoothing)
    return picture


EDGE = 0.1  # thickness of the playable area's edge in world units, but one or two pixels
GRAIN_SCALE = 24  # pixels a world unit of the picture of the rough ground


@lru_cache(maxsize=1)
def _rough_ground() -> Image.Image:
    """Rough ground as large as the map, the same for all maps."""
    side = MAP_SIZE * GRAIN_SCALE
    random = np.random.default_rng(4)
    roughness = np.zeros((side, side), np.float32)
    for grain, strength in ((2.0, 4.0), (0.6, 3.0), (0.08, 2.5)):  # of blotches, lumps and grains in world units
        grains = math.ceil(MAP_SIZE / grain)
        coarse = Image.fromarray(random.normal(size=(grains, grains)).astype(np.float32))
        roughness += strength * np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC))
    colours = np.array(GROUND_COLOUR, np.float32) + roughness[..., None] * np.array([1.0, 0.95, 0.8], np.float32)
    return Image.fromarray(np.clip(colours, 0, 255).astype(np.uint8))


def _crop(whole: Image.Image, view: View, smoothing: int, beyond: Any, resampling: Image.Resampling) -> Image.Image:
    """What a view shows of a picture of the whole map, enlarged; where there is no map: `beyond`."""
    size = view.width * smoothing, view.height * smoothing
    unit = view.scale * smoothing
    # the columns and rows that lie on the map
    first_column = max(0, math.ceil(-view.left * unit))
    end_column = min(size[0], math.floor((MAP_SIZE - view.left) * unit))
    first_row = max(0, math.ceil((view.top - MAP_SIZE) * unit))
    end_row = min(size[1], math.floor(view.top * unit))
    part = Image.new(whole.mode, size, beyond)
    if first_column >= end_column or first_row >= end_row:
        return part
    limit = whole.width
    scale = limit / MAP_SIZE
    edges = (
        (view.left + first_column / unit) * scale,
        (MAP_SIZE - view.top + first_row / unit) * scale,
        (view.left + end_column / unit) * scale,
        (MAP_SIZE - view.top + end_row / unit) * scale,
    )
    left, upper, right, lower = (min(max(edge, 0.0), limit) for edge in edges)  # rounding must not lead beyond it
    shown_size = end_column - first_column, end_row - first_row
    shown = whole.resize(shown_size, resampling, (left, upper, right, lower))
    part.paste(shown, (first_column, first_row))
    return part
