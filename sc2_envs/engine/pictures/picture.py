"""A picture of a game for people: what a player sees of the whole playable area, drawn in software.

Beside the units it shows what they do: orders, shots and blows, missiles, who was hurt and who died; mining, building
and production, money and supply. The protocol's rendered pictures show the same scene (sc2api/pictures.py); feature
layers are in rendering/.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sc2_envs.engine.abilities import ATTACK, BUILT_BY, GATHER, PATROL, REPAIR, RETURN, SCAN_MOVE
from sc2_envs.engine.camera import CAMERA_WIDTH
from sc2_envs.engine.pictures.canvas import (
    GAS_COLOUR,
    MARGIN,
    MINERAL_COLOUR,
    Canvas,
    Caption,
    Colour,
    Drawing,
    Point,
)
from sc2_envs.engine.pictures.shapes import (
    MUZZLE,
    OWNER_COLOURS,
    Body,
    Look,
    draw_crystal,
    draw_shape,
    drawn_radius,
    shade,
)
from sc2_envs.engine.units import (
    BACKSWING,
    BANELING,
    BUILD_LOOPS,
    CONTENTS,
    FOOTPRINT_HEIGHT,
    FOOTPRINT_WIDTH,
    HALF_FOOD,
    HEALTH,
    MARINE,
    MINERAL_FIELD,
    MISSILE_SPEED,
    NOTHING,
    RADIUS,
    RANGE,
    RESOURCE,
    SHIELDS,
    SPLASH,
    STRUCTURE,
    TABLE,
    VESPENE_GEYSER,
    WORKER,
)
from sc2_envs.engine.vision import VISIBLE
from sc2_envs.engine.world import EMPTY_HANDED, GAME_LOOPS_PER_SECOND, MAX_DEATHS, MINERALS, PLAYER

HURT_LOOPS = 6  # game loops for which a hurt unit glows
DEATH_LOOPS = 22  # and for which the place of a death is marked
SPLASH_LOOPS = 11  # and a splash is seen
MELEE_RANGE = 1.0  # weapons of a shorter range strike, others shoot

SELECTION_COLOUR: Colour = (110, 255, 120)
MOVE_COLOUR: Colour = (120, 255, 130)
ATTACK_COLOUR: Colour = (255, 96, 80)
PATROL_COLOUR: Colour = (255, 216, 96)
HARVEST_COLOUR: Colour = (110, 200, 255)
RALLY_COLOUR: Colour = (120, 230, 255)
SHOT_COLOUR: Colour = (255, 236, 150)
ACID_COLOUR: Colour = (168, 240, 72)
HURT_COLOUR: Colour = (255, 64, 40)
PROGRESS_COLOUR: Colour = (250, 206, 70)
PRODUCTION_COLOUR: Colour = (90, 214, 255)
FRAME_COLOUR: Colour = (236, 240, 246)


def draw_picture(
    world: np.void, map_name: str, score: int, width: int = 640, player: int = PLAYER, camera_aspect: float = 1.0
) -> NDArray[np.uint8]:
    """Draw what one player sees of a game.

    Args:
        world: one world record.
        map_name: shown in the line of text, with the score and the time.
        score: points so far.
        width: of the picture in pixels, at least 64. The height follows from the shape of the playable area and is
            even, as video formats want it.
        player: 1 or 2.
        camera_aspect: height of the camera's view over its width; a frame shows it where the area is wider than it.

    Returns:
        (H, W, 3) uint8.

    Raises:
        ValueError: for a width below 64.
    """
    canvas = Canvas(tuple(float(edge) for edge in world["playable"]), width)
    scene = Scene.of(world, player)
    draw_scene(canvas, scene)
    draw_frame(canvas, scene, camera_aspect)
    return canvas.finish(caption(scene, map_name, score))


def draw_scene(canvas: Drawing, scene: Scene) -> None:
    """Draw all that a player sees, on the bare map."""
    flat = [slot for slot in scene.slots if TABLE[scene.type(slot)].name.startswith("Beacon")]
    built = [slot for slot in scene.slots if STRUCTURE[scene.type(slot)]]
    mobile = [slot for slot in scene.slots if slot not in flat and slot not in built]
    for slot in flat:
        draw_unit(canvas, scene, slot)
    draw_snapshots(canvas, scene)
    draw_fog(canvas, scene)
    draw_deaths(canvas, scene)
    for slot in built:
        draw_shadow(canvas, scene, slot)
        draw_selection(canvas, scene, slot)
    for slot in built:
        draw_unit(canvas, scene, slot)
    for slot in scene.slots:
        draw_orders(canvas, scene, slot)
        draw_rally(canvas, scene, slot)
    for slot in mobile:
        draw_shadow(canvas, scene, slot)
        draw_selection(canvas, scene, slot)
    for slot in mobile:
        draw_work(canvas, scene, slot)
    for slot in mobile:
        draw_unit(canvas, scene, slot)
        draw_cargo(canvas, scene, slot)
    for slot in scene.slots:
        draw_hurt(canvas, scene, slot)
        draw_attack(canvas, scene, slot)
    draw_missiles(canvas, scene)
    for slot in scene.slots:
        draw_bars(canvas, scene, slot)


# --- where the picture shows the world ---


# --- the scene ---


class Scene(NamedTuple):
    """A world as one player sees it."""

    world: np.void
    player: int
    slots: list[int]
    """of the units seen, large ones first"""
    slot_of: dict[int, int]
    """slot of each of them by its tag"""
    loop: int

    @classmethod
    def of(cls, world: np.void, player: int) -> Scene:
        """Gather the units that a player sees."""
        # a game has few units: going through them in Python costs less than making the image smaller
        slots = []
        for slot in range(int(world["slots"])):
            own = int(world["owner"][slot]) == player
            if world["type"][slot] != NOTHING and (
                own or is_visible(world, player, float(world["x"][slot]), float(world["y"][slot]))
            ):
                slots.append(slot)
        slots.sort(key=lambda slot: -RADIUS[world["type"][slot]])
        return cls(world, player, slots, {int(world["tag"][slot]): slot for slot in slots}, int(world["game_loop"]))

    def type(self, slot: int) -> int:
        """Row of the unit table."""
        return int(self.world["type"][slot])

    def place(self, slot: int) -> Point:
        """Where a unit stands."""
        return float(self.world["x"][slot]), float(self.world["y"][slot])

    def own(self, slot: int) -> bool:
        """Whether the unit is the player's."""
        return int(self.world["owner"][slot]) == self.player

    def selected(self, slot: int) -> bool:
        """Whether the player has selected the unit."""
        return bool(int(self.world["selected"][slot]) >> (self.player - 1) & 1)

    def fights(self, slot: int) -> bool:
        """Whether the unit is about to hit one that the player sees, or has just done so."""
        strikes = self.world["attacking"][slot] or self.world["backswing"][slot] > 0
        return bool(strikes) and int(self.world["target"][slot]) in self.slot_of

    def radius(self, slot: int) -> float:
        """A unit's radius in the picture."""
        return drawn_radius(self.type(slot))


def is_visible(world: np.void, player: int, x: float, y: float) -> bool:
    """Whether a player sees the cell of a point."""
    return bool(world["visibility"][player - 1, int(y), int(x)] == VISIBLE)


def caption(scene: Scene, map_name: str, score: int) -> Caption:
    """What the line of text says; money and supply only of a player who has workers or structures."""
    world, player = scene.world, scene.player
    minutes, seconds = divmod(int(scene.loop / GAME_LOOPS_PER_SECOND), 60)
    resources = None
    own = [slot for slot in scene.slots if scene.own(slot)]
    if any(WORKER[scene.type(slot)] or STRUCTURE[scene.type(slot)] for slot in own):
        in_making = [slot for slot in own if world["queue_count"][slot] > 0 and world["queue_loops"][slot] >= 0]
        types = [scene.type(slot) for slot in own] + [int(world["queue_type"][slot, 0]) for slot in in_making]
        food = sum(int(HALF_FOOD[unit_type]) for unit_type in types) // 2
        supply = f"{food}/{int(world['food_cap'][player - 1])}"
        resources = (str(int(world["minerals"][player - 1])), str(int(world["vespene"][player - 1])), supply)
    return Caption(map_name, f"score {score}", f"{minutes}:{seconds:02d}   loop {scene.loop}", resources)


# --- the ground ---


def draw_fog(canvas: Drawing, scene: Scene) -> None:
    """Darken what the player does not see, where it does not see the whole playable area."""
    visibility = scene.world["visibility"][scene.player - 1]
    left, bottom, right, top = (float(edge) for edge in scene.world["playable"])
    area = visibility[math.floor(bottom) : math.ceil(top), math.floor(left) : math.ceil(right)]
    if np.any(area != VISIBLE):
        canvas.fog(visibility)


def draw_snapshots(canvas: Drawing, scene: Scene) -> None:
    """What the player remembers in the fog."""
    world, row = scene.world, scene.player - 1
    for index in range(int(world["snapshots"][row])):
        owner, tag = int(world["snapshot_owner"][row, index]), int(world["snapshot_tag"][row, index])
        look = Look(owner, tag, finished=bool(world["snapshot_progress"][row, index] >= 1))
        x, y = float(world["snapshot_x"][row, index]), float(world["snapshot_y"][row, index])
        draw_shape(canvas, int(world["snapshot_type"][row, index]), x, y, 0.0, look)


def draw_deaths(canvas: Drawing, scene: Scene) -> None:
    """A ring that widens and fades where a unit died, and the splash of one that splashes."""
    world = scene.world
    deaths = int(world["deaths"])
    for number in range(max(0, deaths - MAX_DEATHS), deaths):
        index = number % MAX_DEATHS
        age = scene.loop - int(world["death_loop"][index])
        x, y = float(world["death_x"][index]), float(world["death_y"][index])
        if age >= DEATH_LOOPS or not is_visible(world, scene.player, x, y):
            continue
        unit_type = int(world["death_type"][index])
        left = 1.0 - age / DEATH_LOOPS
        colour = OWNER_COLOURS[int(world["death_owner"][index])]
        radius = drawn_radius(unit_type)
        if SPLASH[unit_type] > 0 and age < SPLASH_LOOPS:
            strength = 1.0 - age / SPLASH_LOOPS
            canvas.disc(x, y, float(SPLASH[unit_type]), fill=(*ACID_COLOUR, round(110 * strength)))
        stain = ACID_COLOUR if unit_type == BANELING else shade(colour, 0.5)
        canvas.disc(x, y, 0.8 * radius, fill=(*stain, round(170 * left)))
        canvas.disc(x, y, radius * (1.6 - 0.8 * left), outline=(*colour, round(230 * left)), line=0.07)


def draw_frame(canvas: Drawing, scene: Scene, aspect: float) -> None:
    """The camera's view, where the playable area is wider than it."""
    left, _, right, _ = (float(edge) for edge in scene.world["playable"])
    if right - left <= CAMERA_WIDTH + 2 * MARGIN:
        return
    x, y = float(scene.world["camera_x"][scene.player - 1]), float(scene.world["camera_y"][scene.player - 1])
    half_x, half_y = CAMERA_WIDTH / 2, CAMERA_WIDTH / 2 * aspect
    canvas.rectangle(x - half_x, y - half_y, x + half_x, y + half_y, outline=(*FRAME_COLOUR, 110), line=0.08)


# --- what belongs to a unit ---


def draw_unit(canvas: Drawing, scene: Scene, slot: int) -> None:
    """The unit itself."""
    world, unit_type = scene.world, scene.type(slot)
    full = int(CONTENTS[unit_type]) or int(CONTENTS[VESPENE_GEYSER])  # the one under a refinery
    look = Look(
        owner=int(world["owner"][slot]),
        tag=int(world["tag"][slot]),
        contents=min(1.0, int(world["contents"][slot]) / full),
        finished=bool(world["progress"][slot] >= 1.0),
        at_work=int(world["queue_count"][slot]) > 0 or int(world["occupant"][slot]) > 0,
    )
    draw_shape(canvas, unit_type, *scene.place(slot), float(world["facing"][slot]), look)


def draw_shadow(canvas: Drawing, scene: Scene, slot: int) -> None:
    """A soft shadow to the lower right."""
    if RESOURCE[scene.type(slot)]:
        return
    radius = scene.radius(slot)
    offset = min(radius, 1.0)
    x, y = scene.place(slot)
    for size in (1.0, 0.85, 0.7):
        canvas.disc(x + 0.25 * offset, y - 0.3 * offset, size * radius, fill=(0, 0, 0, 46))


def draw_selection(canvas: Drawing, scene: Scene, slot: int) -> None:
    """A ring round each unit that the player has selected."""
    if scene.selected(slot):
        radius = scene.radius(slot) + 0.2
        canvas.disc(
            *scene.place(slot), radius, fill=(*SELECTION_COLOUR, 40), outline=(*SELECTION_COLOUR, 255), line=0.08
        )


def draw_orders(canvas: Drawing, scene: Scene, slot: int) -> None:
    """A line from an own unit to where its orders lead it, one after another; strong where it is selected.

    Harvesting, which goes on by itself, has a line only while the worker is selected; the way to where a unit is to go
    when it has won has none while it fights.
    """
    world = scene.world
    if not scene.own(slot):
        return
    strength = 1.0 if scene.selected(slot) else 0.5
    here = scene.place(slot)
    for order in range(int(world["order_count"][slot])):
        ability = int(world["order_ability"][order, slot])
        there = (float(world["order_x"][order, slot]), float(world["order_y"][order, slot]))
        target = scene.slot_of.get(int(world["order_target"][order, slot]))
        if target is not None:
            there = scene.place(target)
        if BUILT_BY[ability] and target is None:  # the work has not begun
            draw_plan(canvas, scene, int(BUILT_BY[ability]), there)
        if scene.selected(slot) or ability not in (GATHER, RETURN):
            colour = ORDER_COLOURS.get(ability, PROGRESS_COLOUR if BUILT_BY[ability] else MOVE_COLOUR)
            if order > 0 or not scene.fights(slot):
                canvas.line([here, there], fill=(*colour, round(150 * strength)), line=0.06)
            canvas.disc(*there, 0.22, outline=(*colour, round(220 * strength)), line=0.06)
            canvas.disc(*there, 0.08, fill=(*colour, round(220 * strength)))
        here = there


ORDER_COLOURS = {
    ATTACK: ATTACK_COLOUR,
    SCAN_MOVE: ATTACK_COLOUR,
    PATROL: PATROL_COLOUR,
    GATHER: HARVEST_COLOUR,
    RETURN: HARVEST_COLOUR,
    REPAIR: PROGRESS_COLOUR,
}


def draw_plan(canvas: Drawing, scene: Scene, unit_type: int, place: Point) -> None:
    """The footprint of a structure that is ordered."""
    left, bottom, right, top = _footprint(unit_type, place)
    colour = OWNER_COLOURS[scene.player]
    canvas.rectangle(left, bottom, right, top, fill=(*colour, 46), outline=(*colour, 170), line=0.06)


def _footprint(unit_type: int, place: Point) -> tuple[float, float, float, float]:
    half_x, half_y = float(FOOTPRINT_WIDTH[unit_type]) / 2, float(FOOTPRINT_HEIGHT[unit_type]) / 2
    return place[0] - half_x, place[1] - half_y, place[0] + half_x, place[1] + half_y


def draw_rally(canvas: Drawing, scene: Scene, slot: int) -> None:
    """A line from a selected structure to where its new units go, with a flag."""
    world = scene.world
    if not (world["rally"][slot] and scene.own(slot) and scene.selected(slot)):
        return
    there = (float(world["rally_x"][slot]), float(world["rally_y"][slot]))
    target = scene.slot_of.get(int(world["rally_target"][slot]))
    if target is not None:
        there = scene.place(target)
    x, y = there
    canvas.line([scene.place(slot), there], fill=(*RALLY_COLOUR, 130), line=0.07)
    canvas.line([there, (x, y + 0.9)], fill=(*RALLY_COLOUR, 255), line=0.08)
    canvas.polygon([(x, y + 0.9), (x + 0.6, y + 0.7), (x, y + 0.45)], fill=(*RALLY_COLOUR, 255))


# --- work ---


def draw_work(canvas: Drawing, scene: Scene, slot: int) -> None:
    """A beam from a worker to the resource that it is at work on, or to what it builds or repairs."""
    world = scene.world
    if not WORKER[scene.type(slot)] or int(world["order_count"][slot]) == 0:
        return
    ability = int(world["order_ability"][0, slot])
    target = scene.slot_of.get(int(world["order_target"][0, slot]))
    if target is None:
        return
    if ability == GATHER and int(world["occupant"][target]) == int(world["tag"][slot]):
        draw_beam(canvas, scene, slot, target, MINERAL_COLOUR if scene.type(target) == MINERAL_FIELD else GAS_COLOUR)
    elif BUILT_BY[ability]:
        draw_beam(canvas, scene, slot, target, PROGRESS_COLOUR)
    elif ability == REPAIR:
        (x, y), (target_x, target_y) = scene.place(slot), scene.place(target)
        reach = scene.radius(slot) + 1.2 * float(RADIUS[scene.type(target)])
        if math.hypot(x - target_x, y - target_y) <= reach:
            draw_beam(canvas, scene, slot, target, PROGRESS_COLOUR)


def draw_beam(canvas: Drawing, scene: Scene, slot: int, other: int, colour: Colour) -> None:
    """A glowing line from one unit to another."""
    here, there = scene.place(slot), scene.place(other)
    canvas.line([here, there], fill=(*colour, 90), line=0.2)
    canvas.line([here, there], fill=(*shade(colour, 1.6), 230), line=0.07)
    canvas.disc(*there, 0.18, fill=(*shade(colour, 1.7), 200))


def draw_cargo(canvas: Drawing, scene: Scene, slot: int) -> None:
    """What a worker carries, held before it."""
    carries = int(scene.world["carries"][slot])
    if carries == EMPTY_HANDED:
        return
    x, y = Body(*scene.place(slot), scene.radius(slot), float(scene.world["facing"][slot])).at(1.1, 0.0)
    if carries == MINERALS:
        draw_crystal(canvas, x, y, 0.36)
    else:
        canvas.disc(x, y, 0.25, fill=GAS_COLOUR, outline=(20, 70, 40), line=0.05)


# --- fights ---


def draw_hurt(canvas: Drawing, scene: Scene, slot: int) -> None:
    """A unit that was hurt a moment ago glows."""
    age = scene.loop - int(scene.world["hurt_loop"][slot])
    if int(scene.world["hurt_loop"][slot]) > 0 and age < HURT_LOOPS:
        strength = 1.0 - age / HURT_LOOPS
        canvas.disc(*scene.place(slot), 1.1 * scene.radius(slot), fill=(*HURT_COLOUR, round(130 * strength)))


def draw_attack(canvas: Drawing, scene: Scene, slot: int) -> None:
    """The shot or blow that a unit has begun or has just made, on the way to the unit that it fights."""
    world, unit_type = scene.world, scene.type(slot)
    if not scene.fights(slot):
        return
    target = scene.slot_of[int(world["target"][slot])]
    backswing = float(world["backswing"][slot])
    strength = 1.0 if BACKSWING[unit_type] <= 0 else min(1.0, 0.3 + 0.7 * backswing / float(BACKSWING[unit_type]))
    here, there = scene.place(slot), scene.place(target)
    body = Body(*here, scene.radius(slot), float(world["facing"][slot]))
    if RANGE[unit_type] <= MELEE_RANGE:
        draw_slash(canvas, here, there, scene.radius(target), strength)
    elif MISSILE_SPEED[unit_type] == 0:
        muzzle = body.at(*MUZZLE) if unit_type == MARINE else body.at(1.0, 0.0)
        canvas.line([muzzle, there], fill=(*SHOT_COLOUR, round(190 * strength)), line=0.05)
        canvas.disc(*muzzle, 0.16, fill=(*SHOT_COLOUR, round(255 * strength)))
        canvas.disc(*there, 0.12, fill=(*SHOT_COLOUR, round(220 * strength)))


def draw_slash(canvas: Drawing, here: Point, there: Point, radius: float, strength: float) -> None:
    """Two claw marks on the near side of the victim."""
    angle = math.atan2(here[1] - there[1], here[0] - there[0])
    mark = Body(*there, radius, angle)
    for side in (-0.25, 0.25):
        points = mark.points((0.9, 0.4 + side), (0.6, side), (0.9, -0.4 + side))
        canvas.line(points, fill=(255, 255, 255, round(230 * strength)), line=0.07)


def draw_missiles(canvas: Drawing, scene: Scene) -> None:
    """Missiles in flight, with a tail away from the target."""
    world = scene.world
    for index in range(int(world["missiles"])):
        x, y = float(world["missile_x"][index]), float(world["missile_y"][index])
        if not is_visible(world, scene.player, x, y):
            continue
        target = scene.slot_of.get(int(world["missile_target"][index]))
        if target is not None:
            there = scene.place(target)
            angle = math.atan2(y - there[1], x - there[0])
            tail = (x + 0.7 * math.cos(angle), y + 0.7 * math.sin(angle))
            canvas.line([tail, (x, y)], fill=(*ACID_COLOUR, 110), line=0.14)
        canvas.disc(x, y, 0.2, fill=ACID_COLOUR, outline=(70, 120, 20), line=0.05)


# --- bars ---


def draw_bars(canvas: Drawing, scene: Scene, slot: int) -> None:
    """Above a unit: health and shields where it is damaged, the progress of its construction, what it trains."""
    x, y = scene.place(slot)
    unit_type = scene.type(slot)
    radius = scene.radius(slot)
    half = max(min(radius, 1.3), 0.45)
    if FOOTPRINT_WIDTH[unit_type] > 0:
        radius = _footprint(unit_type, (x, y))[3] - y
    bottom = y + radius + 0.2
    for share, colour in bars(scene, slot):
        canvas.bar(x - half, bottom, 2 * half, share, colour)
        bottom += 0.2
    waiting = int(scene.world["queue_count"][slot]) - 1
    for place in range(waiting if scene.own(slot) else 0):  # what waits behind what is in the making
        canvas.disc(x - half + 0.1 + 0.3 * place, bottom + 0.08, 0.1, fill=PRODUCTION_COLOUR)


def bars(scene: Scene, slot: int) -> list[tuple[float, Colour]]:
    """Share and colour of a unit's bars, from below."""
    world, unit_type = scene.world, scene.type(slot)
    progress = float(world["progress"][slot])
    health = float(world["health"][slot]) / float(HEALTH[unit_type])
    shown: list[tuple[float, Colour]] = []
    # health grows with the structure, so that a bar of its own says something only of a finished one
    if health < 1.0 and progress >= 1.0:
        shown.append((health, (80, 220, 90) if health > 2 / 3 else (240, 200, 60) if health > 1 / 3 else (230, 70, 50)))
    if SHIELDS[unit_type] > 0 and world["shields"][slot] < SHIELDS[unit_type]:
        shown.append((float(world["shields"][slot]) / float(SHIELDS[unit_type]), (110, 180, 255)))
    if progress < 1.0:
        shown.append((progress, PROGRESS_COLOUR))
    if int(world["queue_count"][slot]) > 0 and scene.own(slot):
        loops = float(BUILD_LOOPS[int(world["queue_type"][slot, 0])])
        shown.append((float(world["queue_loops"][slot]) / loops, PRODUCTION_COLOUR))
    return shown
