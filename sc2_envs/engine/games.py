"""Games in a batch: the engine as Python sees it.

Every method works on all games of the batch in one compiled call, or in one a thread. No Python object exists a game
or a unit; the bytes of `worlds` are the whole state.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import boolean, float64, int32, int64, typeof, types, void
from numpy.typing import NDArray

from sc2_envs.engine import observation, score
from sc2_envs.engine.camera import WHOLE_MAP, MinimapArea
from sc2_envs.engine.compile import compile_engine, entry
from sc2_envs.engine.loop import new_episode, play_step
from sc2_envs.engine.maps import MAPS
from sc2_envs.engine.pictures.picture import draw_picture
from sc2_envs.engine.random import stream_key
from sc2_envs.engine.rendering.contents import TABLES_INT32, TABLES_UINT8
from sc2_envs.engine.rendering.layers import draw_layers
from sc2_envs.engine.rendering.memory import Memory, Scratch, make_memory, make_scratch
from sc2_envs.engine.world import MAX_PLAYERS, WORLD, WORLDS_TYPE

_MASK = types.Array(boolean, 1, "C")
_RECTANGLE = types.UniTuple(float64, 4)
_SIZES = types.UniTuple(int64, 4)
_AREA = typeof(WHOLE_MAP)


@entry(void(WORLDS_TYPE, _MASK, _RECTANGLE, _RECTANGLE, types.UniTuple(float64, 2)))
def _new_episodes(worlds, mask, playable, revealed, camera):
    for i in range(len(worlds)):
        if mask[i]:
            new_episode(worlds[i], playable, revealed, camera)


@entry(
    void(
        WORLDS_TYPE, _MASK, int64, _SIZES, _AREA, int64, int64,
        int32[::1], int32[:, ::1], float64[::1], _MASK, _MASK, int32[::1],
    )
)  # fmt: skip
def _play_steps(
    worlds,
    mask,
    player,
    sizes,
    area,
    game_loops,
    time_limit,
    functions,
    arguments,
    reward,
    terminated,
    truncated,
    invalid,
):
    for i in range(len(worlds)):
        if mask[i]:
            world = worlds[i]
            invalid[i] = play_step(world, player, sizes, area, functions[i], arguments[i], game_loops, time_limit)
            reward[i] = world.reward
            terminated[i] = world.terminated != 0
            truncated[i] = world.truncated != 0


@entry(void(WORLDS_TYPE, _MASK, int64, int32[:, ::1]))
def _player_data(worlds, mask, player, out):
    for i in range(len(worlds)):
        if mask[i]:
            observation.player_data(worlds[i], player, out[i])


@entry(void(WORLDS_TYPE, _MASK, int64, types.Array(int32, 1, "C", readonly=True), types.int8[:, ::1]))
def _available_functions(worlds, mask, player, functions, out):
    for i in range(len(worlds)):
        if mask[i]:
            observation.available_functions(worlds[i], player, functions, out[i])


@entry(void(WORLDS_TYPE, _MASK, int64, int64, int64, int64[:, :, ::1], int64[::1]))
def _feature_units(worlds, mask, player, width, height, out, counts):
    for i in range(len(worlds)):
        if mask[i]:
            counts[i] = observation.feature_units(worlds[i], player, width, height, out[i])


@entry(void(WORLDS_TYPE, _MASK, int64, int64, int64, int64[:, :, ::1], int64[::1]))
def _raw_units(worlds, mask, player, width, height, out, counts):
    for i in range(len(worlds)):
        if mask[i]:
            counts[i] = observation.raw_units(worlds[i], player, width, height, out[i])


@entry(void(WORLDS_TYPE, _MASK, int64, int64[:, :, ::1], int64[::1]))
def _single_select(worlds, mask, player, out, counts):
    for i in range(len(worlds)):
        if mask[i]:
            counts[i] = observation.single_select(worlds[i], player, out[i])


@entry(void(WORLDS_TYPE, _MASK, int64, int64[:, :, ::1], int64[::1]))
def _multi_select(worlds, mask, player, out, counts):
    for i in range(len(worlds)):
        if mask[i]:
            counts[i] = observation.multi_select(worlds[i], player, out[i])


@entry(void(WORLDS_TYPE, _MASK, int64, int64[:, :, ::1], int64[::1]))
def _build_queue(worlds, mask, player, out, counts):
    for i in range(len(worlds)):
        if mask[i]:
            counts[i] = observation.build_queue(worlds[i], player, out[i])


@entry(void(WORLDS_TYPE, _MASK, int64, int64[:, :, ::1], int64[::1]))
def _production_queue(worlds, mask, player, out, counts):
    for i in range(len(worlds)):
        if mask[i]:
            counts[i] = observation.production_queue(worlds[i], player, out[i])


@entry(void(WORLDS_TYPE, _MASK, int64, int64[:, :, ::1]))
def _control_groups(worlds, mask, player, out):
    for i in range(len(worlds)):
        if mask[i]:
            observation.control_groups(worlds[i], player, out[i])


@entry(void(WORLDS_TYPE, _MASK, int64, int64[:, ::1], int64[::1]))
def _alerts(worlds, mask, player, out, counts):
    for i in range(len(worlds)):
        if mask[i]:
            counts[i] = observation.alerts(worlds[i], player, out[i])


@entry(void(WORLDS_TYPE, _MASK, int64, int64[:, :, ::1]))
def _score_by_category(worlds, mask, player, out):
    for i in range(len(worlds)):
        if mask[i]:
            score.score_by_category(worlds[i], player, out[i])


@entry(void(WORLDS_TYPE, _MASK, int64, int64[:, :, ::1]))
def _score_by_vital(worlds, mask, player, out):
    for i in range(len(worlds)):
        if mask[i]:
            score.score_by_vital(worlds[i], player, out[i])


_NO_LAYERS = np.zeros(0, np.int64)

WORTH_A_THREAD = 4096  # game loops of all games in a call: fewer take less time than waking a thread


@dataclass(frozen=True)
class Interface:
    """How a player looks at the game: sizes in pixels, (width, height), and what the minimap shows."""

    screen_size: tuple[int, int] = (64, 64)
    minimap_size: tuple[int, int] = (64, 64)
    minimap_area: MinimapArea = WHOLE_MAP


class Games:
    """`num_games` games of one map.

    The arrays `reward` (N,) float64, `terminated`, `truncated` (N,) bool and `invalid` (N,) int32 hold the results of
    the last step and are overwritten by the next. `mask` arguments are (N,) bool and choose games; None means all.

    Args:
        map_name: a key of `MAPS`.
        num_games: N, at least 1.
        interface: sizes of screen and minimap.
        num_threads: how many threads share a call; the results do not depend on it.
        player: whose view and actions these are, 1 or 2.

    Raises:
        KeyError: for an unknown map.
        ValueError: for another player; there is none in the record.
    """

    def __init__(
        self,
        map_name: str,
        num_games: int,
        interface: Interface = Interface(),  # noqa: B008 (frozen)
        num_threads: int = 1,
        player: int = 1,
    ) -> None:
        if not 1 <= player <= MAX_PLAYERS:
            raise ValueError(f"player={player!r}: players are 1 and {MAX_PLAYERS}")
        compile_engine()
        self.map = MAPS[map_name]
        self.num_games = num_games
        self.interface = interface
        self.player = player
        self.worlds: NDArray[np.void] = np.zeros(num_games, WORLD)
        self.worlds["map"] = self.map.index
        self.reward = np.zeros(num_games, np.float64)
        self.terminated = np.zeros(num_games, np.bool_)
        self.truncated = np.zeros(num_games, np.bool_)
        self.invalid = np.zeros(num_games, np.int32)
        self._all = np.ones(num_games, np.bool_)
        self._sizes = (*interface.screen_size, *interface.minimap_size)
        num_threads = max(1, min(num_threads, num_games))
        self._scratch = [make_scratch(self._sizes) for _ in range(num_threads)]
        self._memory = make_memory(num_games, self._sizes)
        bounds = [num_games * i // num_threads for i in range(num_threads + 1)]
        self._slices = [slice(low, high) for low, high in zip(bounds, bounds[1:], strict=False)]
        self._pool = ThreadPoolExecutor(num_threads - 1, "sc2_envs") if num_threads > 1 else None

    def seed(self, index: int, seed: int) -> None:
        """Give one game the random stream of a seed (a non-negative int), from its beginning."""
        self.worlds["random_key"][index] = stream_key(seed)
        self.worlds["random_counter"][index] = 0

    def reset(self, mask: NDArray[np.bool_] | None = None) -> None:
        """Start new episodes; each game's random stream goes on."""
        revealed = (0.0, 0.0, 0.0, 0.0) if self.map.fog else tuple(self.map.playable)
        self._run(_new_episodes, mask, (tuple(self.map.playable), revealed, self.map.camera))

    def step(
        self,
        functions: NDArray[np.int32],
        arguments: NDArray[np.int32],
        game_loops: int,
        mask: NDArray[np.bool_] | None = None,
    ) -> None:
        """Each game plays `game_loops` game loops, or fewer where its episode ends.

        Args:
            functions: (N,) int32, pysc2's function ids.
            arguments: (N, 13) int32, in the order of `actions.ARGUMENT_NAMES`; points as row * width + column.
            game_loops: at 22.4 a second; with 0 the action is given and no time passes.
            mask: the games that play.
        """
        constants = (self.player, self._sizes, self.interface.minimap_area, game_loops, self.map.time_limit)
        results = (self.reward, self.terminated, self.truncated, self.invalid)
        threads = self.num_games * game_loops >= WORTH_A_THREAD
        self._run(_play_steps, mask, constants, functions, arguments, *results, threads=threads)

    def observe_layers(
        self,
        screen_layers: NDArray[np.int64],
        minimap_layers: NDArray[np.int64],
        screen_out: NDArray[Any],
        minimap_out: NDArray[Any],
        mask: NDArray[np.bool_] | None = None,
    ) -> None:
        """Draw feature layers of the screen into screen_out (N, C, H, W) and of the minimap into minimap_out.

        Both are uint8 (encoded) or int32 (pysc2's integers).
        """
        tables = TABLES_UINT8 if screen_out.dtype == np.uint8 else TABLES_INT32
        constants = (self.player, self._sizes, self.interface.minimap_area, screen_layers, minimap_layers, tables)
        self._run(draw_layers, mask, constants, screen_out, minimap_out, draws=True)

    def observe_screen(
        self, layers: NDArray[np.int64], out: NDArray[Any], mask: NDArray[np.bool_] | None = None
    ) -> None:
        """The same for the screen alone."""
        self.observe_layers(layers, _NO_LAYERS, out, np.empty((self.num_games, 0, 0, 0), out.dtype), mask)

    def observe_minimap(
        self, layers: NDArray[np.int64], out: NDArray[Any], mask: NDArray[np.bool_] | None = None
    ) -> None:
        """The same for the minimap alone."""
        self.observe_layers(_NO_LAYERS, layers, np.empty((self.num_games, 0, 0, 0), out.dtype), out, mask)

    def observe_player(self, out: NDArray[np.int32], mask: NDArray[np.bool_] | None = None) -> None:
        """pysc2's player data into out (N, 11) int32."""
        self._run(_player_data, mask, (self.player,), out)

    def available_functions(
        self, functions: NDArray[np.int32], out: NDArray[np.int8], mask: NDArray[np.bool_] | None = None
    ) -> None:
        """Which of the functions (F,) each player may use now, into out (N, F) int8."""
        self._run(_available_functions, mask, (self.player, functions), out)

    def feature_units(
        self, out: NDArray[np.int64], counts: NDArray[np.int64], mask: NDArray[np.bool_] | None = None
    ) -> None:
        """Units on the screen into out (N, M, 46) and their numbers into counts (N,); unused rows are zero."""
        self._run(_feature_units, mask, (self.player, *self.interface.screen_size), out, counts)

    def raw_units(
        self, out: NDArray[np.int64], counts: NDArray[np.int64], mask: NDArray[np.bool_] | None = None
    ) -> None:
        """All visible units into out (N, M, 46) and their numbers into counts (N,); unused rows are zero."""
        self._run(_raw_units, mask, (self.player, *self.interface.screen_size), out, counts)

    def single_select(
        self, out: NDArray[np.int64], counts: NDArray[np.int64], mask: NDArray[np.bool_] | None = None
    ) -> None:
        """The panel of a single selected unit into out (N, 1, 7)."""
        self._run(_single_select, mask, (self.player,), out, counts)

    def multi_select(
        self, out: NDArray[np.int64], counts: NDArray[np.int64], mask: NDArray[np.bool_] | None = None
    ) -> None:
        """The panel of several selected units into out (N, M, 7)."""
        self._run(_multi_select, mask, (self.player,), out, counts)

    def build_queue(
        self, out: NDArray[np.int64], counts: NDArray[np.int64], mask: NDArray[np.bool_] | None = None
    ) -> None:
        """What the one selected structure trains, as rows of a panel, into out (N, M, 7) and counts (N,)."""
        self._run(_build_queue, mask, (self.player,), out, counts)

    def production_queue(
        self, out: NDArray[np.int64], counts: NDArray[np.int64], mask: NDArray[np.bool_] | None = None
    ) -> None:
        """The same as abilities and progress into out (N, M, 2) and counts (N,)."""
        self._run(_production_queue, mask, (self.player,), out, counts)

    def control_groups(self, out: NDArray[np.int64], mask: NDArray[np.bool_] | None = None) -> None:
        """Leader's type and size of the ten control groups into out (N, 10, 2)."""
        self._run(_control_groups, mask, (self.player,), out)

    def alerts(self, out: NDArray[np.int64], counts: NDArray[np.int64], mask: NDArray[np.bool_] | None = None) -> None:
        """Numbers of the game's alerts in the last step into out (N, M) and counts (N,)."""
        self._run(_alerts, mask, (self.player,), out, counts)

    def score_by_category(self, out: NDArray[np.int64], mask: NDArray[np.bool_] | None = None) -> None:
        """pysc2's score_by_category into out (N, 11, 5)."""
        self._run(_score_by_category, mask, (self.player,), out)

    def score_by_vital(self, out: NDArray[np.int64], mask: NDArray[np.bool_] | None = None) -> None:
        """pysc2's score_by_vital into out (N, 3, 3)."""
        self._run(_score_by_vital, mask, (self.player,), out)

    @property
    def game_loop(self) -> NDArray[np.int32]:
        """Game loops since each episode began, (N,) int32; a view."""
        return self.worlds["game_loop"]

    @property
    def score_cumulative(self) -> NDArray[np.int64]:
        """pysc2's score_cumulative, (N, 13) int64; a view."""
        return self.worlds["score"][:, self.player - 1]

    @property
    def order_error(self) -> NDArray[np.int32]:
        """Why an order given earlier failed in the last step, (N,) int32, a key of `REASONS`, 0 for none; a view."""
        return self.worlds["last_error"][:, self.player - 1]

    @property
    def last_action(self) -> NDArray[np.int32]:
        """pysc2 function carried out in the last step, (N,) int32, -1 for none; a view."""
        return self.worlds["last_function"][:, self.player - 1]

    def render(self, index: int) -> NDArray[np.uint8]:
        """A picture of one game for people, (H, W, 3) uint8."""
        width, height = self.interface.screen_size
        score = int(self.score_cumulative[index, 0])
        return draw_picture(self.worlds[index], self.map.name, score, player=self.player, camera_aspect=height / width)

    def close(self) -> None:
        """End the threads; the games stay readable."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _run(
        self,
        function: Any,
        mask: NDArray[np.bool_] | None,
        constants: tuple[Any, ...],
        *arrays: NDArray[Any],
        draws: bool = False,
        threads: bool = False,
    ) -> None:
        """Call a compiled function on the batch; with threads, on a slice of the batch and of the arrays in each.

        One that draws gets the working memory of its thread, and works in threads.
        """
        if mask is None:
            mask = self._all
        if self._pool is None or not (threads or draws):
            own = (self._scratch[0], self._memory) if draws else ()
            function(self.worlds, mask, *constants, *own, *arrays)
            return

        def on_slice(part: slice, scratch: Scratch) -> None:
            own = (scratch, Memory._make(array[part] for array in self._memory)) if draws else ()
            function(self.worlds[part], mask[part], *constants, *own, *(array[part] for array in arrays))

        calls = [self._pool.submit(on_slice, *job) for job in zip(self._slices[1:], self._scratch[1:], strict=True)]
        on_slice(self._slices[0], self._scratch[0])  # this thread works too
        for call in calls:
            call.result()
