"""What each feature layer shows, and the code of each of its values.

Layers of the screen and of the minimap that show the same have one number here, their content.
"""

import numpy as np
from numba import int32
from numpy.typing import NDArray

from sc2_envs.engine.compile import jit
from sc2_envs.features import MINIMAP_LAYERS, SCREEN_LAYERS, encoding_table

# The screen's layers by their index, then what only the minimap has.
_CONTENTS = tuple(layer.name for layer in SCREEN_LAYERS) + ("camera", "alerts")
HEIGHT_MAP = _CONTENTS.index("height_map")
VISIBILITY_MAP = _CONTENTS.index("visibility_map")
PLAYER_ID = _CONTENTS.index("player_id")
PLAYER_RELATIVE = _CONTENTS.index("player_relative")
UNIT_TYPE = _CONTENTS.index("unit_type")
SELECTED = _CONTENTS.index("selected")
UNIT_HIT_POINTS = _CONTENTS.index("unit_hit_points")
UNIT_HIT_POINTS_RATIO = _CONTENTS.index("unit_hit_points_ratio")
UNIT_ENERGY = _CONTENTS.index("unit_energy")
UNIT_ENERGY_RATIO = _CONTENTS.index("unit_energy_ratio")
UNIT_SHIELDS = _CONTENTS.index("unit_shields")
UNIT_SHIELDS_RATIO = _CONTENTS.index("unit_shields_ratio")
UNIT_DENSITY = _CONTENTS.index("unit_density")
UNIT_DENSITY_AA = _CONTENTS.index("unit_density_aa")
ACTIVE = _CONTENTS.index("active")
BUILD_PROGRESS = _CONTENTS.index("build_progress")
PATHABLE = _CONTENTS.index("pathable")
BUILDABLE = _CONTENTS.index("buildable")
CAMERA = _CONTENTS.index("camera")
ALERTS = _CONTENTS.index("alerts")
NOTHING_YET = _CONTENTS.index("effects")  # one of the layers that stay zero


def _tables() -> NDArray[np.uint8]:
    """The uint8 code of each value of each content; the last value stands for all larger ones."""
    tables = [encoding_table(name) for name in _CONTENTS]
    longest = max(len(table) for table in tables)
    return np.array([np.pad(table, (0, longest - len(table)), mode="edge") for table in tables])


TABLES_UINT8 = _tables()
"""For uint8 output, encoded."""
TABLES_INT32 = np.zeros((len(_CONTENTS), 0), np.uint8)
"""For int32 output, pysc2's integers: no codes."""

SCREEN_CONTENTS = np.arange(len(SCREEN_LAYERS))
MINIMAP_CONTENTS = np.array(
    [NOTHING_YET if layer.name == "unit_type" else _CONTENTS.index(layer.name) for layer in MINIMAP_LAYERS]
    + [UNIT_TYPE],
    np.int64,
)
CHEATING_UNIT_TYPE = len(MINIMAP_LAYERS)
"""One more layer of the minimap: its unit_type as those see it who joined with allow_cheating_layers."""
# What shows something of units; of snapshots, which have no hit points and the like, it is zero in the first of these.
CHANGE_IN_THE_FOG = (
    SELECTED, UNIT_HIT_POINTS, UNIT_HIT_POINTS_RATIO, UNIT_ENERGY, UNIT_ENERGY_RATIO, UNIT_SHIELDS, UNIT_SHIELDS_RATIO,
    ACTIVE, ALERTS,
)  # fmt: skip
OF_UNITS = (*CHANGE_IN_THE_FOG, PLAYER_ID, PLAYER_RELATIVE, UNIT_TYPE, BUILD_PROGRESS)


@jit
def encode(tables, content, value):
    """What a layer's pixel holds for a value: the value itself, or its code where there is a table of codes."""
    values = tables.shape[1]
    if values == 0:
        return int32(value)
    return int32(tables[content, min(value, values - 1)])


@jit
def bits_of(tables):
    """Bits that a value takes in a word: a code's, or those of pysc2's integer."""
    return 32 if tables.shape[1] == 0 else 8


@jit
def is_of_units(content):
    """Whether a layer shows the value of a pixel's top unit."""
    return content in OF_UNITS
