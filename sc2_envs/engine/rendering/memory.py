"""What drawing works with: the scratch of a thread, and the memory of a batch of games."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sc2_envs.engine.camera import CAMERA_WIDTH
from sc2_envs.engine.rendering.contents import OF_UNITS, TABLES_UINT8
from sc2_envs.engine.units import RADIUS
from sc2_envs.engine.world import MAX_SNAPSHOTS, MAX_UNITS

MAX_DRAWN = MAX_UNITS + MAX_SNAPSHOTS
# What a pixel shows of its top unit is painted for several layers at once, side by side in words of 64 bits.
WORD = 64
_WORDS = len(OF_UNITS) // 2 + 1  # of a pixel where a value takes half a word
_CONTENTS = len(TABLES_UINT8)


class Scratch(NamedTuple):
    """Working memory of one thread: nothing in it lasts longer than the drawing of one game."""

    words: NDArray[np.uint64]  # (words, H*W): what the pixels show of units; zero before and after
    unit_words: NDArray[np.uint64]  # (words, MAX_DRAWN): and what is painted for each unit
    order: NDArray[np.uint32]  # (MAX_DRAWN,): slots in the order of drawing, MAX_UNITS + i for snapshot i
    types: NDArray[np.uint32]  # (MAX_DRAWN,): their rows of the unit table, in the same order ...
    x: NDArray[np.float64]  # (MAX_DRAWN,): ... their positions ...
    y: NDArray[np.float64]  # (MAX_DRAWN,)
    values: NDArray[np.int32]  # (contents, MAX_DRAWN): ... and what each layer shows of them
    seen: NDArray[np.int32]  # (MAX_DRAWN,): the same slots, not in order
    ranks: NDArray[np.int32]  # for sorting
    places: NDArray[np.int64]  # (contents,): place of a layer's value in the words, -1 where it shows nothing
    drawn: NDArray[np.int32]  # (MAX_DRAWN,): place in the order of drawing by slot, + 1; zero before and after
    changed: NDArray[np.int32]  # (MAX_DRAWN,): slots whose disc is not the one that was added up last
    screen_x: NDArray[np.float64]  # (W,): world x of the pixels' centres ...
    screen_y: NDArray[np.float64]  # (H,): ... and y
    minimap_x: NDArray[np.float64]
    minimap_y: NDArray[np.float64]
    column_cells: NDArray[np.uint32]  # (W,): x of the columns' cells
    column_strips: NDArray[np.float64]  # see `strip`, for the lines between the columns of a disc
    corners: NDArray[np.float64]  # see `corner`, for the upper corners of a row of its pixels
    disc_shares: NDArray[np.uint32]  # of one disc's pixels
    discs: NDArray[np.uint16]  # (H*W,): as in `Memory`, of games that change too much to remember them; zero before ...
    shares: NDArray[np.uint32]  # (H*W,): ... and after


def make_scratch(sizes: tuple[int, int, int, int]) -> Scratch:
    """Working memory for drawing; each thread needs its own.

    Args:
        sizes: width and height of the screen, then of the minimap, in pixels.
    """
    size = max(sizes[0] * sizes[1], sizes[2] * sizes[3])
    across = int(2 * RADIUS.max() * sizes[0] / CAMERA_WIDTH) + 2  # pixels of a side of the largest disc
    return Scratch(
        words=np.zeros((_WORDS, size), np.uint64),
        unit_words=np.zeros((_WORDS, MAX_DRAWN), np.uint64),
        order=np.zeros(MAX_DRAWN, np.uint32),
        types=np.zeros(MAX_DRAWN, np.uint32),
        x=np.zeros(MAX_DRAWN),
        y=np.zeros(MAX_DRAWN),
        values=np.zeros((_CONTENTS, MAX_DRAWN), np.int32),
        seen=np.zeros(MAX_DRAWN, np.int32),
        ranks=np.zeros(len(np.unique(RADIUS)) + 1, np.int32),
        places=np.zeros(_CONTENTS, np.int64),
        drawn=np.zeros(MAX_DRAWN, np.int32),
        changed=np.zeros(MAX_DRAWN, np.int32),
        screen_x=np.zeros(sizes[0]),
        screen_y=np.zeros(sizes[1]),
        minimap_x=np.zeros(sizes[2]),
        minimap_y=np.zeros(sizes[3]),
        column_cells=np.zeros(max(sizes[0], sizes[2]), np.uint32),
        column_strips=np.zeros(across + 1),
        corners=np.zeros(across + 1),
        disc_shares=np.zeros(across * across, np.uint32),
        discs=np.zeros(sizes[0] * sizes[1], np.uint16),
        shares=np.zeros(sizes[0] * sizes[1], np.uint32),
    )


class Memory(NamedTuple):
    """What each game's last drawing left behind: most units stand still, and structures always do.

    It changes no pixel of what is drawn, only how long that takes. Sums of discs are integers, so that a disc that goes
    leaves no trace.
    """

    discs: NDArray[np.uint16]  # (N, H*W): how many discs cover a pixel of the screen ...
    shares: NDArray[np.uint32]  # (N, H*W): ... and the sum of their shares of it ...
    summed: NDArray[np.uint8]  # (N,): ... where they are those of the discs that are remembered
    disc_type: NDArray[np.int16]  # (N, MAX_DRAWN): whose discs these are, by slot and snapshot ...
    disc_x: NDArray[np.float64]  # (N, MAX_DRAWN): ... and where
    disc_y: NDArray[np.float64]  # (N, MAX_DRAWN)
    disc_camera: NDArray[np.float64]  # (N, 2): where the screen's centre was
    disc_end: NDArray[np.int64]  # (N,): one past the last slot of a disc
    screen_pathable: NDArray[np.uint8]  # (N, H*W): the layer pathable ...
    minimap_pathable: NDArray[np.uint8]  # (N, H*W)
    pathable_drawn: NDArray[np.uint8]  # (N, 2): ... where it is drawn, of the screen and of the minimap ...
    footprints: NDArray[np.int64]  # (N,): ... for so many units of the size of a footprint or larger ...
    footprint_type: NDArray[np.int16]  # (N, MAX_DRAWN): ... of these types ...
    footprint_x: NDArray[np.float64]  # (N, MAX_DRAWN): ... at these places ...
    footprint_y: NDArray[np.float64]  # (N, MAX_DRAWN)
    ground: NDArray[np.float64]  # (N, 6): ... and for this playable area and camera


def make_memory(num_games: int, sizes: tuple[int, int, int, int]) -> Memory:
    """Memory for drawing a batch of games of one player."""
    screen, minimap = sizes[0] * sizes[1], sizes[2] * sizes[3]
    return Memory(
        discs=np.zeros((num_games, screen), np.uint16),
        shares=np.zeros((num_games, screen), np.uint32),
        summed=np.zeros(num_games, np.uint8),
        disc_type=np.zeros((num_games, MAX_DRAWN), np.int16),
        disc_x=np.zeros((num_games, MAX_DRAWN)),
        disc_y=np.zeros((num_games, MAX_DRAWN)),
        disc_camera=np.zeros((num_games, 2)),
        disc_end=np.zeros(num_games, np.int64),
        screen_pathable=np.zeros((num_games, screen), np.uint8),
        minimap_pathable=np.zeros((num_games, minimap), np.uint8),
        pathable_drawn=np.zeros((num_games, 2), np.uint8),
        footprints=np.zeros(num_games, np.int64),
        footprint_type=np.zeros((num_games, MAX_DRAWN), np.int16),
        footprint_x=np.zeros((num_games, MAX_DRAWN)),
        footprint_y=np.zeros((num_games, MAX_DRAWN)),
        ground=np.zeros((num_games, 6)),
    )
