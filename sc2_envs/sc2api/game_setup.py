"""What a game is made of: who plays which map, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from s2clientprotocol import common_pb2
from s2clientprotocol import sc2api_pb2 as sc_pb

from sc2_envs.sc2api.maps import engine_map


@dataclass(frozen=True)
class Player:
    """One of those who play, in numbers of the protocol's enumerations; their ids are 1 and 2, by their order."""

    type: int = sc_pb.Participant
    """PlayerType: Participant or Computer"""
    race: int = common_pb2.NoRace
    """Race, as asked for: everybody plays Terran"""
    difficulty: int = sc_pb.VeryEasy
    """Difficulty of a computer"""
    name: str = ""
    ai_build: int = sc_pb.RandomBuild
    """AIBuild of a computer; there is one way in which they build"""

    @property
    def is_computer(self) -> bool:
        return self.type == sc_pb.Computer

    def write(self, info: Any, player_id: int) -> None:
        """Fill a PlayerInfo."""
        info.player_id, info.type, info.player_name = player_id, self.type, self.name
        info.race_requested, info.race_actual = self.race, common_pb2.Terran
        if self.is_computer:
            info.difficulty, info.ai_build = self.difficulty, self.ai_build


@dataclass(frozen=True)
class Setup:
    """What a match is made of."""

    map_path: str
    """as the client asks for it"""
    players: tuple[Player, ...]
    seed: int
    """of the random stream, a non-negative int"""
    realtime: bool = False
    disable_fog: bool = False

    @property
    def participants(self) -> int:
        """How many of the players are clients."""
        return sum(not player.is_computer for player in self.players)

    @property
    def map_played(self) -> str:
        """The engine's map."""
        name = engine_map(self.map_path)
        if name is None:
            raise ValueError(f"the engine has no map for {self.map_path!r}")
        return name
