"""Pictures for people: `picture.py` is where to begin."""
