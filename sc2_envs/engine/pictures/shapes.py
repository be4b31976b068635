"""How the unit types look in a picture."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from sc2_envs.engine.pictures.canvas import GAS_COLOUR, Colour, Drawing, Point
from sc2_envs.engine.units import RADIUS, TABLE
from sc2_envs.engine.world import ENEMY, NEUTRAL, PLAYER

SMALL, LARGER = 0.7, 1.3  # units of a radius below the first are drawn larger by the second

OWNER_COLOURS: dict[int, Colour] = {PLAYER: (60, 130, 255), ENEMY: (226, 58, 48), NEUTRAL: (176, 182, 190)}
BEACON_COLOUR: Colour = (70, 226, 210)
CRYSTAL_LIGHT: Colour = (150, 226, 255)
CRYSTAL_DARK: Colour = (38, 112, 196)
CRYSTAL_EDGE: Colour = (16, 48, 92)
STEEL: Colour = (92, 96, 104)
HAZARD: Colour = (214, 176, 60)


class Look(NamedTuple):
    """What a unit's shape depends on beside its type, place and facing."""

    owner: int
    tag: int = 0
    contents: float = 1.0
    """share of a resource that is left"""
    finished: bool = True
    """not under construction"""
    at_work: bool = False
    """trains something, or is being harvested"""

    @property
    def colour(self) -> Colour:
        """The owner's."""
        return OWNER_COLOURS[self.owner]


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


def drawn_radius(unit_type: int) -> float:
    """A unit's radius in the picture: small ones are drawn larger than they are, or their shape could not be seen."""
    radius = float(RADIUS[unit_type])
    return radius * LARGER if radius < SMALL else radius


def shade(colour: Colour, factor: float) -> Colour:
    """A darker (below 1) or lighter (above 1) colour."""
    if factor <= 1.0:
        red, green, blue = (round(part * factor) for part in colour)
    else:
        red, green, blue = (round(part + (255 - part) * (factor - 1.0)) for part in colour)
    return red, green, blue


def draw_shape(canvas: Drawing, unit_type: int, x: float, y: float, facing: float, look: Look) -> None:
    """Draw a unit in its owner's colour, in the shape of its type; structures look the same from wherever they face."""
    unit = TABLE[unit_type]
    if unit.structure:
        body = Body(x, y, max(unit.footprint) / 2, 0.0)
        if not look.finished:
            _site(canvas, body)
            return
    else:
        body = Body(x, y, drawn_radius(unit_type), facing)
    shape = SHAPES.get(unit.name)
    if shape is None:
        shape = _structure if unit.structure else _worker if unit.worker else _soldier
    shape(canvas, body, look)


# --- units ---


def _marine(canvas: Drawing, body: Body, look: Look) -> None:
    colour = look.colour
    dark = shade(colour, 0.35)
    canvas.line(body.points((0.1, -0.75), (1.55, -0.42)), fill=(22, 24, 28), line=0.15)  # rifle
    for side in (-1, 1):
        canvas.disc(*body.at(-0.05, 0.72 * side), 0.46 * body.radius, fill=shade(colour, 0.8), outline=dark, line=0.04)
    canvas.disc(body.x, body.y, 0.72 * body.radius, fill=colour, outline=dark, line=0.05)
    canvas.disc(*body.at(0.12, 0.0), 0.4 * body.radius, fill=shade(colour, 1.35))
    canvas.line(body.points((0.38, -0.26), (0.46, 0.0), (0.38, 0.26)), fill=(255, 214, 90), line=0.08)  # visor


MUZZLE: Point = (1.55, -0.42)
"""Where a Marine's rifle ends, in the coordinates of a Body."""


def _zergling(canvas: Drawing, body: Body, look: Look) -> None:
    dark = shade(look.colour, 0.35)
    for side in (-1, 1):
        canvas.line(body.points((0.2, 0.3 * side), (0.75, 0.95 * side), (1.2, 0.5 * side)), fill=dark, line=0.08)
    hull = body.points((1.0, 0.0), (0.3, 0.5), (-0.9, 0.3), (-1.1, 0.0), (-0.9, -0.3), (0.3, -0.5))
    canvas.polygon(hull, fill=look.colour, outline=dark, line=0.05)


def _baneling(canvas: Drawing, body: Body, look: Look) -> None:
    dark = shade(look.colour, 0.35)
    canvas.disc(body.x, body.y, body.radius, fill=look.colour, outline=dark, line=0.05)
    for ahead, left, size in ((-0.3, 0.35, 0.34), (-0.35, -0.3, 0.3), (0.25, 0.0, 0.36)):
        canvas.disc(*body.at(ahead, left), size * body.radius, fill=(150, 240, 70), outline=dark, line=0.04)


def _roach(canvas: Drawing, body: Body, look: Look) -> None:
    dark = shade(look.colour, 0.35)
    for side in (-1, 1):
        canvas.line(body.points((0.4, 0.4 * side), (1.0, 0.6 * side)), fill=dark, line=0.12)
    hull = body.points((0.7, 0.5), (0.0, 0.85), (-0.8, 0.6), (-1.0, 0.0), (-0.8, -0.6), (0.0, -0.85), (0.7, -0.5))
    canvas.polygon(hull, fill=look.colour, outline=dark, line=0.06)
    canvas.line(body.points((0.5, 0.0), (-0.8, 0.0)), fill=dark, line=0.06)


def _soldier(canvas: Drawing, body: Body, look: Look) -> None:
    canvas.polygon(body.regular(3, 1.15), fill=look.colour, outline=shade(look.colour, 0.35))


def _worker(canvas: Drawing, body: Body, look: Look) -> None:
    dark = shade(look.colour, 0.35)
    for side in (-1, 1):
        canvas.line(body.points((0.3, 0.55 * side), (1.15, 0.35 * side)), fill=(40, 42, 46), line=0.1)  # arms
        wheel = body.points((-0.75, 0.95 * side), (0.55, 0.95 * side), (0.55, 0.6 * side), (-0.75, 0.6 * side))
        canvas.polygon(wheel, fill=(52, 54, 60))
    canvas.polygon(body.points((0.6, 0.62), (-0.8, 0.62), (-0.8, -0.62), (0.6, -0.62)), fill=look.colour, outline=dark)
    canvas.disc(*body.at(0.2, 0.0), 0.34 * body.radius, fill=(255, 214, 90), outline=dark, line=0.03)


# --- resources and marks ---


def _beacon(canvas: Drawing, body: Body, look: Look) -> None:
    colour = BEACON_COLOUR
    canvas.disc(body.x, body.y, body.radius, fill=(*colour, 34))
    canvas.disc(body.x, body.y, body.radius, outline=(*colour, 235), line=0.12)
    canvas.disc(body.x, body.y, 0.8 * body.radius, outline=(*colour, 110), line=0.05)
    for quarter in range(4):  # arrow heads that point to the middle
        arrow = Body(body.x, body.y, body.radius, quarter * math.pi / 2 + math.pi / 4)
        canvas.polygon(arrow.points((0.42, 0.0), (0.66, 0.16), (0.6, 0.0), (0.66, -0.16)), fill=(*colour, 200))
    canvas.disc(body.x, body.y, 0.1 * body.radius, fill=(*colour, 235))


def draw_crystal(canvas: Drawing, x: float, y: float, size: float, lean: float = 0.0) -> None:
    """One crystal that stands upright, or leans to the left."""
    crystal = Body(x, y, size, math.pi / 2 + lean)
    tip, left, right, foot = (1.0, 0.0), (0.25, 0.5), (0.25, -0.5), (-0.8, 0.0)
    middle = (0.05, 0.0)
    canvas.polygon(crystal.points(tip, left, foot, right), fill=CRYSTAL_DARK)
    canvas.polygon(crystal.points(tip, left, middle), fill=CRYSTAL_LIGHT)
    canvas.polygon(crystal.points(tip, middle, right), fill=shade(CRYSTAL_DARK, 1.35))
    canvas.polygon(crystal.points(left, foot, middle), fill=shade(CRYSTAL_DARK, 1.15))
    canvas.polygon(crystal.points(tip, left, foot, right), fill=None, outline=CRYSTAL_EDGE, line=0.04)


def _shard(canvas: Drawing, body: Body, look: Look) -> None:
    turn = look.tag * 2.4  # so that they do not all look alike
    for place, lean, size in ((0.42, 2.2, 0.62), (0.38, -2.2, 0.56), (0.0, 0.0, 0.95)):
        x = body.x + place * body.radius * math.cos(turn + lean)
        y = body.y + place * body.radius * math.sin(turn + lean)
        draw_crystal(canvas, x, y, size * body.radius, 0.5 * math.sin(turn + lean))


CRYSTALS = ((-0.62, 0.1, 0.5), (0.6, 0.14, 0.5), (-0.24, 0.22, 0.62), (0.26, 0.2, 0.58), (-0.42, -0.2, 0.46),
            (0.44, -0.2, 0.46), (0.02, -0.12, 0.56))  # fmt: skip
"""Of a full mineral field: x and y from its centre, size; the last ones are in front, and go last."""


def _mineral_field(canvas: Drawing, body: Body, look: Look) -> None:
    """As many crystals as there are minerals left; of the others, stumps."""
    canvas.rectangle(body.x - 0.98, body.y - 0.48, body.x + 0.98, body.y + 0.48, fill=(30, 52, 84, 150))
    left = math.ceil(look.contents * len(CRYSTALS))
    for index, (x, y, size) in enumerate(CRYSTALS):
        if index < len(CRYSTALS) - left:
            canvas.disc(body.x + x, body.y + y - 0.1, 0.1, fill=CRYSTAL_EDGE)
        else:
            draw_crystal(canvas, body.x + x, body.y + y, size, 0.6 * math.sin(2.4 * look.tag + index))


def _geyser(canvas: Drawing, body: Body, look: Look) -> None:
    """The pool is as large as what is left in it."""
    canvas.polygon(body.regular(9, 1.0), fill=(84, 80, 72), outline=(36, 34, 30), line=0.08)
    _pool(canvas, body, 0.62, look.contents)


def _pool(canvas: Drawing, body: Body, size: float, contents: float) -> None:
    canvas.disc(body.x, body.y, size * body.radius, fill=(34, 40, 38))
    size *= math.sqrt(contents)
    for share, green in ((1.0, (36, 92, 60)), (0.65, (70, 190, 110)), (0.32, (170, 255, 190))):
        canvas.disc(body.x, body.y, share * size * body.radius, fill=green)


# --- structures: `body` is the square of the footprint, its radius is half a side ---


def _plate(canvas: Drawing, body: Body, size: float, fill: Colour, cut: float = 0.0, line: float = 0.06) -> None:
    """A square with its corners cut off, with a dark edge."""
    short = size - cut
    corners = body.points(
        (size, short), (short, size), (-short, size), (-size, short),
        (-size, -short), (-short, -size), (short, -size), (size, -short),
    )  # fmt: skip
    canvas.polygon(corners, fill=fill, outline=shade(fill, 0.35), line=line)


def _site(canvas: Drawing, body: Body) -> None:
    """What is being built: a bare plate and scaffolding."""
    _plate(canvas, body, 0.96, (62, 60, 58), line=0.08)
    for place in (-0.48, 0.0, 0.48):
        canvas.line(body.points((-0.9, place), (0.9, place)), fill=shade(HAZARD, 0.6), line=0.05)
        canvas.line(body.points((place, -0.9), (place, 0.9)), fill=shade(HAZARD, 0.6), line=0.05)
    for x in (-0.9, 0.9):
        for y in (-0.9, 0.9):
            canvas.disc(*body.at(x, y), 0.14, fill=HAZARD)


def _command_center(canvas: Drawing, body: Body, look: Look) -> None:
    colour = look.colour
    _plate(canvas, body, 0.96, (78, 82, 90), cut=0.35, line=0.1)
    for x in (-0.58, 0.58):
        for y in (-0.58, 0.58):
            canvas.disc(*body.at(x, y), 0.2 * body.radius, fill=STEEL, outline=(36, 38, 42), line=0.06)
    canvas.polygon(body.regular(8, 0.68, math.pi / 8), fill=colour, outline=shade(colour, 0.35), line=0.1)
    canvas.polygon(body.regular(8, 0.5, math.pi / 8), fill=shade(colour, 0.75))
    canvas.disc(body.x, body.y, 0.3 * body.radius, fill=(150, 156, 166), outline=(44, 46, 52), line=0.08)
    _lamp(canvas, body.x, body.y, 0.12 * body.radius, look.at_work)


def _supply_depot(canvas: Drawing, body: Body, look: Look) -> None:
    colour = look.colour
    _plate(canvas, body, 0.93, (78, 82, 90), cut=0.15)
    _plate(canvas, body, 0.72, colour, cut=0.1)
    for side in (-1, 1):
        hatch = body.points((0.12 * side, 0.5), (0.56 * side, 0.5), (0.56 * side, -0.5), (0.12 * side, -0.5))
        canvas.polygon(hatch, fill=shade(colour, 0.6))


def _barracks(canvas: Drawing, body: Body, look: Look) -> None:
    colour = look.colour
    _plate(canvas, body, 0.95, (78, 82, 90), cut=0.2, line=0.08)
    _plate(canvas, body, 0.74, colour, cut=0.18, line=0.08)
    canvas.polygon(body.points((0.4, 0.3), (-0.4, 0.3), (-0.4, -0.2), (0.4, -0.2)), fill=shade(colour, 0.6))
    door = body.points((0.28, -0.5), (-0.28, -0.5), (-0.34, -0.95), (0.34, -0.95))
    canvas.polygon(door, fill=(36, 38, 44), outline=HAZARD, line=0.05)
    _lamp(canvas, body.x, body.y + 0.05 * body.radius, 0.15 * body.radius, look.at_work)


def _refinery(canvas: Drawing, body: Body, look: Look) -> None:
    colour = look.colour
    _plate(canvas, body, 0.95, (78, 82, 90), cut=0.45, line=0.08)
    _pool(canvas, body, 0.36, look.contents)
    for x, y in ((-0.55, 0.5), (0.55, 0.5), (0.0, -0.66)):
        canvas.disc(*body.at(x, y), 0.27 * body.radius, fill=colour, outline=shade(colour, 0.35), line=0.06)
        canvas.disc(*body.at(x, y), 0.1 * body.radius, fill=GAS_COLOUR if look.at_work else shade(colour, 0.5))


def _structure(canvas: Drawing, body: Body, look: Look) -> None:
    _plate(canvas, body, 0.95, STEEL, cut=0.2, line=0.08)
    _plate(canvas, body, 0.66, look.colour, cut=0.2)


def _lamp(canvas: Drawing, x: float, y: float, radius: float, lit: bool) -> None:
    canvas.disc(x, y, radius, fill=(255, 232, 140) if lit else (58, 62, 70))


SHAPES: dict[str, Callable[[Drawing, Body, Look], None]] = {
    "Marine": _marine,
    "Beacon_Terran": _beacon,
    "NaturalMinerals": _shard,
    "Zergling": _zergling,
    "Baneling": _baneling,
    "Roach": _roach,
    "SCV": _worker,
    "CommandCenter": _command_center,
    "SupplyDepot": _supply_depot,
    "Refinery": _refinery,
    "Barracks": _barracks,
    "MineralField": _mineral_field,
    "VespeneGeyser": _geyser,
    "CommandCenterFlying": _command_center,
    "BarracksFlying": _barracks,
}
"""How the types look; others are drawn as soldiers, workers or structures."""
