"""The engine behind StarCraft II's own protocol.

`game.Game` answers the protocol's requests for one game of one player on a mini-game, message by message; how the
messages travel is not its business. `run_config` lets pysc2 call it directly, in the same process:

    from sc2_envs.sc2api import run_config

    run_config.use()
    from pysc2.env import sc2_env

    env = sc2_env.SC2Env(map_name="MoveToBeacon", ...)

Importing this package calls `pysc2_compat.install()`, without which the protocol's messages cannot be imported.
"""

from sc2_envs import pysc2_compat

pysc2_compat.install()
