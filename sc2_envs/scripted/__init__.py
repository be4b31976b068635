"""Scripted policies: players whose scores in the real game are published, for calibration and as a first opponent.

One file a map; each class is written from the description of a script whose scores in the real game are known
(docs/benchmarks.md), looks at what that one looked at, and gives one action a step. One object plays one game:

    script = SCRIPTS["SC2MoveToBeacon-v0"]
    env = gym.make("SC2MoveToBeacon-v0", screen_size=84, features=script.FEATURES, encoding="raw",
                   minimap_layers=script.MINIMAP_LAYERS)
    policy = script(env.unwrapped.action_set)
    observation, info = env.reset(seed=1)
    policy.reset()
    action = policy.act(observation)
"""

from __future__ import annotations

from collections.abc import Mapping

from sc2_envs.scripted.base import Script
from sc2_envs.scripted.build_marines import BuildMarinesScript
from sc2_envs.scripted.collect_mineral_shards import CollectMineralShardsScript
from sc2_envs.scripted.collect_minerals_and_gas import CollectMineralsAndGasScript
from sc2_envs.scripted.defeat_roaches import DefeatRoachesScript
from sc2_envs.scripted.defeat_zerglings_and_banelings import DefeatZerglingsAndBanelingsScript
from sc2_envs.scripted.find_and_defeat_zerglings import FindAndDefeatZerglingsScript
from sc2_envs.scripted.mining import MiningScript
from sc2_envs.scripted.move_to_beacon import MoveToBeaconScript

__all__ = [
    "SCRIPTS",
    "BuildMarinesScript",
    "CollectMineralShardsScript",
    "CollectMineralsAndGasScript",
    "DefeatRoachesScript",
    "DefeatZerglingsAndBanelingsScript",
    "FindAndDefeatZerglingsScript",
    "MiningScript",
    "MoveToBeaconScript",
    "Script",
]

SCRIPTS: Mapping[str, type[Script]] = {
    "SC2MoveToBeacon-v0": MoveToBeaconScript,
    "SC2CollectMineralShards-v0": CollectMineralShardsScript,
    "SC2FindAndDefeatZerglings-v0": FindAndDefeatZerglingsScript,
    "SC2DefeatRoaches-v0": DefeatRoachesScript,
    "SC2DefeatZerglingsAndBanelings-v0": DefeatZerglingsAndBanelingsScript,
    "SC2CollectMineralsAndGas-v0": CollectMineralsAndGasScript,
    "SC2BuildMarines-v0": BuildMarinesScript,
}
"""The script of each environment that has one."""
