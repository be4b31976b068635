"""Draws docs/images/play.gif: the script of DefeatRoaches at play.

    python docs/images/play.py

All pictures share one palette, so that the ground never changes and the file stays small. Half of it is drawn from what
has a colour: units are few pixels, and would have none of it.
"""

from pathlib import Path

import gymnasium as gym
import numpy as np
from PIL import Image

from sc2_envs.scripted import DefeatRoachesScript

STEPS = 100
MILLISECONDS = 90  # a step of 8 game loops takes 357 ms in the game at its "Faster" speed

env = gym.make("sc2_envs:SC2DefeatRoaches-v0", screen_size=84, features=["feature_units"], render_mode="rgb_array")
policy = DefeatRoachesScript(env.unwrapped.action_set)
observation, info = env.reset(seed=1)
policy.reset()
pictures = []
for _ in range(STEPS):
    pictures.append(Image.fromarray(env.render()).reduce(2))
    observation, _, terminated, truncated, _ = env.step(policy.act(observation))
    if terminated or truncated:
        break
pixels = np.concatenate([np.asarray(picture).reshape(-1, 3) for picture in pictures[::10]])
coloured = pixels[np.ptp(pixels, axis=1) > 60]
sample = np.concatenate([np.resize(coloured, pixels.shape), pixels])
palette = Image.fromarray(sample.reshape(-1, pictures[0].width, 3)).quantize(64, dither=Image.Dither.NONE)
first, *others = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
path = Path(__file__).with_name("play.gif")
first.save(path, save_all=True, append_images=others, duration=MILLISECONDS, loop=0)
print(f"{path}: {len(pictures)} pictures, {path.stat().st_size / 1000:.0f} kB")
