"""The text beside the game: score, time and money, the selection, and what was refused."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sc2_envs.engine.pictures.canvas import Colour
from sc2_envs.engine.pictures.picture import SELECTION_COLOUR
from sc2_envs.engine.units import TABLE
from sc2_envs.features import UNIT_LAYER_FIELDS
from sc2_envs.play.controls import Controls
from sc2_envs.play.session import PlayedGame

TEXT: Colour = (214, 218, 226)
DIM: Colour = (132, 138, 148)
STRONG: Colour = SELECTION_COLOUR
WARNING: Colour = (255, 150, 110)

UNITS = {unit.id: unit for unit in TABLE}
LISTED_UNITS = 8  # of a selection, before "and 3 more"

_HEALTH = UNIT_LAYER_FIELDS.index("health")
_SHIELDS = UNIT_LAYER_FIELDS.index("shields")
_PROGRESS = UNIT_LAYER_FIELDS.index("build_progress")


def unit_name(unit_type: int) -> str:
    """A unit type's name."""
    return UNITS[unit_type].name if unit_type in UNITS else f"unit {unit_type}"


def panel_lines(game: PlayedGame, controls: Controls) -> Iterator[tuple[str, Colour]]:
    """The panel's text, line by line, but for the available functions."""
    minutes, seconds = divmod(math.ceil(game.seconds_left), 60)
    _, minerals, vespene, food_used, food_cap, *_ = game.player.tolist()
    yield f"{game.map.name}, episode {game.episode}", TEXT
    yield f"score {game.score:g}      {minutes}:{seconds:02d} left", STRONG
    yield f"minerals {minerals}   gas {vespene}   supply {food_used}/{food_cap}", TEXT
    yield "", TEXT
    yield from selection_lines(game)
    groups = [
        f"{number}: {unit_name(leader)} x {size}"
        for number, (leader, size) in enumerate(game.observation["control_groups"].tolist())
        if size
    ]
    if groups:
        yield f"groups  {',  '.join(groups)}", DIM
    yield "", TEXT
    if game.policy is not None:
        yield f"last action  {game.last_call or 'none'}", TEXT
    elif controls.building:
        yield "build: S supply depot, B barracks, C command centre, R refinery", STRONG
    elif controls.aim:
        yield f"{controls.aim.screen.removesuffix('_screen')}: click the target", STRONG
    if len(controls.waiting):
        yield f"{len(controls.waiting)} waiting", DIM
    refusal = controls.note or game.refusal
    yield f"refused  {refusal}" if refusal else "", WARNING


def selection_lines(game: PlayedGame) -> Iterator[tuple[str, Colour]]:
    """The selected units with their health, and what they train."""
    units = game.selection.tolist()
    if not units:
        yield "nothing is selected", DIM
    for row in units[:LISTED_UNITS]:
        unit = UNITS.get(row[0])
        text = unit_name(row[0])
        if unit is not None:
            text += f"   {row[_HEALTH]}/{unit.health:g}"
            text += f" + {row[_SHIELDS]}/{unit.shields:g}" if unit.shields else ""
        yield text + (f"   {row[_PROGRESS]} % built" if 0 < row[_PROGRESS] < 100 else ""), TEXT
    if len(units) > LISTED_UNITS:
        yield f"and {len(units) - LISTED_UNITS} more", TEXT
    queue = game.rows("build_queue").tolist()
    if queue:
        trained = [unit_name(row[0]) + (f" {row[_PROGRESS]} %" if row[_PROGRESS] else "") for row in queue]
        yield f"trains  {', '.join(trained)}", TEXT
