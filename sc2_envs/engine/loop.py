"""One game: a new episode, and one game loop after another.

The order of a game loop: missiles fly, units act one after another, those that overlap are pushed apart, friends answer
for those that were hurt, production and regeneration go on, the players' vision follows, the map's own rules judge.
"""

from sc2_envs.engine.alerts import ALERT_ERROR, alert, forget_alerts
from sc2_envs.engine.behaviour import act_units, answer_attacks
from sc2_envs.engine.combat import fly_missiles, regenerate
from sc2_envs.engine.compile import jit
from sc2_envs.engine.errors import FINE, FUNCTION_NOT_AVAILABLE
from sc2_envs.engine.interface import NO_OP, carry_out, is_available
from sc2_envs.engine.maps import after_loop, start
from sc2_envs.engine.movement import settle_units
from sc2_envs.engine.production import produce
from sc2_envs.engine.score import SCORE, count_first_units, count_loop, forget_score
from sc2_envs.engine.selection import forget_unseen
from sc2_envs.engine.snapshots import update_snapshots
from sc2_envs.engine.units import NOTHING
from sc2_envs.engine.vision import update_vision
from sc2_envs.engine.world import MAX_PLAYERS, PLAYER

NO_FUNCTION = -1


@jit
def new_episode(world, playable, revealed, camera):
    """Clear the world, all but its random stream, and let the map put down its units."""
    world.game_loop = 0
    world.reward = 0.0
    world.terminated = 0
    world.truncated = 0
    for i in range(4):
        world.playable[i] = playable[i]
        world.revealed[i] = revealed[i]
    for player in range(MAX_PLAYERS):
        world.minerals[player] = 0
        world.vespene[player] = 0
        world.food_cap[player] = 0
        world.camera_x[player] = camera[0]
        world.camera_y[player] = camera[1]
        world.last_function[player] = NO_FUNCTION
        world.last_error[player] = FINE
        world.lost[player] = 0
        world.population[player] = 0
        world.snapshots[player] = 0
        world.visibility[player][:] = 0
        world.viewers[player][:] = 0
    forget_alerts(world)
    forget_score(world)
    world.obstacles[:] = 0
    world.obstacles_changed = 0
    world.walls_age = 0
    world.reached_age = 0
    world.settled_age = 0
    world.missiles = 0
    world.regenerating = 0
    world.hurt = 0
    world.dying = 0
    world.deaths = 0
    for slot in range(world.slots):
        world.type[slot] = NOTHING
        world.owner[slot] = 0
    world.slots = 0
    world.next_tag = 0
    world.revealed_drawn = 0
    world.vision_changed = 1
    world.seen_slots = 0
    world.seen_sight[:] = 0
    start(world)
    count_first_units(world)
    update_vision(world)
    update_snapshots(world)


@jit
def play_step(world, player, sizes, area, function, arguments, game_loops, time_limit):
    """Carry out an action and play some game loops, fewer where the episode ends.

    The action is at work in the first of these loops: sent at loop t, it shows at loop t + 1, as in the real game.
    Returns FINE, or the reason for which the action was refused. The reward is left in `world.reward`.
    """
    world.reward = 0.0
    world.last_function[player - 1] = NO_FUNCTION
    world.alerts[player - 1] = 0
    world.last_error[player - 1] = FINE
    result = FUNCTION_NOT_AVAILABLE
    if is_available(world, player, function):
        result = carry_out(world, player, sizes, area, function, arguments)
        if result == FINE and function != NO_OP:
            world.last_function[player - 1] = function
    for _ in range(game_loops):
        play_loop(world, time_limit)
        if world.terminated or world.truncated:
            break
    for other in range(1, MAX_PLAYERS + 1):
        forget_unseen(world, other)
        refused = other == player and result > FINE
        if refused or world.last_error[other - 1] != FINE:
            alert(world, other, ALERT_ERROR)
    return result


@jit
def play_loop(world, time_limit):
    """One game loop, 1/22.4 s."""
    world.game_loop += 1
    for player in range(MAX_PLAYERS):
        world.lost[player] = 0
        world.delivered[player] = 0
        world.trained[player] = 0
    count_loop(world)
    fly_missiles(world)
    act_units(world)
    settle_units(world)
    answer_attacks(world)
    produce(world)
    regenerate(world)
    update_vision(world)
    update_snapshots(world)
    points = after_loop(world)
    world.reward += points
    world.score[PLAYER - 1, SCORE] += points
    if world.game_loop >= time_limit:
        world.truncated = 1
