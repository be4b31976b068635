"""StarCraft II mini-games as Gymnasium environments.

    import gymnasium as gym
    import sc2_envs

    env = gym.make("SC2MoveToBeacon-v0")
    envs = gym.make_vec("SC2MoveToBeacon-v0", num_envs=64)

Importing the package registers the environments. Processes that have not imported it write
`gym.make("sc2_envs:SC2MoveToBeacon-v0")`. The engine is loaded when the first environment is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym

if TYPE_CHECKING:
    from sc2_envs.actions import ActionSet, InvalidActionError
    from sc2_envs.env import SC2Env
    from sc2_envs.vector import SC2VectorEnv

__version__ = "0.1.0"

MINI_GAMES = (
    "MoveToBeacon",
    "CollectMineralShards",
    "FindAndDefeatZerglings",
    "DefeatRoaches",
    "DefeatZerglingsAndBanelings",
    "CollectMineralsAndGas",
    "BuildMarines",
)
"""Names of the maps; the environment of a map is registered as SC2<name>-v0."""

ENV_IDS = tuple(f"SC2{name}-v0" for name in MINI_GAMES)
"""Ids of all registered environments."""

__all__ = [
    "ENV_IDS",
    "MINI_GAMES",
    "ActionSet",
    "InvalidActionError",
    "SC2Env",
    "SC2VectorEnv",
    "__version__",
    "make",
]

# what the package offers beside registration, loaded when first asked for
_LAZY = {
    "ActionSet": "sc2_envs.actions",
    "InvalidActionError": "sc2_envs.actions",
    "SC2Env": "sc2_envs.env",
    "SC2VectorEnv": "sc2_envs.vector",
}


def _register() -> None:
    for name, env_id in zip(MINI_GAMES, ENV_IDS, strict=True):
        if env_id in gym.registry:
            continue
        gym.register(
            id=env_id,
            entry_point="sc2_envs.env:SC2Env",
            vector_entry_point="sc2_envs.vector:make_vector_env",
            kwargs={"map_name": name},
        )


_register()


def make(env_id: str, **keywords: Any) -> gym.Env[Any, Any]:
    """`gymnasium.make`, for libraries whose workers want a function of plain keywords.

    Args:
        env_id: one of `ENV_IDS`.
        **keywords: those of `SC2Env`, and Gymnasium's own such as `max_episode_steps`.
    """
    return gym.make(env_id, **keywords)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'sc2_envs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
