"""What a player remembers of structures and resources over which the fog has closed.

Somebody else's structure or resource that goes out of sight leaves a snapshot of its type, owner, place and progress;
one that flies leaves none. It stands until its place is visible again: then the living one is seen there, or that it
is gone; or until the living one is seen elsewhere. What a player
remembers is `world.snapshot_*[player - 1, i]` for i below `world.snapshots[player - 1]`, in the order in which they
went out of sight; `snapshot_tag` is the tag of the unit that was there.
"""

from sc2_envs.engine.compile import jit
from sc2_envs.engine.units import SPEED, STRUCTURE
from sc2_envs.engine.vision import VISIBLE, sees_unit
from sc2_envs.engine.world import MAX_PLAYERS, MAX_SNAPSHOTS


@jit
def update_snapshots(world):
    """After the vision of a game loop: drop snapshots whose place is visible, make those of what went out of sight."""
    if world.fog_changed == 0 or all_is_revealed(world):
        return
    world.fog_changed = 0
    for player in range(1, MAX_PLAYERS + 1):
        forget_visible(world, player)
        bit = 1 << (player - 1)
        for slot in range(world.slots):
            if not STRUCTURE[world.type[slot]] or world.owner[slot] == player:
                continue
            seen, before = sees_unit(world, player, slot), world.in_sight[slot] & bit != 0
            if seen == before:
                continue
            world.in_sight[slot] ^= bit
            if seen:
                forget_unit(world, player, world.tag[slot])
            elif SPEED[world.type[slot]] == 0.0:
                remember(world, player, slot)


@jit
def all_is_revealed(world):
    """Whether the map shows the whole playable area at any time, so that nothing in it goes out of sight."""
    left, bottom, right, top = world.playable
    shown = world.revealed
    return shown[0] <= left and shown[1] <= bottom and shown[2] >= right and shown[3] >= top and shown[2] > shown[0]


@jit
def remember(world, player, slot):
    """Make a snapshot of a structure or resource; who remembers MAX_SNAPSHOTS forgets the oldest."""
    if world.snapshots[player - 1] == MAX_SNAPSHOTS:
        forget(world, player, 0)
    index = world.snapshots[player - 1]
    world.snapshots[player - 1] += 1
    world.snapshot_type[player - 1, index] = world.type[slot]
    world.snapshot_owner[player - 1, index] = world.owner[slot]
    world.snapshot_tag[player - 1, index] = world.tag[slot]
    world.snapshot_x[player - 1, index] = world.x[slot]
    world.snapshot_y[player - 1, index] = world.y[slot]
    world.snapshot_progress[player - 1, index] = world.progress[slot]


@jit
def forget_visible(world, player):
    """Drop the snapshots whose place is visible; the others keep their order."""
    kept = 0
    for index in range(world.snapshots[player - 1]):
        x, y = world.snapshot_x[player - 1, index], world.snapshot_y[player - 1, index]
        if world.visibility[player - 1, int(y), int(x)] == VISIBLE:
            continue
        move_snapshot(world, player, index, kept)
        kept += 1
    world.snapshots[player - 1] = kept


@jit
def forget_unit(world, player, tag):
    """A structure is seen again: where it has flown from another place, drop the snapshot of it there."""
    for index in range(world.snapshots[player - 1]):
        if world.snapshot_tag[player - 1, index] == tag:
            forget(world, player, index)
            return


@jit
def forget(world, player, index):
    """Drop one snapshot; the others keep their order."""
    for later in range(index + 1, world.snapshots[player - 1]):
        move_snapshot(world, player, later, later - 1)
    world.snapshots[player - 1] -= 1


@jit
def move_snapshot(world, player, index, to):
    """Write a snapshot in another one's place."""
    world.snapshot_type[player - 1, to] = world.snapshot_type[player - 1, index]
    world.snapshot_owner[player - 1, to] = world.snapshot_owner[player - 1, index]
    world.snapshot_tag[player - 1, to] = world.snapshot_tag[player - 1, index]
    world.snapshot_x[player - 1, to] = world.snapshot_x[player - 1, index]
    world.snapshot_y[player - 1, to] = world.snapshot_y[player - 1, index]
    world.snapshot_progress[player - 1, to] = world.snapshot_progress[player - 1, index]
