"""What holds in every game whatever is done: invariants of all mini-games under random play."""

import gymnasium as gym
import numpy as np
import pytest

import sc2_envs
from sc2_envs.engine import units as table
from sc2_envs.engine.flying import FLIES
from sc2_envs.engine.world import ENEMY, MAX_ORDERS, MAX_QUEUE, NEUTRAL, PLAYER
from sc2_envs.features import FEATURE_UNIT_FIELDS, MINIMAP_LAYERS

GAMES = 32
TYPES = np.arange(len(table.TABLE))
OVERLAP = 1e-3  # what rounding to the grid of positions leaves


def column(rows, name):
    return rows[..., FEATURE_UNIT_FIELDS.index(name)]


def random_actions(generator, available, nvec):
    """A function uniform over the available ones, each argument uniform."""
    actions = generator.integers(nvec, size=(len(available), len(nvec)))
    order = np.cumsum(available != 0, axis=1)
    choice = generator.integers(order[:, -1])
    actions[:, 0] = (order > choice[:, None]).argmax(axis=1)
    return actions


class Play:
    """Random legal play of one mini-game with its default functions; the checks look at the records themselves."""

    def __init__(self, env_id, seed, games=GAMES, **keywords):
        keywords = {"screen_size": 32, "minimap_size": 64, "encoding": "raw", **keywords}
        self.envs = gym.make_vec(
            env_id, games, screen_layers=["player_relative"], minimap_layers=["visibility_map"],
            features={"raw_units": 256}, **keywords,
        ).unwrapped  # fmt: skip
        self.games = self.envs.games
        self.observation, self.info = self.envs.reset(seed=[seed * 1000 + i for i in range(games)])
        self.generator = np.random.default_rng(seed)
        self.reward = np.zeros(games)
        self.ended = np.zeros(games, bool)

    @property
    def worlds(self):
        return self.games.worlds

    def step(self):
        actions = random_actions(
            self.generator, self.observation["available_actions"], self.envs.single_action_space.nvec
        )
        self.observation, self.reward, terminated, truncated, self.info = self.envs.step(actions)
        self.ended = terminated | truncated


def check_units(worlds):
    """Every unit is inside the area, alive, and itself."""
    there = worlds["type"] != 0
    assert (worlds["type"] >= 0).all() and (worlds["type"] < len(TYPES)).all()
    assert (there.sum(axis=1) <= worlds["slots"]).all()
    game, slot = there.nonzero()
    types = worlds["type"][game, slot]
    left, bottom, right, top = worlds["playable"][game].T
    x, y = worlds["x"][game, slot], worlds["y"][game, slot]
    assert (x >= left).all() and (x <= right).all() and (y >= bottom).all() and (y <= top).all()
    assert (x * 4096 == np.round(x * 4096)).all() and (y * 4096 == np.round(y * 4096)).all()
    health = worlds["health"][game, slot]
    assert (health > 0).all() and (health <= table.HEALTH[types]).all()
    assert (worlds["order_count"][game, slot] <= MAX_ORDERS).all()
    assert (worlds["queue_count"][game, slot] <= MAX_QUEUE).all()
    assert (worlds["owner"][game, slot] <= ENEMY).all()
    progress = worlds["progress"][game, slot]
    assert (progress >= 0).all() and (progress <= 1).all()
    for i in range(len(worlds)):
        tags = worlds["tag"][i][there[i]]
        assert len(set(tags.tolist())) == len(tags)


def check_ground(worlds):
    """The blocked cells are those of the footprints, which do not overlap; nobody who walks stands on them."""
    there = worlds["type"] != 0
    for i, world in enumerate(worlds):
        cells = np.zeros_like(world["obstacles"], np.int64)
        for slot in there[i].nonzero()[0]:
            unit_type = world["type"][slot]
            width, height = table.FOOTPRINT_WIDTH[unit_type], table.FOOTPRINT_HEIGHT[unit_type]
            if width:
                left = int(np.floor(world["x"][slot] - width / 2 + 0.5))
                bottom = int(np.floor(world["y"][slot] - height / 2 + 0.5))
                cells[bottom : bottom + height, left : left + width] += 1
        assert cells.max() <= 1
        # units walk over the cells at the corners of a CommandCenter
        for slot in (table.FOOTPRINT_WIDTH[world["type"]] == 5).nonzero()[0]:
            x, y = int(world["x"][slot]), int(world["y"][slot])
            cells[y - 2 : y + 3 : 4, x - 2 : x + 3 : 4] = 0
        assert (cells == world["obstacles"]).all()
        for slot in there[i].nonzero()[0]:
            if table.SPEED[world["type"][slot]] > 0 and not FLIES[world["type"][slot]]:
                assert not cells[int(world["y"][slot]), int(world["x"][slot])]


def check_resources(worlds):
    """Nothing is negative, and supply is what the units and structures say."""
    assert (worlds["minerals"] >= 0).all() and (worlds["vespene"] >= 0).all()
    assert (worlds["contents"] >= 0).all() and (worlds["carried"] >= 0).all()
    assert (worlds["score"] >= 0).all() or (worlds["score"][..., 1:] >= 0).all()  # only the map's own may be
    finished = (worlds["owner"] == PLAYER) & (worlds["progress"] >= 1) & (worlds["type"] != 0)
    provided = (table.FOOD_PROVIDED[worlds["type"]] * finished).sum(axis=1)
    bases = provided > 0
    assert (worlds["food_cap"][bases, 0] == np.minimum(provided, 200)[bases]).all()
    used = (table.HALF_FOOD[worlds["type"]] * (worlds["owner"] == PLAYER)).sum(axis=1)
    training = np.zeros(len(worlds), np.int64)
    for i, slot in zip(*finished.nonzero(), strict=True):
        if worlds["queue_count"][i, slot] and worlds["queue_loops"][i, slot] > 0:
            training[i] += table.HALF_FOOD[worlds["queue_type"][i, slot, 0]]
    assert (used[bases] + training[bases] <= 2 * worlds["food_cap"][bases, 0]).all()


def check_vision(play):
    """Units of others are listed where the player sees, and every unit where it sees is listed."""
    assert [layer.name for layer in MINIMAP_LAYERS][1] == "visibility_map"
    visible = play.observation["feature_minimap"][:, 0] == 2  # 64 x 64: a pixel is a cell, row 0 on top
    rows, mask = play.observation["raw_units"], play.observation["raw_units_mask"].astype(bool)
    for i, world in enumerate(play.worlds):
        listed = set(column(rows[i][mask[i]], "tag").tolist())
        for slot in (world["type"] != 0).nonzero()[0]:
            seen = visible[i, 63 - int(world["y"][slot]), int(world["x"][slot])]
            if world["owner"][slot] == PLAYER:
                assert seen  # nobody is blind where it stands
            assert (int(world["tag"][slot]) in listed) == (seen or world["owner"][slot] == PLAYER)


def check(play):
    worlds = play.worlds[~play.ended]
    check_units(worlds)
    check_ground(worlds)
    check_resources(worlds)


@pytest.mark.parametrize("env_id", sc2_envs.ENV_IDS)
def test_invariants_under_random_play(env_id):
    play = Play(env_id, seed=3)
    for number in range(600):
        play.step()
        if number % 20 == 0:
            check(play)
            check_vision(play)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("env_id", sc2_envs.ENV_IDS)
def test_invariants_over_a_million_steps_of_random_play(env_id):
    for action_set in ("default", "all"):
        play = Play(env_id, seed=11, games=128, action_set=action_set, screen_size=16)
        for number in range(1_000_000 // 7 // 128):
            play.step()
            if number % 50 == 0:
                check(play)


@pytest.mark.parametrize("env_id", sc2_envs.ENV_IDS)
def test_a_game_does_not_depend_on_the_games_beside_it(env_id):
    many, few = Play(env_id, seed=5, games=12), Play(env_id, seed=5, games=12, num_threads=2)
    alone = gym.make_vec(
        env_id, 1, screen_size=32, minimap_size=64, encoding="raw", screen_layers=["player_relative"],
        minimap_layers=["visibility_map"], features={"raw_units": 256},
    ).unwrapped  # fmt: skip
    alone.reset(seed=[5 * 1000 + 7])
    actions = np.random.default_rng(0)
    for _ in range(250):
        chosen = random_actions(actions, many.observation["available_actions"], many.envs.single_action_space.nvec)
        many.observation = many.envs.step(chosen)[0]
        few.observation = few.envs.step(chosen)[0]
        alone.step(chosen[7:8])
    assert many.worlds.tobytes() == few.worlds.tobytes()
    assert many.worlds[7].tobytes() == alone.games.worlds[0].tobytes()


def test_the_owner_of_a_free_slot_is_nobody():
    """Loops over the units of a player need not ask whether the slot is taken."""
    for env_id in sc2_envs.ENV_IDS:
        play = Play(env_id, seed=2, games=8)
        for _ in range(200):
            play.step()
        free = play.worlds["type"] == 0
        assert (play.worlds["owner"][free] == NEUTRAL).all()
