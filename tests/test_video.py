"""Videos: an mp4 where there is ffmpeg, else a GIF."""

import sys

import numpy as np
import pytest
from PIL import Image

from sc2_envs.video import Video, write_video


def pictures(count, height=31, width=45):
    """Pictures of odd sides that differ from each other."""
    return [np.full((height, width, 3), 20 * i, np.uint8) for i in range(count)]


def test_an_mp4_grows_by_a_picture_at_a_time(tmp_path):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    path = tmp_path / "new" / "film.mp4"
    with Video(path, fps=22.4) as video:
        for picture in pictures(10):
            video.add(picture)
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(path))
    assert frames == 10
    assert seconds == pytest.approx(10 / 22.4, abs=0.06)


def test_a_gif_has_half_the_width_and_few_pictures_a_second(tmp_path):
    path = tmp_path / "new" / "film.gif"
    with Video(path, fps=22.4) as video:
        for picture in pictures(10, 256, 320):
            video.add(picture)
    with Image.open(path) as image:
        assert image.n_frames == 5  # every second one
        assert image.size == (160, 128)
        assert image.info["duration"] == pytest.approx(2000 / 22.4, abs=10)  # a GIF counts in hundredths


def test_a_video_of_another_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.mp4 or \.gif, not as film\.avi"):
        Video(tmp_path / "film.avi", fps=10)


def test_a_video_without_pictures_writes_nothing(tmp_path):
    for suffix in (".mp4", ".gif"):
        Video(tmp_path / f"film{suffix}", fps=10).close()
    assert list(tmp_path.iterdir()) == []


def test_a_written_video_is_an_mp4_that_can_be_read(tmp_path):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    path = write_video(pictures(5), tmp_path / "film.mp4", 10)
    assert path == tmp_path / "film.mp4"
    assert imageio_ffmpeg.count_frames_and_secs(str(path))[0] == 5


def test_a_written_video_is_a_gif_where_ffmpeg_is_missing_and_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    path = write_video(pictures(5), tmp_path / "videos" / "film.mp4", 10)
    assert path == tmp_path / "videos" / "film.gif"
    with Image.open(path) as image:
        assert image.n_frames == 5
    said = capsys.readouterr().err
    assert "pip install imageio-ffmpeg" in said and str(path) in said
