"""Feature layers as the protocol's ImageData, whose first row is the top one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ONE_BIT = (
    "creep",
    "power",
    "camera",
    "selected",
    "hallucinations",
    "cloaked",
    "blip",
    "active",
    "pathable",
    "buildable",
    "placeholder",
)
FOUR_BYTES = ("unit_type", "unit_hit_points", "unit_energy", "unit_shields", "buffs")


def bits_per_pixel(layer: str) -> int:
    """Bits that the game sends a layer's pixel in, on the screen and on the minimap."""
    if layer in ONE_BIT:
        return 1
    return 32 if layer in FOUR_BYTES else 8


def write_image(image: Any, pixels: NDArray[np.int32], bits: int) -> None:
    """Fill an ImageData.

    Args:
        image: the message.
        pixels: (H, W) values that fit into the bits.
        bits: 1 (the whole image in one stream, high bits first), 8, or 32 (little-endian).
    """
    image.size.y, image.size.x = pixels.shape
    image.bits_per_pixel = bits
    if bits == 1:
        image.data = np.packbits(pixels != 0).tobytes()
    else:
        image.data = pixels.astype({8: "u1", 32: "<i4"}[bits]).tobytes()
