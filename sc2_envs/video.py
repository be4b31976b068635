"""Videos of pictures: an mp4 by imageio-ffmpeg, or a GIF by Pillow."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SUFFIXES = (".mp4", ".gif")


class Video:
    """An mp4 or a GIF that grows by a picture at a time; as a context it is closed at the end.

    A GIF has half the width and at most 12 pictures a second, or it would be very large.

    Args:
        path: ends in .mp4 or .gif; its folder is made where it is missing.
        fps: pictures a second.

    Raises:
        ValueError: for a path that ends otherwise.
    """

    GIF_FPS = 12.0

    def __init__(self, path: Path, fps: float) -> None:
        if path.suffix not in SUFFIXES:
            raise ValueError(f"a video's name ends in {' or '.join(SUFFIXES)}, not as {path.name}")
        self.path = path
        self._every = math.ceil(fps / self.GIF_FPS) if path.suffix == ".gif" else 1
        self._fps = fps / self._every
        self._count = 0
        self._writer: Any = None
        self._images: list[Image.Image] = []

    def add(self, picture: NDArray[np.uint8]) -> None:
        """Append a picture, (H, W, 3) uint8, all of one shape.

        Raises:
            ImportError, RuntimeError: for an mp4 where imageio-ffmpeg, or the program that it calls, is missing.
        """
        self._count += 1
        if (self._count - 1) % self._every:
            return
        if self.path.suffix == ".gif":
            image = Image.fromarray(picture).reduce(2)
            self._images.append(image.quantize(128, dither=Image.Dither.NONE))
            return
        height, width = (side - side % 2 for side in picture.shape[:2])  # the codec wants even sides
        if self._writer is None:
            self._writer = self._open_mp4(width, height)
        self._writer.send(np.ascontiguousarray(picture[:height, :width]))

    def _open_mp4(self, width: int, height: int) -> Any:
        import imageio_ffmpeg

        self.path.parent.mkdir(parents=True, exist_ok=True)
        writer = imageio_ffmpeg.write_frames(str(self.path), (width, height), fps=self._fps, macro_block_size=2)
        writer.send(None)
        return writer

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()
        if self._images:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            first, *others = self._images
            first.save(self.path, save_all=True, append_images=others, duration=round(1000 / self._fps), loop=0)

    def __enter__(self) -> Video:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def write_video(pictures: Sequence[NDArray[np.uint8]], path: Path, fps: float) -> Path:
    """Write pictures, (H, W, 3) uint8, as an mp4, or where that fails as a GIF, which is said on stderr.

    Args:
        pictures: all of one shape.
        path: ends in .mp4.
        fps: pictures a second.

    Returns:
        The path of the file that was written.
    """
    try:
        _write(pictures, path, fps)
    except (ImportError, RuntimeError, OSError) as error:
        path = path.with_suffix(".gif")
        print(f"no mp4 ({error}): pip install imageio-ffmpeg. The video is {path} instead", file=sys.stderr)
        _write(pictures, path, fps)
    return path


def _write(pictures: Sequence[NDArray[np.uint8]], path: Path, fps: float) -> None:
    with Video(path, fps) as video:
        for picture in pictures:
            video.add(picture)
