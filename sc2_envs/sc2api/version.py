"""The version of StarCraft II that this package presents itself as: the newest that pysc2 4.0.0 knows."""

GAME_VERSION = "5.0.9.87702"
BUILD = 87702
DATA_VERSION = "F799E093428D419FD634CCE9B925218C"
