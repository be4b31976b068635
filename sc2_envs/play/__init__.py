"""Play a mini-game with mouse and keyboard, or watch a policy play it: `python -m sc2_envs.play --map MoveToBeacon`.

The program is in __main__.py, and docs/play.md says how to use it.
"""
