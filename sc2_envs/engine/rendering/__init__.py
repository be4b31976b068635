"""Feature layers drawn from a world: `layers.py` is where to begin."""
