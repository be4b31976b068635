"""A picture of a game for people: the whole playable area, units, health, selection and orders, drawn in software.

Nothing here is an observation of an agent; feature layers are in rendering.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sc2_envs.engine.abilities import ATTACK, PATROL, SCAN_MOVE
from sc2_envs.engine.units import HEALTH, NOTHING, RADIUS, SHIELDS, TABLE
from sc2_envs.engine.world import ENEMY, NEUTRAL, PLAYER

MARGIN = 1.0  # world units of ground shown beyond the playable area
SMALL, LARGER = 0.7, 1.3  # units of a radius below the first are drawn larger by the second
SMOOTHING = 3  # everything is drawn this many times as large, then made smaller
LOOPS_PER_SECOND = 22.4  # of a clock on the wall, at the game's speed "faster"

Colour = tuple[int, int, int]
Point = tuple[float, float]

OWNER_COLOURS: dict[int, Colour] = {PLAYER: (60, 130, 255), ENEMY: (226, 58, 48), NEUTRAL: (176, 182, 190)}
SELECTION_COLOUR: Colour = (110, 255, 120)
MOVE_COLOUR: Colour = (120, 255, 130)
ATTACK_COLOUR: Colour = (255, 96, 80)
PATROL_COLOUR: Colour = (255, 216, 96)
BEACON_COLOUR: Colour = (70, 226, 210)
GROUND_COLOUR: Colour = (70, 66, 60)
BEYOND_COLOUR: Colour = (30, 30, 34)
EDGE_COLOUR: Colour = (128, 120, 100)
BAR_COLOUR: Colour = (18, 20, 26)
TEXT_COLOUR: Colour = (226, 230, 236)


def draw_picture(world: np.void, map_name: str, score: int, width: int = 640) -> NDArray[np.uint8]:
    """Draw one game.

    Args:
        world: one world record.
        map_name: shown in the line of text, with the score and the time.
        score: points so far.
        width: of the picture in pixels, at least 64. The height follows from the shape of the playable area and is
            even, as video formats want it.

    Returns:
        (H, W, 3) uint8.

    Raises:
        ValueError: for a width below 64.
    """
    if width < 64:
        raise ValueError(f"a picture must be at least 64 pixels wide, not {width}")
    canvas = Canvas(tuple(float(edge) for edge in world["playable"]), width)
    # a game has few units: going through them in Python costs less than making the image smaller
    slots = [slot for slot in range(int(world["slots"])) if world["type"][slot] != NOTHING]
    slots.sort(key=lambda slot: -RADIUS[world["type"][slot]])
    flat = [slot for slot in slots if TABLE[world["type"][slot]].name.startswith("Beacon")]
    upright = [slot for slot in slots if slot not in flat]
    for slot in flat:
        draw_unit(canvas, world, slot)
    for slot in upright:
        draw_orders(canvas, world, slot)
    for slot in upright:
        draw_shadow(canvas, world, slot)
        draw_selection(canvas, world, slot)
    for slot in upright:
        draw_unit(canvas, world, slot)
    for slot in upright:
        draw_health(canvas, world, slot)
    game_loop = int(world["game_loop"])
    minutes, seconds = divmod(int(game_loop / LOOPS_PER_SECOND), 60)
    return canvas.finish(map_name, f"score {score}", f"{minutes}:{seconds:02d}   loop {game_loop}")


class Canvas:
    """A picture in the making: shapes in world units, on a bare map."""

    def __init__(self, playable: tuple[float, ...], width: int) -> None:
        left, bottom, right, top = playable
        self.width = width
        self.scale = width / (right - left + 2 * MARGIN)
        self.field_height = round((top - bottom + 2 * MARGIN) * self.scale)
        self.bar_height = max(14, width // 20)
        self.bar_height += (self.field_height + self.bar_height) % 2
        self.left = left - MARGIN
        self.top = top + MARGIN
        self.image = _ground(playable, width, self.field_height, self.scale).copy()
        # the mode lets colours with a fourth number, their opacity, shine through
        self.draw = ImageDraw.Draw(self.image, "RGBA")

    def at(self, x: float, y: float) -> Point:
        """Position in the enlarged image of a point of the world."""
        scale = self.scale * SMOOTHING
        return (x - self.left) * scale, (self.top - y) * scale

    def length(self, units: float) -> float:
        """Length in the enlarged image of a length in world units."""
        return units * self.scale * SMOOTHING

    def stroke(self, units: float) -> int:
        """Width of a line, never too thin to be seen."""
        return max(SMOOTHING, round(self.length(units)))

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
        self.draw.polygon(corners, fill=fill)
        if outline:
            self.draw.line([*corners, corners[0], corners[1]], fill=outline, width=self.stroke(line), joint="curve")

    def line(self, points: list[Point], fill: Any, line: float = 0.06) -> None:
        """A line through points."""
        self.draw.line([self.at(*point) for point in points], fill=fill, width=self.stroke(line), joint="curve")

    def rectangle(self, left: float, bottom: float, right: float, top: float, fill: Any) -> None:
        """A filled rectangle."""
        self.draw.rectangle((*self.at(left, top), *self.at(right, bottom)), fill=fill)

    def finish(self, left: str, middle: str, right: str) -> NDArray[np.uint8]:
        """The picture at its final size, with a line of text below."""
        picture = Image.new("RGB", (self.width, self.field_height + self.bar_height), BAR_COLOUR)
        picture.paste(self.image.reduce(SMOOTHING))
        draw = ImageDraw.Draw(picture)
        draw.line((0, self.field_height, self.width, self.field_height), fill=EDGE_COLOUR)
        font = _font(round(self.bar_height * 0.5))
        middle_row = self.field_height + self.bar_height / 2
        pad = self.bar_height * 0.4
        draw.text((pad, middle_row), left, TEXT_COLOUR, font, anchor="lm")
        draw.text((self.width / 2, middle_row), middle, SELECTION_COLOUR, font, anchor="mm")
        draw.text((self.width - pad, middle_row), right, TEXT_COLOUR, font, anchor="rm")
        return np.array(picture)


@lru_cache(maxsize=8)
def _font(size: int) -> Any:
    return ImageFont.load_default(size)


@lru_cache(maxsize=4)
def _ground(playable: tuple[float, ...], width: int, height: int, scale: float) -> Image.Image:
    """The bare map, enlarged: rough ground with a faint grid of its cells, dark beyond the playable area."""
    left, bottom, right, top = playable
    size = (width * SMOOTHING, height * SMOOTHING)
    random = np.random.default_rng(4)
    roughness = np.zeros((height, width))
    for grain, strength in ((2.0, 4.0), (0.6, 3.0), (0.08, 2.5)):  # of blotches, lumps and grains in world units
        shape = (math.ceil(height / (grain * scale)), math.ceil(width / (grain * scale)))
        coarse = Image.fromarray(random.normal(size=shape).astype(np.float32))
        roughness += strength * np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC))
    colours = np.array(GROUND_COLOUR) + roughness[..., None] * np.array([1.0, 0.95, 0.8])
    ground = Image.fromarray(np.clip(colours, 0, 255).astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)

    unit = scale * SMOOTHING
    box = [MARGIN * unit, MARGIN * unit, (right - left + MARGIN) * unit, (top - bottom + MARGIN) * unit]
    draw = ImageDraw.Draw(ground, "RGBA")
    for x in range(math.ceil(left), math.floor(right) + 1):
        column = (x - left + MARGIN) * unit
        draw.line((column, box[1], column, box[3]), fill=(255, 255, 255, 14), width=SMOOTHING)
    for y in range(math.ceil(bottom), math.floor(top) + 1):
        row = (top - y + MARGIN) * unit
        draw.line((box[0], row, box[2], row), fill=(255, 255, 255, 14), width=SMOOTHING)

    within = Image.new("L", size, 0)
    ImageDraw.Draw(within).rectangle(box, fill=255)
    dark = Image.blend(ground, Image.new("RGB", size, BEYOND_COLOUR), 0.75)
    picture = Image.composite(ground, dark, within)
    ImageDraw.Draw(picture).rectangle(box, outline=EDGE_COLOUR, width=2 * SMOOTHING)
    return picture


# --- what belongs to a unit ---


def drawn_radius(unit_type: int) -> float:
    """A unit's radius in the picture: small ones are drawn larger than they are, or their shape could not be seen."""
    radius = float(RADIUS[unit_type])
    return radius * LARGER if radius < SMALL else radius


def draw_shadow(canvas: Canvas, world: np.void, slot: int) -> None:
    """A soft shadow to the lower right."""
    radius = drawn_radius(world["type"][slot])
    x, y = float(world["x"][slot]), float(world["y"][slot])
    for size in (1.0, 0.85, 0.7):
        canvas.disc(x + 0.25 * radius, y - 0.3 * radius, size * radius, fill=(0, 0, 0, 46))


def draw_selection(canvas: Canvas, world: np.void, slot: int) -> None:
    """A ring round each unit that player 1 has selected."""
    if int(world["selected"][slot]) >> (PLAYER - 1) & 1:
        radius = drawn_radius(world["type"][slot]) + 0.2
        x, y = float(world["x"][slot]), float(world["y"][slot])
        canvas.disc(x, y, radius, fill=(*SELECTION_COLOUR, 40), outline=(*SELECTION_COLOUR, 255), line=0.08)


def draw_orders(canvas: Canvas, world: np.void, slot: int) -> None:
    """A line from a unit to where its orders lead it, one after another."""
    here = (float(world["x"][slot]), float(world["y"][slot]))
    for order in range(int(world["order_count"][slot])):
        there = (float(world["order_x"][slot, order]), float(world["order_y"][slot, order]))
        tag = int(world["order_target"][slot, order])
        if tag:
            target = np.flatnonzero((world["tag"] == tag) & (world["type"] != NOTHING))
            if len(target):
                there = (float(world["x"][target[0]]), float(world["y"][target[0]]))
        ability = int(world["order_ability"][slot, order])
        colour = {ATTACK: ATTACK_COLOUR, SCAN_MOVE: ATTACK_COLOUR, PATROL: PATROL_COLOUR}.get(ability, MOVE_COLOUR)
        canvas.line([here, there], fill=(*colour, 150), line=0.06)
        canvas.disc(*there, 0.22, outline=(*colour, 220), line=0.06)
        canvas.disc(*there, 0.08, fill=(*colour, 220))
        here = there


def draw_health(canvas: Canvas, world: np.void, slot: int) -> None:
    """A bar of health above a damaged unit, with one of shields above that."""
    unit_type = int(world["type"][slot])
    x, y = float(world["x"][slot]), float(world["y"][slot])
    radius = drawn_radius(unit_type)
    half = max(radius, 0.45)
    bottom = y + radius + 0.2
    bars: list[tuple[float, Colour | None]] = [(float(world["health"][slot]) / float(HEALTH[unit_type]), None)]
    if SHIELDS[unit_type] > 0:
        bars.append((float(world["shields"][slot]) / float(SHIELDS[unit_type]), (110, 180, 255)))
    if all(share >= 1.0 for share, _ in bars):
        return
    for share, colour in bars:
        share = min(max(share, 0.0), 1.0)
        if colour is None:
            colour = (80, 220, 90) if share > 2 / 3 else (240, 200, 60) if share > 1 / 3 else (230, 70, 50)
        canvas.rectangle(x - half - 0.04, bottom - 0.04, x + half + 0.04, bottom + 0.17, fill=(0, 0, 0, 210))
        if share > 0.0:
            canvas.rectangle(x - half, bottom, x - half + 2 * half * share, bottom + 0.13, fill=colour)
        bottom += 0.2


# --- shapes ---


def shade(colour: Colour, factor: float) -> Colour:
    """A darker (below 1) or lighter (above 1) colour."""
    if factor <= 1.0:
        red, green, blue = (round(part * factor) for part in colour)
    else:
        red, green, blue = (round(part + (255 - part) * (factor - 1.0)) for part in colour)
    return red, green, blue


class Body:
    """A unit's own coordinates: the first along its facing, the second to its left, in its radii."""

    def __init__(self, x: float, y: float, radius: float, facing: float) -> None:
        self.x, self.y, self.radius = x, y, radius
        self.cos, self.sin = math.cos(facing), math.sin(facing)

    def at(self, ahead: float, left: float) -> Point:
        """A point of the world."""
        ahead, left = ahead * self.radius, left * self.radius
        return self.x + ahead * self.cos - left * self.sin, self.y + ahead * self.sin + left * self.cos

    def points(self, *points: Point) -> list[Point]:
        """Points of the world."""
        return [self.at(*point) for point in points]

    def regular(self, corners: int, size: float = 1.0, turn: float = 0.0) -> list[Point]:
        """Corners of a regular polygon."""
        angles = [turn + 2 * math.pi * corner / corners for corner in range(corners)]
        return [self.at(size * math.cos(angle), size * math.sin(angle)) for angle in angles]


def draw_unit(canvas: Canvas, world: np.void, slot: int) -> None:
    """Draw a unit in its owner's colour, in the shape of its type."""
    unit = TABLE[world["type"][slot]]
    radius = drawn_radius(world["type"][slot])
    body = Body(float(world["x"][slot]), float(world["y"][slot]), radius, float(world["facing"][slot]))
    colour = OWNER_COLOURS[int(world["owner"][slot])]
    shape = SHAPES.get(unit.name)
    if shape is None:
        shape = _structure if unit.structure else _worker if unit.worker else _soldier
    shape(canvas, body, colour, int(world["tag"][slot]))


def _marine(canvas: Canvas, body: Body, colour: Colour, tag: int) -> None:
    dark = shade(colour, 0.35)
    canvas.line(body.points((0.1, -0.75), (1.55, -0.42)), fill=(22, 24, 28), line=0.15)  # rifle
    for side in (-1, 1):
        canvas.disc(*body.at(-0.05, 0.72 * side), 0.46 * body.radius, fill=shade(colour, 0.8), outline=dark, line=0.04)
    canvas.disc(body.x, body.y, 0.72 * body.radius, fill=colour, outline=dark, line=0.05)
    canvas.disc(*body.at(0.12, 0.0), 0.4 * body.radius, fill=shade(colour, 1.35))
    canvas.line(body.points((0.38, -0.26), (0.46, 0.0), (0.38, 0.26)), fill=(255, 214, 90), line=0.08)  # visor


def _beacon(canvas: Canvas, body: Body, colour: Colour, tag: int) -> None:
    colour = BEACON_COLOUR
    canvas.disc(body.x, body.y, body.radius, fill=(*colour, 34))
    canvas.disc(body.x, body.y, body.radius, outline=(*colour, 235), line=0.12)
    canvas.disc(body.x, body.y, 0.8 * body.radius, outline=(*colour, 110), line=0.05)
    for quarter in range(4):  # arrow heads that point to the middle
        arrow = Body(body.x, body.y, body.radius, quarter * math.pi / 2 + math.pi / 4)
        canvas.polygon(arrow.points((0.42, 0.0), (0.66, 0.16), (0.6, 0.0), (0.66, -0.16)), fill=(*colour, 200))
    canvas.disc(body.x, body.y, 0.1 * body.radius, fill=(*colour, 235))


def _crystals(canvas: Canvas, body: Body, colour: Colour, tag: int) -> None:
    light, dark = (150, 226, 255), (38, 112, 196)
    turn = tag * 2.4  # so that they do not all look alike
    for place, lean, size in ((0.42, 2.2, 0.62), (0.38, -2.2, 0.56), (0.0, 0.0, 0.95)):
        crystal = Body(
            body.x + place * body.radius * math.cos(turn + lean),
            body.y + place * body.radius * math.sin(turn + lean),
            size * body.radius,
            math.pi / 2 + 0.5 * math.sin(turn + lean),
        )
        tip, left, right, foot = (1.0, 0.0), (0.25, 0.5), (0.25, -0.5), (-0.8, 0.0)
        middle = (0.05, 0.0)
        canvas.polygon(crystal.points(tip, left, foot, right), fill=dark)
        canvas.polygon(crystal.points(tip, left, middle), fill=light)
        canvas.polygon(crystal.points(tip, middle, right), fill=shade(dark, 1.35))
        canvas.polygon(crystal.points(left, foot, middle), fill=shade(dark, 1.15))
        canvas.polygon(crystal.points(tip, left, foot, right), fill=None, outline=(16, 48, 92), line=0.04)


def _geyser(canvas: Canvas, body: Body, colour: Colour, tag: int) -> None:
    canvas.polygon(body.regular(9, 1.0), fill=(84, 80, 72), outline=(36, 34, 30), line=0.08)
    for size, green in ((0.62, (36, 92, 60)), (0.4, (70, 190, 110)), (0.2, (170, 255, 190))):
        canvas.disc(body.x, body.y, size * body.radius, fill=green)


def _zergling(canvas: Canvas, body: Body, colour: Colour, tag: int) -> None:
    dark = shade(colour, 0.35)
    for side in (-1, 1):
        canvas.line(body.points((0.2, 0.3 * side), (0.75, 0.95 * side), (1.2, 0.5 * side)), fill=dark, line=0.08)
    hull = body.points((1.0, 0.0), (0.3, 0.5), (-0.9, 0.3), (-1.1, 0.0), (-0.9, -0.3), (0.3, -0.5))
    canvas.polygon(hull, fill=colour, outline=dark, line=0.05)


def _baneling(canvas: Canvas, body: Body, colour: Colour, tag: int) -> None:
    dark = shade(colour, 0.35)
    canvas.disc(body.x, body.y, body.radius, fill=colour, outline=dark, line=0.05)
    for ahead, left, size in ((-0.3, 0.35, 0.34), (-0.35, -0.3, 0.3), (0.25, 0.0, 0.36)):
        canvas.disc(*body.at(ahead, left), size * body.radius, fill=(150, 240, 70), outline=dark, line=0.04)


def _roach(canvas: Canvas, body: Body, colour: Colour, tag: int) -> None:
    dark = shade(colour, 0.35)
    for side in (-1, 1):
        canvas.line(body.points((0.4, 0.4 * side), (1.0, 0.6 * side)), fill=dark, line=0.12)
    hull = body.points((0.7, 0.5), (0.0, 0.85), (-0.8, 0.6), (-1.0, 0.0), (-0.8, -0.6), (0.0, -0.85), (0.7, -0.5))
    canvas.polygon(hull, fill=colour, outline=dark, line=0.06)
    canvas.line(body.points((0.5, 0.0), (-0.8, 0.0)), fill=dark, line=0.06)


def _soldier(canvas: Canvas, body: Body, colour: Colour, tag: int) -> None:
    canvas.polygon(body.regular(3, 1.15), fill=colour, outline=shade(colour, 0.35))


def _worker(canvas: Canvas, body: Body, colour: Colour, tag: int) -> None:
    dark = shade(colour, 0.35)
    for side in (-1, 1):
        canvas.line(body.points((0.3, 0.5 * side), (1.1, 0.35 * side)), fill=(40, 42, 46), line=0.1)
    canvas.polygon(body.regular(4, 1.1, math.pi / 4), fill=colour, outline=dark)
    canvas.disc(*body.at(0.3, 0.0), 0.3 * body.radius, fill=(255, 214, 90))


def _structure(canvas: Canvas, body: Body, colour: Colour, tag: int) -> None:
    upright = Body(body.x, body.y, body.radius, math.pi / 8)
    dark = shade(colour, 0.35)
    canvas.polygon(upright.regular(8, 1.0), fill=(92, 96, 104), outline=dark, line=0.1)
    canvas.polygon(upright.regular(8, 0.7), fill=colour, outline=dark, line=0.06)
    canvas.disc(body.x, body.y, 0.25 * body.radius, fill=shade(colour, 1.4))


SHAPES: dict[str, Callable[[Canvas, Body, Colour, int], None]] = {
    "Marine": _marine,
    "Beacon_Terran": _beacon,
    "NaturalMinerals": _crystals,
    "MineralField": _crystals,
    "VespeneGeyser": _geyser,
    "Zergling": _zergling,
    "Baneling": _baneling,
    "Roach": _roach,
}
"""How the types look; others are drawn as soldiers, workers or structures."""
