"""Computer opponents: simple players of a Terran base, in the place of the game's own.

The game's computer players are not published; these are ours, and no measure of strength in the real game. They give
orders as the raw interface does and know what their player knows: what it sees, what it remembers, and where the other
base stands on the map. They draw no random numbers: the same game gives the same orders.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from s2clientprotocol import sc2api_pb2 as sc_pb

from sc2_envs.actions import FUNCTIONS_BY_NAME
from sc2_envs.engine import Games
from sc2_envs.engine.abilities import BUILT_BY
from sc2_envs.engine.construction import TO_SITE
from sc2_envs.engine.errors import FINE
from sc2_envs.engine.raw_orders import RawCommand
from sc2_envs.engine.units import (
    BARRACKS,
    COMMAND_CENTER,
    FOOD_PROVIDED,
    MARINE,
    MAX_FOOD,
    MINERAL_COST,
    MINERAL_FIELD,
    NOTHING,
    SCV,
    STRUCTURE,
    SUPPLY_DEPOT,
)
from sc2_envs.engine.vision import VISIBLE
from sc2_envs.engine.world import EMPTY_HANDED, MAP_SIZE
from sc2_envs.features import PLAYER_FIELDS

ACT_PERIOD = 22
"""Game loops between two calls of `act`: about a second."""

BASE_RADIUS = 10.0  # how far from a CommandCenter its mineral fields lie, in world units
HOME_RADIUS = 24.0  # Marines within this of their base wait for the others of their wave
MAX_QUEUE = 2  # units that a structure has in production at a time

# Sites from the CommandCenter, along the axes that point to the middle of the map: away from the minerals, and with
# ways between them
DEPOT_SITES = tuple((3.0 * column, y) for y in (9.0, 12.0) for column in range(9))
BARRACKS_SITES = tuple((x, y) for x in (8.0, 14.0) for y in (-5.0, 0.0, 5.0))
# Where it looks for the last structures of the other player, in shares of the playable area
SEARCHED = tuple((x / 6, y / 6) for y in (1, 3, 5) for x in (1, 3, 5))

Slots = NDArray[np.int64]
Point = NDArray[np.float64]


class Plan(NamedTuple):
    """What an opponent aims at."""

    workers: int
    barracks: int
    wave: int
    """Marines that it attacks with at a time"""


PLANS = {
    sc_pb.Easy: Plan(workers=14, barracks=1, wave=6),
    sc_pb.Medium: Plan(workers=16, barracks=2, wave=8),
    sc_pb.MediumHard: Plan(workers=16, barracks=2, wave=12),
    sc_pb.Hard: Plan(workers=16, barracks=3, wave=12),
    sc_pb.Harder: Plan(workers=18, barracks=3, wave=16),
    sc_pb.VeryHard: Plan(workers=20, barracks=4, wave=16),
}
"""By the protocol's Difficulty. The cheating ones of the game play as VeryHard: here nobody cheats."""


class Opponent(Protocol):
    """A player of one episode."""

    def act(self, loop: int) -> None:
        """Give orders; called every ACT_PERIOD game loops from the first on.

        Args:
            loop: game loops since the episode began.
        """


def make_opponent(games: Games, difficulty: int) -> Opponent:
    """The opponent of a difficulty, for one episode.

    Args:
        games: the game, a batch of one, as the opponent's player has it.
        difficulty: the protocol's Difficulty.

    Raises:
        ValueError: for a difficulty that the protocol does not have.
    """
    if difficulty == sc_pb.VeryEasy:
        return IdleOpponent()
    if difficulty not in sc_pb.Difficulty.values():
        raise ValueError(f"difficulty {difficulty}: there are {', '.join(sc_pb.Difficulty.keys())}")
    return ScriptedOpponent(games, PLANS.get(difficulty, PLANS[sc_pb.VeryHard]))


class Side:
    """What a player knows of its game, and its orders.

    Args:
        games: the game, a batch of one, as the player has it.
    """

    def __init__(self, games: Games) -> None:
        self._games = games
        self._player = games.player

    @property
    def world(self) -> np.void:
        """The record of the game."""
        return self._games.worlds[0]

    def own(self, unit_type: int) -> Slots:
        """Slots of the player's units of a type."""
        return np.flatnonzero((self.world["type"] == unit_type) & (self.world["owner"] == self._player))

    def finished(self, unit_type: int) -> Slots:
        """Those that are not under construction."""
        slots = self.own(unit_type)
        return slots[self.world["progress"][slots] >= 1.0]

    def idle(self, unit_type: int) -> Slots:
        """Those without an order."""
        slots = self.own(unit_type)
        return slots[self.world["order_count"][slots] == 0]

    def builders(self) -> Slots:
        """SCVs that go to build something, or do."""
        slots = np.setdiff1d(self.own(SCV), self.idle(SCV))
        return slots[BUILT_BY[self.world["order_ability"][0, slots]] != NOTHING]

    def places(self, slots: Slots) -> NDArray[np.float64]:
        """Where units stand, (n, 2) in world units."""
        return np.stack([self.world["x"][slots], self.world["y"][slots]], axis=1)

    def sees(self, point: Point) -> bool:
        """Whether the player sees a point of the map."""
        x, y = point
        return bool(self.world["visibility"][self._player - 1, int(y), int(x)] == VISIBLE)

    def known_enemy_structures(self) -> NDArray[np.float64]:
        """Places of the other player's structures that the player sees or remembers, (n, 2)."""
        world, enemy = self.world, 3 - self._player
        slots = np.flatnonzero((world["owner"] == enemy) & STRUCTURE[world["type"]])
        seen = [place for place in self.places(slots) if self.sees(place)]
        count = world["snapshots"][self._player - 1]
        remembered = np.flatnonzero(world["snapshot_owner"][self._player - 1, :count] == enemy)
        x, y = (world[f"snapshot_{axis}"][self._player - 1, remembered] for axis in "xy")
        return np.concatenate([np.reshape(seen, (-1, 2)), np.stack([x, y], axis=1)])

    def counts(self) -> dict[str, int]:
        """Minerals, supply and so on, by the names of `PLAYER_FIELDS`."""
        values = np.zeros((1, len(PLAYER_FIELDS)), np.int32)
        self._games.observe_player(values)
        return dict(zip(PLAYER_FIELDS, values[0].tolist(), strict=True))

    def order(self, function: str, slots: Iterable[int], point: Iterable[float] = (0.0, 0.0), target: int = 0) -> bool:
        """Order own units to do something now; whether it was accepted.

        Args:
            function: pysc2's name of it.
            slots: of the units.
            point: where, in world units.
            target: tag of a unit, 0 = the point.
        """
        tags = tuple(int(self.world["tag"][slot]) for slot in slots)
        x, y = map(float, point)
        command = RawCommand(FUNCTIONS_BY_NAME[function].id, tags, x, y, target, queued=False)
        return command.carry_out(self._games, selects=False) == FINE


def send_to_mine(side: Side, workers: Slots) -> None:
    """Send workers to the mineral fields of the base that is nearest to each."""
    bases = side.finished(COMMAND_CENTER)
    fields = np.flatnonzero(side.world["type"] == MINERAL_FIELD)
    if not len(bases) or not len(fields):
        return
    for worker, place in zip(workers, side.places(workers), strict=True):
        base = side.places(bases)[_distances(side.places(bases), place).argmin()]
        away = _distances(side.places(fields), base)
        near = fields[away <= max(BASE_RADIUS, away.min())]
        field = near[worker % len(near)]  # those with neighbouring slots spread over all of them
        side.order("Harvest_Gather_screen", [worker], target=int(side.world["tag"][field]))


def _distances(points: NDArray[np.float64], point: Point) -> NDArray[np.float64]:
    """From each of the points (n, 2) to one, (n,)."""
    distances: NDArray[np.float64] = np.hypot(*(points - point).T)
    return distances


class IdleOpponent:
    """Gives no orders: its SCVs mine from the beginning, as everybody's."""

    def act(self, loop: int) -> None:
        """Give none."""


class ScriptedOpponent:
    """Mines, keeps supply free with SupplyDepots, trains Marines in its Barracks and attacks with a wave of them.

    Marines gather at the base until there are enough for a wave. A wave goes to the other base, then to whatever
    structure is known, then round the map until there is none left; Marines that come later form the next wave.
    """

    def __init__(self, games: Games, plan: Plan) -> None:
        self._side = Side(games)
        self._plan = plan
        bases = self._side.own(COMMAND_CENTER)
        middle = np.full(2, MAP_SIZE / 2)
        self._home: Point = self._side.places(bases)[0] if len(bases) else middle
        self._towards_middle = np.where(self._home <= middle, 1.0, -1.0)
        left, bottom, right, top = games.map.playable
        searched = (np.array([left + x * (right - left), bottom + y * (top - bottom)]) for x, y in SEARCHED)
        # the next place to look at comes first; the map is the same from both sides, so the other base is known
        self._search: deque[Point] = deque([MAP_SIZE - self._home, *searched])

    def act(self, loop: int) -> None:
        """Give orders: workers first, then supply, Barracks, Marines, and the attack."""
        send_to_mine(self._side, self._side.idle(SCV))
        if not self._saves_for_structure():
            self._train("Train_SCV_quick", COMMAND_CENTER, self._plan.workers - len(self._side.own(SCV)))
            self._train("Train_Marine_quick", BARRACKS)
        self._attack()

    # ---- economy ----

    def _saves_for_structure(self) -> bool:
        """Build a SupplyDepot before supply runs out, else a Barracks; whether money is kept for it."""
        counts, barracks = self._side.counts(), len(self._side.own(BARRACKS))
        if (self._side.world["phase"][self._side.builders()] == TO_SITE).any():
            return True  # it pays when it has come to the site
        depots = len(self._side.own(SUPPLY_DEPOT)) - len(self._side.finished(SUPPLY_DEPOT))
        food_cap = counts["food_cap"] + depots * int(FOOD_PROVIDED[SUPPLY_DEPOT])
        if food_cap < MAX_FOOD and food_cap - counts["food_used"] <= 2 + 2 * barracks:
            function, unit_type, sites = "Build_SupplyDepot_screen", SUPPLY_DEPOT, DEPOT_SITES
        elif barracks < self._plan.barracks and len(self._side.finished(SUPPLY_DEPOT)):
            function, unit_type, sites = "Build_Barracks_screen", BARRACKS, BARRACKS_SITES
        else:
            return False
        if counts["minerals"] >= MINERAL_COST[unit_type]:
            self._build(function, sites)
        return True

    def _build(self, function: str, sites: Iterable[tuple[float, float]]) -> None:
        """Send a worker without load to the first site that takes the structure."""
        workers = self._side.own(SCV)
        empty_handed = workers[self._side.world["carries"][workers] == EMPTY_HANDED]
        if not len(empty_handed):
            return
        for site in sites:
            point = self._home + self._towards_middle * site
            nearest = empty_handed[_distances(self._side.places(empty_handed), point).argmin()]
            if self._side.order(function, [nearest], point):
                return

    def _train(self, function: str, structure: int, most: int = MAX_QUEUE) -> None:
        for slot in self._side.finished(structure):
            for _ in range(min(most, MAX_QUEUE) - int(self._side.world["queue_count"][slot])):
                self._side.order(function, [slot])

    # ---- war ----

    def _attack(self) -> None:
        """Send Marines on that have come to where they were sent, and a wave that is complete."""
        idle = self._side.idle(MARINE)
        if not len(idle):
            return
        at_home = _distances(self._side.places(idle), self._home) <= HOME_RADIUS
        ready = idle if at_home.sum() >= self._plan.wave else idle[~at_home]
        if len(ready):
            self._side.order("Attack_screen", ready, self._target(self._side.places(ready).mean(axis=0)))

    def _target(self, point: Point) -> Point:
        """The known structure of the other player that is nearest to a point, else the next place to look at."""
        known = self._side.known_enemy_structures()
        if len(known):
            nearest: Point = known[_distances(known, point).argmin()]
            return nearest
        for _ in range(len(self._search)):
            if not self._side.sees(self._search[0]):
                break
            self._search.rotate(-1)
        return self._search[0]
