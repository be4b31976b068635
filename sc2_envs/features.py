"""The vocabulary of observations: feature layers, their uint8 encoding, and the columns of the vectors and tables.

Names, order and scales are those of pysc2 4.0.0, so that an index or a column found in its documentation holds here.
Nothing in this module needs the engine, except the code table of `unit_type`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Layer:
    """One feature layer."""

    index: int
    """position in pysc2's order"""
    name: str
    scale: int
    """one more than the largest value that pysc2 declares"""
    categorical: bool
    """True where values are labels, False where they are amounts"""


def _layers(*rows: tuple[str, int, bool]) -> tuple[Layer, ...]:
    return tuple(Layer(index, *row) for index, row in enumerate(rows))


_SCALAR, _CATEGORICAL = False, True

SCREEN_LAYERS = _layers(
    ("height_map", 256, _SCALAR),
    ("visibility_map", 4, _CATEGORICAL),
    ("creep", 2, _CATEGORICAL),
    ("power", 2, _CATEGORICAL),
    ("player_id", 17, _CATEGORICAL),
    ("player_relative", 5, _CATEGORICAL),
    ("unit_type", 1962, _CATEGORICAL),
    ("selected", 2, _CATEGORICAL),
    ("unit_hit_points", 1600, _SCALAR),
    ("unit_hit_points_ratio", 256, _SCALAR),
    ("unit_energy", 1000, _SCALAR),
    ("unit_energy_ratio", 256, _SCALAR),
    ("unit_shields", 1000, _SCALAR),
    ("unit_shields_ratio", 256, _SCALAR),
    ("unit_density", 16, _SCALAR),
    ("unit_density_aa", 256, _SCALAR),
    ("effects", 16, _CATEGORICAL),
    ("hallucinations", 2, _CATEGORICAL),
    ("cloaked", 2, _CATEGORICAL),
    ("blip", 2, _CATEGORICAL),
    ("buffs", 290, _CATEGORICAL),
    ("buff_duration", 256, _SCALAR),
    ("active", 2, _CATEGORICAL),
    ("build_progress", 256, _SCALAR),
    ("pathable", 2, _CATEGORICAL),
    ("buildable", 2, _CATEGORICAL),
    ("placeholder", 2, _CATEGORICAL),
)
"""The 27 layers of `feature_screen`."""

MINIMAP_LAYERS = _layers(
    ("height_map", 256, _SCALAR),
    ("visibility_map", 4, _CATEGORICAL),
    ("creep", 2, _CATEGORICAL),
    ("camera", 2, _CATEGORICAL),
    ("player_id", 17, _CATEGORICAL),
    ("player_relative", 5, _CATEGORICAL),
    ("selected", 2, _CATEGORICAL),
    ("unit_type", 1962, _CATEGORICAL),
    ("alerts", 2, _CATEGORICAL),
    ("pathable", 2, _CATEGORICAL),
    ("buildable", 2, _CATEGORICAL),
)
"""The 11 layers of `feature_minimap`."""

DEFAULT_SCREEN_LAYERS = (
    "visibility_map",
    "player_relative",
    "unit_type",
    "selected",
    "unit_hit_points_ratio",
    "unit_density",
    "active",
    "build_progress",
    "buildable",
)
"""What `screen_layers="default"` means: enough for every mini-game."""

DEFAULT_MINIMAP_LAYERS = ("visibility_map", "camera", "player_relative", "selected")
"""What `minimap_layers="default"` means."""

PLAYER_FIELDS = (
    "player_id",
    "minerals",
    "vespene",
    "food_used",
    "food_cap",
    "food_army",
    "food_workers",
    "idle_worker_count",
    "army_count",
    "warp_gate_count",
    "larva_count",
)
"""Entries of `player`."""

SCORE_CUMULATIVE_FIELDS = (
    "score",
    "idle_production_time",
    "idle_worker_time",
    "total_value_units",
    "total_value_structures",
    "killed_value_units",
    "killed_value_structures",
    "collected_minerals",
    "collected_vespene",
    "collection_rate_minerals",
    "collection_rate_vespene",
    "spent_minerals",
    "spent_vespene",
)
"""Entries of `score_cumulative`."""

SCORE_BY_CATEGORY_ROWS = (
    "food_used",
    "killed_minerals",
    "killed_vespene",
    "lost_minerals",
    "lost_vespene",
    "friendly_fire_minerals",
    "friendly_fire_vespene",
    "used_minerals",
    "used_vespene",
    "total_used_minerals",
    "total_used_vespene",
)
SCORE_BY_CATEGORY_COLUMNS = ("none", "army", "economy", "technology", "upgrade")
"""Rows and columns of `score_by_category`."""

SCORE_BY_VITAL_ROWS = ("total_damage_dealt", "total_damage_taken", "total_healed")
SCORE_BY_VITAL_COLUMNS = ("life", "shields", "energy")
"""Rows and columns of `score_by_vital`."""

FEATURE_UNIT_FIELDS = (
    "unit_type",
    "alliance",
    "health",
    "shield",
    "energy",
    "cargo_space_taken",
    "build_progress",
    "health_ratio",
    "shield_ratio",
    "energy_ratio",
    "display_type",
    "owner",
    "x",
    "y",
    "facing",
    "radius",
    "cloak",
    "is_selected",
    "is_blip",
    "is_powered",
    "mineral_contents",
    "vespene_contents",
    "cargo_space_max",
    "assigned_harvesters",
    "ideal_harvesters",
    "weapon_cooldown",
    "order_length",
    "order_id_0",
    "order_id_1",
    "tag",
    "hallucination",
    "buff_id_0",
    "buff_id_1",
    "addon_unit_type",
    "active",
    "is_on_screen",
    "order_progress_0",
    "order_progress_1",
    "order_id_2",
    "order_id_3",
    "is_in_cargo",
    "buff_duration_remain",
    "buff_duration_max",
    "attack_upgrade_level",
    "armor_upgrade_level",
    "shield_upgrade_level",
)
"""Columns of `feature_units` and `raw_units`."""

UNIT_LAYER_FIELDS = (
    "unit_type",
    "player_relative",
    "health",
    "shields",
    "energy",
    "transport_slots_taken",
    "build_progress",
)
"""Columns of `single_select`, `multi_select`, `cargo` and `build_queue`."""

PRODUCTION_QUEUE_FIELDS = ("ability_id", "build_progress")
"""Columns of `production_queue`."""

OTHER = 255
"""The uint8 code of a category that has none of its own."""

_LAYERS_BY_NAME = {layer.name: layer for layer in MINIMAP_LAYERS} | {layer.name: layer for layer in SCREEN_LAYERS}
# Layers re-indexed when encoded, since their labels do not fit into a byte.
_REINDEXED = ("unit_type", "buffs")


def near_matches(name: object, known: Iterable[str]) -> str:
    """The known names closest to `name`, in brackets for an error message, or an empty string."""
    close = difflib.get_close_matches(str(name), list(known), n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(repr(match) for match in close)}?)" if close else ""


def resolve_layers(layers: str | Iterable[str | Layer], which: Literal["screen", "minimap"]) -> tuple[Layer, ...]:
    """The layers that a choice stands for.

    Args:
        layers: `"default"`, `"all"`, or names of layers, whose order is kept.
        which: `"screen"` or `"minimap"`.

    Raises:
        ValueError: for an unknown layer (with the near matches), one named twice, or an empty choice.
    """
    if which not in ("screen", "minimap"):
        raise ValueError(f"which must be 'screen' or 'minimap', not {which!r}")
    table, default = (
        (SCREEN_LAYERS, DEFAULT_SCREEN_LAYERS) if which == "screen" else (MINIMAP_LAYERS, DEFAULT_MINIMAP_LAYERS)
    )
    by_name = {layer.name: layer for layer in table}
    if isinstance(layers, str):
        if layers == "all":
            return table
        if layers != "default":
            hint = f"; for one layer write [{layers!r}]" if layers in by_name else ""
            raise ValueError(f"{which}_layers must be 'default', 'all' or a list of names, not {layers!r}{hint}")
        layers = default
    try:
        names = [layer.name if isinstance(layer, Layer) else layer for layer in layers]
    except TypeError:
        raise ValueError(f"{which}_layers must be 'default', 'all' or a list of names, not {layers!r}") from None
    if not names:
        raise ValueError(f"{which}_layers is empty: name at least one of {', '.join(by_name)}")
    for position, name in enumerate(names):
        if not isinstance(name, str) or name not in by_name:
            raise ValueError(
                f"unknown {which} layer {name!r}{near_matches(name, by_name)}: "
                f"the {which} layers are {', '.join(by_name)}"
            )
        if name in names[:position]:
            raise ValueError(f"{which} layer {name!r} is named twice")
    return tuple(by_name[name] for name in names)


def encoding_table(layer: Layer | str) -> NDArray[np.uint8]:
    """The uint8 code of each raw value of a layer.

    The table is indexed by the raw value; its last entry stands for every larger value too. 0 stays 0 and a positive
    value stays positive.

    - Labels that fit into a byte keep their value.
    - `unit_type` becomes 1 + its position in the engine's own table of units; other units, and every buff, are 255.
    - Amounts of scale up to 256 keep their value.
    - Amounts of a larger scale (hit points, energy, shields) become 255 log(1 + v) / log(1 + scale), rounded, clipped
      at the scale: fine for the small values of mini-games, still monotone up to the largest.

    Args:
        layer: a `Layer` or its name; screen and minimap share their names' meaning.

    Returns:
        A read-only uint8 array of shape (values,), the same one at each call.

    Raises:
        ValueError: for an unknown layer.
    """
    name = layer.name if isinstance(layer, Layer) else layer
    if not isinstance(name, str) or name not in _LAYERS_BY_NAME:
        known = ", ".join(_LAYERS_BY_NAME)
        raise ValueError(f"unknown layer {name!r}{near_matches(name, _LAYERS_BY_NAME)}: the layers are {known}")
    return _encoding_table(name)


@cache
def _encoding_table(name: str) -> NDArray[np.uint8]:
    layer = _LAYERS_BY_NAME[name]
    if name in _REINDEXED:
        table = _reindexed(layer, _unit_ids() if name == "unit_type" else ())
    elif layer.scale <= 256:
        table = np.arange(256, dtype=np.uint8)
    else:
        value = np.arange(layer.scale + 1)
        code = np.rint(255 * np.log1p(value) / np.log1p(layer.scale))
        table = np.maximum(code, value > 0).astype(np.uint8)
    table.setflags(write=False)
    return table


def _reindexed(layer: Layer, values: tuple[int, ...]) -> NDArray[np.uint8]:
    """Codes 1, 2, ... for the values in their order, `OTHER` for all others, 0 for nothing."""
    if len(values) >= OTHER:
        raise ValueError(f"{layer.name}: {len(values)} values do not fit into the {OTHER - 1} codes of a byte")
    if len(set(values)) != len(values) or any(value < 1 for value in values):
        raise ValueError(f"{layer.name}: the values must be positive and different from each other")
    # one entry beyond the largest label, so that the last entry is the code of the unknown
    table = np.full(max((layer.scale - 1, *values)) + 2, OTHER, np.uint8)
    table[0] = 0
    for position, value in enumerate(values):
        table[value] = position + 1
    return table


def _unit_ids() -> tuple[int, ...]:
    # imported late: the vocabulary is wanted by programs that never start the engine
    from sc2_envs.engine.units import UNIT_IDS

    return tuple(int(unit) for unit in UNIT_IDS)


def encode_layer(layer: Layer | str, raw: ArrayLike) -> NDArray[np.uint8]:
    """The uint8 encoding of a raw layer of any shape, in the plain way: the yardstick of the engine's renderer.

    Raises:
        ValueError: for an unknown layer, a negative value, or values that are not integers.
    """
    table = encoding_table(layer)
    values = np.asarray(raw)
    if values.dtype.kind not in "bui":
        raise ValueError(f"raw layers hold integers, not {values.dtype}")
    if values.size and values.min() < 0:
        name = layer.name if isinstance(layer, Layer) else layer
        raise ValueError(f"layer {name!r} holds {values.min()}: raw values are never negative")
    return table[np.minimum(values.astype(np.uint64), len(table) - 1)]
