"""Feature layers as the protocol's ImageData, whose first row is the top one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sc2_envs.features import Layer

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
DTYPES = (np.uint8, np.int32)
"""In which the engine draws layers."""


@cache
def bits_per_pixel(layer: str) -> int:
    """Bits that the game sends a layer's pixel in, on the screen and on the minimap."""
    if layer in ONE_BIT:
        return 1
    return 32 if layer in FOUR_BYTES else 8


def drawn_in(dtype: type, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The layers that the engine draws in integers of this one of the DTYPES for their ImageData.

    Where the game sends a byte or less, the engine's codes for uint8 are the values themselves.
    """
    return tuple(layer for layer in layers if (bits_per_pixel(layer.name) <= 8) == (dtype == np.uint8))


def write_images(images: Any, layers: tuple[Layer, ...], pixels: NDArray[Any]) -> None:
    """Fill the ImageData of layers.

    Args:
        images: FeatureLayers or FeatureLayersMinimap.
        layers: C of them.
        pixels: (C, H, W).
    """
    for layer, plane in zip(layers, pixels, strict=True):
        write_image(getattr(images, layer.name), plane, bits_per_pixel(layer.name))


def write_image(image: Any, pixels: NDArray[Any], bits: int) -> None:
    """Fill an ImageData.

    Args:
        image: the message.
        pixels: (H, W) integers that fit into the bits.
        bits: 1 (the whole image in one stream, high bits first), 8, or 32 (little-endian).
    """
    image.size.y, image.size.x = pixels.shape
    image.bits_per_pixel = bits
    if bits == 1:
        image.data = np.packbits(pixels).tobytes()
    else:
        image.data = pixels.astype({8: "u1", 32: "<i4"}[bits], copy=False).tobytes()
