"""For Stable-Baselines3: a features extractor that fits every screen size, encoding and set of observation parts.

    from stable_baselines3 import PPO
    from sc2_envs.sb3 import SC2FeaturesExtractor

    env = gym.make("SC2MoveToBeacon-v0", screen_size=16)
    policy_kwargs = {"features_extractor_class": SC2FeaturesExtractor}
    model = PPO("MultiInputPolicy", env, policy_kwargs=policy_kwargs)

At the default sizes "MultiInputPolicy" works without it too; Stable-Baselines3's own network for pictures needs sides
of 36 pixels or more, and takes raw integers for plain vectors.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, CombinedExtractor
from torch import nn

LARGEST_MAP = 16  # sides of the convolutions' output that reach the linear layer


class SC2FeaturesExtractor(CombinedExtractor):
    """Convolutions over the planes, a layer over everything else.

    Planes are brought to the logarithm of their value, 1 for the largest that a layer can take, so that labels and
    small amounts are not lost beside 255. `action_mask` is no input of the network, it is left out.

    Args:
        observation_space: that of an environment of this package.
        features_dim: length of the feature vector.
        channels: output channels of the two convolutions.
        normalized_image: True where pictures do not arrive divided by 255; Stable-Baselines3 sets it itself for a
            policy with `normalize_images=False`.

    Raises:
        ValueError: for a space that is not a Dict with planes.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        features_dim: int = 256,
        channels: tuple[int, int] = (16, 32),
        normalized_image: bool = False,
    ) -> None:
        # The class stands below CombinedExtractor only to be told of normalize_images; its networks are not wanted.
        BaseFeaturesExtractor.__init__(self, observation_space, features_dim)
        if not isinstance(observation_space, spaces.Dict):
            raise ValueError(f"SC2FeaturesExtractor takes a Dict observation space, not {observation_space}")
        self.planes = nn.ModuleDict()
        self.tables = nn.ModuleDict()
        self.vectors: list[str] = []
        self.scales: dict[str, float] = {}
        total = 0
        for name, space in observation_space.spaces.items():
            if name == "action_mask":
                continue
            shape = space.shape or ()
            if len(shape) >= 3:
                assert isinstance(space, spaces.Box)
                # Stable-Baselines3 divides what it knows as a picture by 255
                self.scales[name] = 255.0 if is_image_space(space) and not normalized_image else 1.0
                network = _PlanesNetwork(space, channels)
                self.planes[name] = network
                total += network.length
            elif len(shape) == 2 and f"{name}_mask" in observation_space.spaces:
                self.tables[name] = nn.Sequential(nn.Linear(shape[1], channels[1]), nn.ReLU())
                total += channels[1]
            else:
                self.vectors.append(name)
                total += int(np.prod(shape))
        if not self.planes:
            raise ValueError(f"SC2FeaturesExtractor finds no planes in {list(observation_space.spaces)}")
        self.logarithms = {
            name for name, space in observation_space.spaces.items() if np.issubdtype(space.dtype or float, np.integer)
        }
        self.linear = nn.Sequential(nn.Linear(total, features_dim), nn.ReLU())

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Features of a batch.

        Args:
            observations: as Stable-Baselines3 preprocesses them, each (B, ...) float32.

        Returns:
            (B, features_dim) float32.
        """
        parts = [network(observations[name] * self.scales[name]) for name, network in self.planes.items()]
        for name, network in self.tables.items():
            rows = network(_logarithm(observations[name]))
            parts.append((rows * observations[f"{name}_mask"][:, :, None]).amax(dim=1))
        for name in self.vectors:
            vector = observations[name].flatten(1)
            parts.append(_logarithm(vector) if name in self.logarithms else vector)
        return self.linear(torch.cat(parts, dim=1))


class _PlanesNetwork(nn.Module):
    """(B, C, H, W), or (B, 1, C, H, W), to (B, length)."""

    scale: torch.Tensor

    def __init__(self, space: spaces.Box, channels: tuple[int, int]) -> None:
        super().__init__()
        layers, height, width = space.shape[-3:]
        largest = space.high.reshape(layers, -1).max(axis=1).astype(np.float64)
        scale = torch.as_tensor(1.0 / np.log1p(largest), dtype=torch.float32)
        self.register_buffer("scale", scale.reshape(-1, 1, 1), persistent=False)
        quarter = (min(-(-height // 4), LARGEST_MAP), min(-(-width // 4), LARGEST_MAP))
        self.network = nn.Sequential(
            nn.Conv2d(layers, channels[0], 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(channels[0], channels[1], 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(quarter),
            nn.Flatten(),
        )
        self.length = channels[1] * quarter[0] * quarter[1]

    def forward(self, planes: torch.Tensor) -> torch.Tensor:
        return self.network(torch.log1p(planes.flatten(0, -4)) * self.scale)


def _logarithm(values: torch.Tensor) -> torch.Tensor:
    return values.sign() * values.abs().log1p()


class KeepPlanes(gym.ObservationWrapper[Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Gives planes a leading axis of 1, so that Stable-Baselines3 cannot take columns for channels.

    It does where a screen has more layers than rows or columns, such as all 27 at 16 x 16: it takes the shortest axis
    for the channels, and stops with "must follow the channel last convention". `SC2FeaturesExtractor` takes both
    shapes.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.ObservationWrapper.__init__(self, env)
        if not isinstance(env.observation_space, spaces.Dict):
            raise ValueError(f"KeepPlanes wraps environments of this package, not one that observes {env}")
        parts = dict(env.observation_space.spaces)
        for name, space in parts.items():
            if isinstance(space, spaces.Box) and len(space.shape) == 3:
                parts[name] = spaces.Box(space.low[None], space.high[None], dtype=space.dtype.type)
        self.observation_space = spaces.Dict(parts)

    def observation(self, observation: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The observation with (1, C, H, W) in place of (C, H, W)."""
        return {name: array[None] if array.ndim == 3 else array for name, array in observation.items()}
