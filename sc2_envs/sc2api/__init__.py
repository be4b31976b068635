"""The engine behind StarCraft II's own protocol.

`session.Session` answers the protocol's requests, message by message, as one process of the game does: mini-games for
one player, a sandbox for two (clients, or a client and a computer), replays. How the messages travel is not its
business:

    from sc2_envs.sc2api import run_config

    run_config.use()  # pysc2 calls it directly, in the same process
    from pysc2.env import sc2_env

    env = sc2_env.SC2Env(map_name="MoveToBeacon", ...)

and `python -m sc2_envs.sc2api` serves it behind a websocket. Docs: docs/pysc2.md.

Importing this package calls `pysc2_compat.install()`, without which the protocol's messages cannot be imported.
"""

from sc2_envs import pysc2_compat

pysc2_compat.install()
