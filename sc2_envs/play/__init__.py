"""Play a mini-game with mouse and keyboard, or watch a policy play it: `python -m sc2_envs.play --map MoveToBeacon`.

A person acts as an agent does: every click and key becomes a call of one of PySC2's functions, and a step of the
environment carries out one call. What comes between two steps waits in a queue; nothing is dropped.

    __main__.py   the program and its flags
    session.py    the game that is played, by a person or a policy
    viewport.py   where the world is in the window, on the feature screen and on the minimap
    controls.py   what clicks and keys mean
    panel.py      the text beside the game
    window.py     the window, by pygame
    loop.py       steps when they are due
"""
