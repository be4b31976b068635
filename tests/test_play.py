"""Playing by hand: what clicks and keys mean, where they go, the window's loop, and the program's flags."""

import importlib.util
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from sc2_envs import MINI_GAMES
from sc2_envs.actions import FUNCTIONS_BY_NAME, ActionSet
from sc2_envs.engine import MAPS
from sc2_envs.engine.camera import WHOLE_MAP, minimap_position, screen_pixel
from sc2_envs.engine.pictures.canvas import SMOOTHING, Canvas, Field
from sc2_envs.engine.pictures.picture import SELECTION_COLOUR
from sc2_envs.engine.pictures.shapes import OWNER_COLOURS
from sc2_envs.engine.world import PLAYER, WORLD
from sc2_envs.play import __main__ as program
from sc2_envs.play.controls import AIMED, BUILDINGS, CANCELS, QUICK, TRAINING, Call, Controls, Modifiers
from sc2_envs.play.loop import WindowLoop
from sc2_envs.play.panel import panel_lines
from sc2_envs.play.session import PlayedGame, make_env, make_policy, minimap_layers
from sc2_envs.play.viewport import Box, FeatureCamera, Layout, Viewport
from sc2_envs.play.window import Window
from sc2_envs.scripted import SCRIPTS, Script

DOCUMENTATION = Path(__file__).resolve().parent.parent / "docs" / "play.md"
SHIFT, CTRL, ALT = Modifiers(shift=True), Modifiers(ctrl=True), Modifiers(alt=True)
CTRL_SHIFT = Modifiers(shift=True, ctrl=True)
PLAIN = Modifiers()

MARINE = {"Attack_screen", "Attack_minimap", "Move_screen", "Move_minimap", "Patrol_screen", "Patrol_minimap"}
SCV = MARINE | {"Harvest_Gather_screen", "Build_SupplyDepot_screen", "Build_Refinery_screen"}

needs_pygame = pytest.mark.skipif(importlib.util.find_spec("pygame") is None, reason="pygame is not installed")


# ---- what clicks and keys mean -----------------------------------------------------------------------------------


def window_pixel(view, point):
    """The window's pixel that shows a point of the world."""
    across = ((point[0] - view.left) * view.scale - view.source.left) / view.source.width
    down = ((view.top - point[1]) * view.scale - view.source.top) / view.source.height
    return (
        math.floor(view.target.left + across * view.target.width),
        math.floor(view.target.top + down * view.target.height),
    )


class Hands:
    """Controls of a window of 1280 x 720 on MoveToBeacon, where one world unit is 40 pixels."""

    def __init__(self):
        self.camera = FeatureCamera(33.0, 25.0, (256, 256), (64, 64))
        layout = Layout.of(1280, 720)
        view = Viewport.of(Field(tuple(MAPS["MoveToBeacon"].playable), 640), self.camera, layout.area)
        self.controls = Controls(layout, view, home=(33.0, 25.0))
        self.seconds = 0.0

    def click(self, point, modifiers=PLAIN, button="left", later=1.0, to=None):
        """Press and release at a point of the world, or draw to another one."""
        self.seconds += later
        start = window_pixel(self.controls.view, point)
        self.controls.press(button, start, modifiers)
        end = start if to is None else window_pixel(self.controls.view, to)
        self.controls.release(button, end, modifiers, self.seconds)

    def click_minimap(self, share, modifiers=PLAIN, button="left"):
        box = self.controls.layout.minimap
        pixel = box.left + int(share[0] * box.width), box.top + int(share[1] * box.height)
        self.controls.press(button, pixel, modifiers)
        self.controls.release(button, pixel, modifiers, self.seconds)

    def key(self, name, modifiers=PLAIN):
        self.controls.key_down(name, modifiers)
        self.controls.key_up(name)

    def calls(self, available=MARINE):
        """All that waits, as the steps send it."""
        found = []
        while (call := self.controls.next_call(available, self.camera)) is not None:
            found.append(call)
        return found


@pytest.fixture
def hands():
    return Hands()


def pixel(x, y):
    """The screen's pixel of a point, on 256 x 256 pixels and with the camera at (33, 25)."""
    return int(128 + (x - 33) * 256 / 24), int(128 - (y - 25) * 256 / 24)


@pytest.mark.parametrize(
    ("modifiers", "act"),
    [(PLAIN, "select"), (SHIFT, "toggle"), (CTRL, "select_all_type"), (CTRL_SHIFT, "add_all_type")],
)
def test_a_left_click_selects(hands, modifiers, act):
    hands.click((30.0, 30.0), modifiers)
    assert hands.calls() == [Call("select_point", {"select_point_act": act, "screen": pixel(30.0, 30.0)})]


def acts(calls):
    return [call.arguments["select_point_act"] for call in calls]


def test_a_double_click_selects_all_of_the_type(hands):
    hands.click((30.0, 30.0))
    hands.click((30.0, 30.0), later=0.2)
    assert acts(hands.calls()) == ["select", "select_all_type"]
    hands.click((30.0, 30.0), later=0.2)  # a third click is not another double one
    assert acts(hands.calls()) == ["select"]


@pytest.mark.parametrize(("second", "later"), [((30.0, 30.0), 0.6), ((31.0, 30.0), 0.2)])
def test_two_clicks_are_no_double_click_when_they_are_late_or_apart(hands, second, later):
    hands.click((30.0, 30.0))
    hands.click(second, later=later)
    assert acts(hands.calls()) == ["select", "select"]


@pytest.mark.parametrize(("modifiers", "select_add"), [(PLAIN, "select"), (SHIFT, "add")])
def test_drawing_a_rectangle_selects(hands, modifiers, select_add):
    hands.click((30.0, 30.0), modifiers, to=(35.0, 27.0))
    arguments = {"select_add": select_add, "screen": pixel(30.0, 30.0), "screen2": pixel(35.0, 27.0)}
    assert hands.calls() == [Call("select_rect", arguments)]


def test_a_rectangle_ends_at_the_edge_of_what_is_seen(hands):
    hands.controls.press("left", window_pixel(hands.controls.view, (30.0, 30.0)))
    hands.controls.release("left", (1270, 5000), PLAIN, 1.0)
    (call,) = hands.calls()
    assert call.arguments["screen2"] == (255, pixel(30.0, 19.02)[1])


def test_a_click_that_trembles_is_a_click(hands):
    column, row = window_pixel(hands.controls.view, (30.0, 30.0))
    hands.controls.press("left", (column, row))
    hands.controls.release("left", (column + 4, row - 3), PLAIN, 1.0)
    (call,) = hands.calls()
    assert call == Call("select_point", {"select_point_act": "select", "screen": pixel(30.0, 30.0)})


@pytest.mark.parametrize(("modifiers", "queued"), [(PLAIN, "now"), (SHIFT, "queued")])
def test_a_right_click_is_smart(hands, modifiers, queued):
    hands.click((40.0, 22.0), modifiers, button="right")
    hands.click_minimap((0.5, 0.25), modifiers, button="right")
    assert hands.calls() == [
        Call("Smart_screen", {"queued": queued, "screen": pixel(40.0, 22.0)}),
        Call("Smart_minimap", {"queued": queued, "minimap": (32, 16)}),
    ]


def test_a_left_click_on_the_minimap_moves_the_camera(hands):
    hands.click_minimap((0.25, 0.75))
    assert hands.calls() == [Call("move_camera", {"minimap": (16, 48)})]


def test_clicks_on_the_panel_do_nothing(hands):
    hands.controls.press("left", (1000, 300))
    hands.controls.release("left", (1000, 300), PLAIN, 1.0)
    hands.controls.press("right", (1000, 300))
    assert hands.calls() == []


@pytest.mark.parametrize(("key", "name"), [("a", "Attack"), ("m", "Move"), ("p", "Patrol")])
def test_a_command_waits_for_its_target(hands, key, name):
    hands.key(key)
    assert hands.calls() == []
    assert hands.controls.aim == (f"{name}_screen", f"{name}_minimap")
    hands.click((30.0, 30.0))
    hands.click((31.0, 30.0))  # no longer aimed
    assert hands.calls() == [
        Call(f"{name}_screen", {"queued": "now", "screen": pixel(30.0, 30.0)}),
        Call("select_point", {"select_point_act": "select", "screen": pixel(31.0, 30.0)}),
    ]
    hands.key(key)
    hands.click_minimap((0.5, 0.5), SHIFT)
    assert hands.calls() == [Call(f"{name}_minimap", {"queued": "queued", "minimap": (32, 32)})]


def test_with_shift_a_command_goes_on_until_the_key_goes_up(hands):
    hands.key("p")
    hands.click((30.0, 30.0), SHIFT)
    hands.click((32.0, 30.0), SHIFT)
    assert [call.arguments["queued"] for call in hands.calls()] == ["queued", "queued"]
    hands.controls.key_up("left shift")
    hands.click((34.0, 30.0))
    assert [call.function for call in hands.calls()] == ["select_point"]


def test_shift_may_go_up_before_the_target_is_clicked(hands):
    hands.controls.key_down("left shift", SHIFT)
    hands.key("a", SHIFT)
    hands.controls.key_up("left shift")
    hands.click((34.0, 30.0))
    assert [call.function for call in hands.calls()] == ["Attack_screen"]


@pytest.mark.parametrize("way_out", ["escape", "right"])
@pytest.mark.parametrize("begun", ["a", "b"])
def test_a_command_can_be_left(hands, begun, way_out):
    hands.key(begun)
    if way_out == "escape":
        hands.key("escape")
    else:
        hands.click((30.0, 30.0), button="right")
    assert hands.calls(SCV | {"Cancel_Last_quick"}) == []
    assert hands.controls.aim is None and not hands.controls.building


def test_what_is_not_available_does_not_wait_for_a_target(hands):
    hands.key("g")
    assert hands.calls() == []
    assert hands.controls.aim is None
    assert hands.controls.note == "Harvest_Gather_screen: FunctionNotAvailable"
    hands.key("b")
    assert hands.calls() == []
    assert hands.controls.note == "Build: FunctionNotAvailable"
    hands.click((30.0, 30.0))
    assert len(hands.calls()) == 1
    assert hands.controls.note == ""


def test_a_target_on_the_minimap_that_pysc2_does_not_have(hands):
    hands.key("g")
    hands.click_minimap((0.5, 0.5))
    assert hands.calls(SCV) == []
    assert hands.controls.note == "Harvest_Gather_screen: its target is on the screen, not on the minimap"
    hands.click((30.0, 30.0))  # still waiting for one
    assert [call.function for call in hands.calls(SCV)] == ["Harvest_Gather_screen"]


@pytest.mark.parametrize("key", BUILDINGS)
def test_building(hands, key):
    hands.key("b")
    hands.key(key)
    hands.click((30.0, 30.0))
    (call,) = hands.calls({aim.screen for aim in BUILDINGS.values()})
    assert call == Call(BUILDINGS[key].screen, {"queued": "now", "screen": pixel(30.0, 30.0)})


def test_other_keys_are_not_heard_while_a_building_is_chosen(hands):
    hands.key("b")
    hands.key("h")
    hands.key("s")
    assert hands.calls(SCV) == []
    assert hands.controls.aim == BUILDINGS["s"]


@pytest.mark.parametrize("key", QUICK)
def test_commands_without_a_target(hands, key):
    hands.key(key)
    hands.key(key, SHIFT)
    assert hands.calls() == [Call(QUICK[key], {"queued": "now"}), Call(QUICK[key], {"queued": "queued"})]


def test_a_structure_trains_where_it_can(hands):
    for key, function in TRAINING.items():
        hands.key(key)
        assert hands.calls(MARINE | {function}) == [Call(function, {"queued": "now"})]


def test_keys_mean_what_is_available_when_they_are_sent(hands):
    hands.key("f2")
    hands.key("s")
    assert hands.controls.next_call({"Train_SCV_quick"}, hands.camera).function == "select_army"
    # the army is selected by now, the CommandCenter no longer
    assert hands.controls.next_call(MARINE, hands.camera).function == "Stop_quick"


def test_escape_cancels_what_can_be_cancelled(hands):
    hands.key("escape")
    assert hands.calls(CANCELS) == [Call("Cancel_Last_quick", {"queued": "now"})]
    hands.key("escape")
    assert hands.calls({"Cancel_quick"}) == [Call("Cancel_quick", {"queued": "now"})]
    hands.key("escape")
    assert hands.calls() == []


@pytest.mark.parametrize(
    ("modifiers", "act"),
    [
        (PLAIN, "recall"),
        (CTRL, "set"),
        (SHIFT, "append"),
        (ALT, "set_and_steal"),
        (Modifiers(shift=True, alt=True), "append_and_steal"),
    ],
)
def test_control_groups(hands, modifiers, act):
    for group in range(10):
        hands.key(str(group), modifiers)
    expected = [{"control_group_act": act, "control_group_id": group} for group in range(10)]
    assert hands.calls() == [Call("select_control_group", arguments) for arguments in expected]


def test_army_and_idle_workers(hands):
    for key in ("f2", "`"):
        hands.key(key)
        hands.key(key, SHIFT)
    expected = [Call("select_army", {"select_add": act}) for act in ("select", "add")]
    assert hands.calls() == expected + expected
    for modifiers in (PLAIN, SHIFT, CTRL, CTRL_SHIFT):
        hands.key("f1", modifiers)
    expected = ["select", "add", "select_all", "add_all"]
    assert [call.arguments["select_worker"] for call in hands.calls()] == expected


def test_with_control_letters_are_no_commands(hands):
    for key in "abghmps":
        hands.key(key, CTRL)
    assert hands.calls(SCV) == []
    assert hands.controls.aim is None


def test_nothing_is_lost_and_the_order_stays(hands):
    for number in range(30):
        hands.click((25.0 + number / 4, 30.0), button="right")
        hands.key(str(number % 10), CTRL)
    calls = hands.calls()
    assert [call.arguments["screen"] for call in calls[::2]] == [pixel(25.0 + n / 4, 30.0) for n in range(30)]
    assert [call.arguments["control_group_id"] for call in calls[1::2]] == [n % 10 for n in range(30)]


def test_every_call_is_one_of_pysc2s():
    action_set = ActionSet("all", (256, 256), (64, 64))
    hands = Hands()
    everything = set(FUNCTIONS_BY_NAME)
    for key in [*AIMED, *QUICK, *TRAINING, "f1", "f2", "escape", "home", "1"]:
        hands.key(key)
        hands.click((30.0, 30.0))
    for key in AIMED:
        if key not in TRAINING:
            hands.key(key)
            hands.click_minimap((0.5, 0.5))
            hands.key("escape")
    for key in BUILDINGS:
        hands.key("b")
        hands.key(key)
        hands.click((30.0, 30.0))
    hands.click((30.0, 30.0), to=(33.0, 33.0))
    calls = hands.calls(everything)
    assert len(calls) > 20
    for call in calls:
        name, arguments = action_set.decode(action_set.encode(call.function, **call.arguments))
        assert (name, arguments) == call


def test_arrows_scroll_while_they_are_held(hands):
    hands.controls.key_down("right")
    hands.controls.key_down("up")
    # the camera at (33, 25) stands in pixel (33, 39)
    assert [hands.controls.next_call(MARINE, hands.camera) for _ in range(2)] == [
        Call("move_camera", {"minimap": (34, 38)})
    ] * 2
    hands.key("h")  # what is pressed goes first
    assert hands.controls.next_call(MARINE, hands.camera).function == "HoldPosition_quick"
    hands.controls.key_up("up")
    assert hands.controls.next_call(MARINE, hands.camera).arguments == {"minimap": (34, 39)}
    hands.controls.key_down("left")
    assert hands.calls() == []
    hands.controls.let_go()
    hands.controls.key_down("down")
    assert hands.controls.next_call(MARINE, hands.camera).arguments == {"minimap": (33, 40)}


def test_scrolling_ends_at_the_edge_of_the_map():
    hands = Hands()
    hands.controls.key_down("left")
    call = hands.controls.next_call(MARINE, FeatureCamera(0.2, 25.0, (256, 256), (64, 64)))
    assert call.arguments["minimap"][0] == 0


def test_home_moves_the_camera_back(hands):
    hands.key("home")
    assert hands.calls() == [Call("move_camera", {"minimap": (33, 39)})]


def test_a_click_keeps_its_place_when_the_camera_moves(hands):
    hands.click((30.0, 30.0), button="right")
    hands.camera = FeatureCamera(35.0, 26.0, (256, 256), (64, 64))
    (call,) = hands.calls()
    assert call.arguments["screen"] == pixel(28.0, 29.0)
    hands.click((22.0, 30.0), button="right")
    hands.camera = FeatureCamera(42.0, 26.0, (256, 256), (64, 64))
    assert hands.calls() == []
    assert hands.controls.note == "Smart_screen: the camera has left that point"


def test_a_new_episode_forgets_what_was_begun(hands):
    hands.key("a")
    hands.calls()
    hands.click((30.0, 30.0))
    hands.controls.clear()
    assert hands.calls() == []
    hands.click((30.0, 30.0))
    assert [call.function for call in hands.calls()] == ["select_point"]


# ---- where clicks go ---------------------------------------------------------------------------------------------

VIEWS = [
    # map, camera (None: where it stands first), screen
    ("MoveToBeacon", None, (256, 256)),
    ("MoveToBeacon", (33.0, 31.5), (84, 84)),
    ("MoveToBeacon", None, (256, 128)),
    ("FindAndDefeatZerglings", (22.5, 38.25), (256, 256)),
    ("FindAndDefeatZerglings", (41.53, 17.47), (200, 100)),
    ("BuildMarines", None, (256, 256)),
]


def the_view(map_name, camera, screen_size, window):
    info = MAPS[map_name]
    canvas = Canvas(tuple(info.playable), 640)
    camera = FeatureCamera(*(camera or info.camera), screen_size, (64, 64))
    return canvas, camera, Viewport.of(Field(tuple(info.playable), 640), camera, Layout.of(*window).area)


def points_of(view, count=400):
    """Pixels of the window that show the world."""
    generator = np.random.default_rng(1)
    box = view.target
    columns = generator.integers(box.left, box.left + box.width, count)
    rows = generator.integers(box.top, box.top + box.height, count)
    return zip(columns.tolist(), rows.tolist(), strict=True)


@pytest.mark.parametrize("window", [(1280, 720), (801, 1003), (400, 200)])
@pytest.mark.parametrize(("map_name", "camera", "screen_size"), VIEWS)
def test_a_pixel_means_the_place_that_the_picture_draws_there(map_name, camera, screen_size, window):
    canvas, camera, view = the_view(map_name, camera, screen_size, window)
    zoom = view.target.width / view.source.width, view.target.height / view.source.height
    assert zoom[0] == pytest.approx(zoom[1], rel=0.01)
    for column, row in points_of(view):
        x, y = view.point((column, row))
        drawn_column, drawn_row = (place / SMOOTHING for place in canvas.at(x, y))
        assert view.target.left + (drawn_column - view.source.left) * zoom[0] == pytest.approx(column + 0.5)
        assert view.target.top + (drawn_row - view.source.top) * zoom[1] == pytest.approx(row + 0.5)
        assert window_pixel(view, (x, y)) == (column, row)


def rule(function):
    """A rule of the engine in plain Python, compiled or not."""
    return getattr(function, "py_func", function)


def engines_screen_pixel(camera, x, y):
    world = np.zeros(1, WORLD).view(np.recarray)[0]
    world.camera_x[0], world.camera_y[0] = camera.x, camera.y
    return rule(screen_pixel)(world, 1, *camera.screen_size, x, y)


def nearest_inside(pixel, size):
    return tuple(min(max(place, 0), side - 1) for place, side in zip(pixel, size, strict=True))


@pytest.mark.parametrize(("map_name", "camera", "screen_size"), VIEWS)
def test_a_place_is_the_screens_pixel_of_the_engine(map_name, camera, screen_size):
    _, camera, view = the_view(map_name, camera, screen_size, (1280, 720))
    width, height = screen_size
    seen = set()
    for column, row in points_of(view):
        x, y = view.point((column, row))
        theirs = engines_screen_pixel(camera, x, y)
        # a pixel of the picture reaches over the screen's edge by less than a pixel of the screen
        assert -1 <= theirs[0] <= width and -1 <= theirs[1] <= height
        clamped = nearest_inside(theirs, screen_size)
        assert camera.screen_pixel((x, y)) == clamped
        seen.add(clamped)
    assert len(seen) > 300


@pytest.mark.parametrize(("map_name", "camera", "screen_size"), VIEWS)
def test_a_place_anywhere_is_on_the_screen_and_the_minimap_where_the_engine_has_it(map_name, camera, screen_size):
    camera = FeatureCamera(*(camera or MAPS[map_name].camera), screen_size, (64, 48))
    generator = np.random.default_rng(2)
    anywhere = generator.uniform(-4, 68, (400, 2))
    about_the_screen = (camera.x, camera.y) + generator.uniform(-1.02, 1.02, (800, 2)) * camera.reach
    beyond = 0
    for x, y in np.concatenate([anywhere, about_the_screen]).tolist():
        theirs = engines_screen_pixel(camera, x, y)
        clamped = nearest_inside(theirs, screen_size)
        assert camera.screen_pixel((x, y), clamp=True) == clamped
        if max(abs(clamped[0] - theirs[0]), abs(clamped[1] - theirs[1])) > 1:
            assert camera.screen_pixel((x, y)) is None
            beyond += 1
        place = rule(minimap_position)(WHOLE_MAP, *camera.minimap_size, x, y)
        assert camera.minimap_pixel((x, y)) == nearest_inside(np.floor(place), camera.minimap_size)
    assert 100 < beyond < 600


@pytest.mark.parametrize(("map_name", "camera", "screen_size"), VIEWS)
def test_the_view_shows_all_that_the_camera_does(map_name, camera, screen_size):
    canvas, camera, view = the_view(map_name, camera, screen_size, (1280, 720))
    left, top = view.point(view.target[:2])
    right, bottom = view.point((view.target.left + view.target.width, view.target.top + view.target.height))
    reach = 12 * screen_size[1] / screen_size[0]
    slack = 1.0 / canvas.scale
    assert left == pytest.approx(max(camera.x - 12, canvas.left), abs=slack)
    assert top == pytest.approx(min(camera.y + reach, canvas.top), abs=slack)
    assert right == pytest.approx(min(camera.x + 12, canvas.left + 640 / canvas.scale), abs=slack)
    assert bottom == pytest.approx(max(camera.y - reach, canvas.top - canvas.field_height / canvas.scale), abs=slack)


def test_places_beyond_the_screen():
    camera = FeatureCamera(33.0, 25.0, (256, 256), (64, 64))
    assert camera.screen_pixel((20.0, 25.0)) is None
    assert camera.screen_pixel((20.0, 25.0), clamp=True) == (0, 128)
    assert camera.minimap_pixel((70.0, -3.0)) == (63, 63)


def test_the_minimap_is_the_whole_map():
    layout = Layout.of(1280, 720)
    box = layout.minimap
    camera = FeatureCamera(33.0, 25.0, (256, 256), (64, 64))
    corners = [(box.left, box.top), (box.left + box.width - 1, box.top + box.height - 1)]
    assert [camera.minimap_pixel(layout.minimap_point(corner)) for corner in corners] == [(0, 0), (63, 63)]
    middle = box.left + box.width // 2, box.top + box.height // 4
    assert layout.minimap_point(middle) == pytest.approx((32.0, 48.0), abs=0.3)


@pytest.mark.parametrize("window", [(1280, 720), (500, 900), (60, 40)])
def test_the_parts_of_the_window_do_not_overlap(window):
    layout = Layout.of(*window)
    assert layout.area.width + layout.panel.width == window[0]
    assert all(layout.panel.holds(corner) for corner in (layout.minimap[:2], (layout.minimap.left, window[1] - 13)))
    assert Box(10, 20, 100, 50).fit(10, 10) == Box(35, 20, 50, 50)


# ---- the game ----------------------------------------------------------------------------------------------------


def new_game(map_name="MoveToBeacon", policy="human", step_mul=1, steps_a_decision=1):
    env = make_env(map_name, policy, step_mul)
    return PlayedGame(env, map_name, step_mul, make_policy(env, map_name, policy), steps_a_decision)


def marines(game):
    """Places of the player's units, (n, 2)."""
    world = game.env.games.worlds[0]
    own = (world["owner"] == 1) & (world["type"] != 0)
    return np.stack([world["x"][own], world["y"][own]], axis=1)


def test_a_person_sees_what_comes_of_calls():
    game = new_game("CollectMineralShards")
    game.start(1)
    assert game.player[1:5].tolist() == [0, 0, 2, game.player[4]]
    assert len(game.selection) == 0 and "Move_screen" not in game.available
    game.step(Call("select_army", {"select_add": "select"}))
    assert game.last_call == "select_army" and game.refusal == ""
    assert len(game.selection) == 2 and "Move_screen" in game.available
    game.step(Call("Train_SCV_quick", {"queued": "now"}))
    assert game.refusal == "Train_SCV_quick: FunctionNotAvailable"
    game.step()
    assert game.refusal == "Train_SCV_quick: FunctionNotAvailable"  # the last one stays in sight
    game.step(Call("Stop_quick", {"queued": "now"}))
    assert game.refusal == ""
    assert game.info["game_loop"] == 4
    assert game.seconds_left == pytest.approx((MAPS["CollectMineralShards"].time_limit - 4) / 22.4)


@pytest.mark.parametrize("map_name", ["MoveToBeacon", "CollectMineralShards"])
def test_a_policy_plays_the_same_in_short_steps(map_name):
    scores = []
    for step_mul, steps_a_decision in ((8, 1), (2, 4), (1, 8)):
        game = new_game(map_name, "scripted", step_mul, steps_a_decision)
        game.start(3)
        while not game.ended:
            game.step()
        scores.append(game.score)
    assert scores[0] == scores[1] == scores[2] > 15


def test_a_script_sees_its_layers_of_the_minimap_first():
    class WithLayers(Script):
        MINIMAP_LAYERS = ("camera", "pathable")

    layers = minimap_layers(WithLayers)
    assert layers[:2] == ("camera", "pathable")
    assert set(layers) == {"camera", "pathable", "visibility_map", "player_relative", "selected"}


def test_the_minimap_shows_who_is_where():
    game = new_game()
    game.start(1)
    picture = game.minimap()
    assert picture.shape == (64, 64, 3)
    (x, y), *_ = marines(game)
    at = int(64 - y), int(x)
    assert tuple(picture[at]) == OWNER_COLOURS[PLAYER]
    game.step(Call("select_army", {"select_add": "select"}))
    assert tuple(game.minimap()[at]) == SELECTION_COLOUR


def text_of(lines):
    return "\n".join(text for text, _ in lines)


def test_the_panel_tells_the_state():
    game, hands = new_game("CollectMineralShards"), Hands()
    game.start(1)
    text = text_of(panel_lines(game, hands.controls))
    assert "CollectMineralShards, episode 1" in text
    assert "score 0      1:26 left" in text  # the timer's 120 s are those of speed "normal"
    assert "minerals 0   gas 0   supply 2/" in text
    assert "nothing is selected" in text
    for call in (
        Call("select_army", {"select_add": "select"}),
        Call("select_control_group", {"control_group_act": "set", "control_group_id": 4}),
        Call("Train_Marine_quick", {"queued": "now"}),
    ):
        game.step(call)
    hands.key("a")
    hands.key("h")
    hands.controls.next_call(MARINE, hands.camera)
    hands.key("a")
    hands.calls()
    text = text_of(panel_lines(game, hands.controls))
    assert text.count("Marine   45/45") == 2
    assert "groups  4: Marine x 2" in text
    assert "Attack: click the target" in text
    assert "refused  Train_Marine_quick: FunctionNotAvailable" in text


# ---- the window --------------------------------------------------------------------------------------------------


class Table:
    """A window that nobody sees, a game in it, and events as a mouse and a keyboard would send them."""

    def __init__(self, pygame, map_name="MoveToBeacon", policy="human", seed=1, **keywords):
        self.pygame = pygame
        self.game = new_game(map_name, policy)
        self.seconds = 0.0
        self.loop = WindowLoop(self.game, Window("test"), seed=seed, clock=lambda: self.seconds, **keywords)

    def tick(self, steps=1):
        """Let the time of some steps pass, a frame each."""
        for _ in range(steps):
            self.seconds += 1 / 22.4
            if not self.loop.tick():
                return False
        return True

    def key(self, key, mod=0):
        for kind in (self.pygame.KEYDOWN, self.pygame.KEYUP):
            self.pygame.event.post(self.pygame.event.Event(kind, key=key, mod=mod))

    def mouse(self, button, start, end=None):
        """Press and release at points of the world."""
        start = window_pixel(self.loop.controls.view, start)
        end = start if end is None else window_pixel(self.loop.controls.view, end)
        post, event = self.pygame.event.post, self.pygame.event.Event
        post(event(self.pygame.MOUSEBUTTONDOWN, button=button, pos=start))
        post(event(self.pygame.MOUSEMOTION, pos=end, rel=(0, 0), buttons=(1, 0, 0)))
        post(event(self.pygame.MOUSEBUTTONUP, button=button, pos=end))

    def seen(self):
        """What the window shows, (width, height, 3)."""
        return self.pygame.surfarray.array3d(self.pygame.display.get_surface())


@pytest.fixture
def pygame(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    pygame = pytest.importorskip("pygame")
    yield pygame
    pygame.quit()


def test_a_person_walks_the_marine_to_where_they_click(pygame):
    table = Table(pygame)
    assert table.tick()
    before = table.seen()
    (start,) = marines(table.game)
    for goal in ((25.3, 22.6), (41.8, 34.2)):
        table.mouse(1, marines(table.game)[0])
        table.mouse(3, goal)
        assert table.tick(250)
        (place,) = marines(table.game)
        # half a pixel of the window, and half a pixel of the screen
        assert np.abs(place - goal).max() <= 0.5 / 40 + 0.5 * 24 / 256
    assert np.abs(place - start).max() > 1
    assert table.game.refusal == "" and len(table.game.selection) == 1
    assert (table.seen() != before).any(axis=2).mean() > 0.001


def test_a_marine_is_selected_where_the_window_shows_it(pygame):
    for seed in range(1, 6):
        table = Table(pygame, "CollectMineralShards", seed=seed)
        table.tick()
        for number, place in enumerate(marines(table.game)):
            table.mouse(1, place)
            table.tick(2)
            selected = table.game.env.games.worlds[0]["selected"]
            assert np.flatnonzero(selected).tolist() == [np.flatnonzero(selected)[0]]
            world = table.game.env.games.worlds[0]
            chosen = np.flatnonzero(selected)[0]
            np.testing.assert_allclose((world["x"][chosen], world["y"][chosen]), place, err_msg=f"{number}")


def test_a_rectangle_is_drawn_and_selects(pygame):
    table = Table(pygame, "CollectMineralShards")
    table.tick()
    view = table.loop.controls.view
    table.mouse(1, (22.0, 36.0), (44.0, 20.0))
    table.tick()
    assert len(table.game.selection) == 2
    pressed = pygame.event.Event(pygame.MOUSEBUTTONDOWN, button=1, pos=window_pixel(view, (24.0, 34.0)))
    moved = pygame.event.Event(pygame.MOUSEMOTION, pos=window_pixel(view, (30.0, 30.0)), rel=(0, 0), buttons=(1, 0, 0))
    pygame.event.post(pressed)
    pygame.event.post(moved)
    table.tick()
    column, row = window_pixel(view, (24.0, 32.0))
    assert tuple(table.seen()[column, row]) == SELECTION_COLOUR


def test_clicks_between_two_steps_are_all_sent(pygame):
    table = Table(pygame, "CollectMineralShards")
    table.tick()
    loop = table.game.info["game_loop"]
    calls = []
    step = table.game.step
    table.game.step = lambda call=None: (calls.append(call and call.function), step(call))
    table.key(pygame.K_F2)
    table.key(pygame.K_5, pygame.KMOD_LCTRL)
    table.mouse(3, (30.0, 30.0))
    table.key(pygame.K_a)
    table.mouse(1, (35.0, 30.0))
    table.loop.tick()  # no time has passed: nothing is sent, nothing is lost
    assert table.game.info["game_loop"] == loop
    table.tick(6)
    expected = ["select_army", "select_control_group", "Smart_screen", "Attack_screen", None, None]
    assert calls == expected


def test_pause_new_episode_and_quit(pygame):
    table = Table(pygame)
    table.tick(5)
    table.key(pygame.K_SPACE)
    table.tick()
    loop = table.game.info["game_loop"]
    table.mouse(1, marines(table.game)[0])
    table.tick(10)
    assert table.game.info["game_loop"] == loop and table.loop.paused
    table.key(pygame.K_SPACE)
    table.tick(3)
    assert table.game.info["game_loop"] > loop
    assert len(table.game.selection) == 1  # clicked in the pause
    table.key(pygame.K_r, pygame.KMOD_LCTRL)
    table.tick()
    assert table.game.episode == 2 and table.game.info["game_loop"] <= 1 and len(table.game.selection) == 0
    table.key(pygame.K_q, pygame.KMOD_LCTRL)
    assert not table.tick()


def test_closing_the_window_ends_the_loop(pygame):
    table = Table(pygame)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    table.loop.run()
    assert table.game.info["game_loop"] <= 1


def test_after_the_end_a_person_asks_for_the_next_episode(pygame, capsys):
    table = Table(pygame)
    limit = table.game.map.time_limit
    while not table.game.ended:
        table.game.step()
        if table.game.info["game_loop"] == limit - 2:
            break
    table.tick(5)
    assert table.game.ended and table.loop.scores == [table.game.score]
    assert f"episode 1: score {table.game.score:g}, {limit} game loops" in capsys.readouterr().out
    table.mouse(3, (30.0, 30.0))
    table.tick(2)
    assert table.game.ended
    table.key(pygame.K_RETURN)
    table.tick()
    assert not table.game.ended and table.game.episode == 2 and not table.loop.controls.waiting


def test_slow_frames_slow_the_game_down_and_fast_ones_do_not_hurry_it(pygame):
    table = Table(pygame)
    table.tick(20)
    assert table.game.info["game_loop"] == pytest.approx(20, abs=1)
    for _ in range(100):
        table.seconds += 0.001
        table.loop.tick()
    assert table.game.info["game_loop"] == pytest.approx(20 + 0.1 * 22.4, abs=1)


def test_a_machine_that_was_too_slow_does_not_rush_afterwards(pygame):
    table = Table(pygame)
    step = table.game.step

    def slow_step(call=None):
        table.seconds += 0.2
        step(call)

    table.game.step = slow_step
    table.tick(10)  # more than two seconds, for ten steps
    table.game.step = step
    loop = table.game.info["game_loop"]
    assert loop == pytest.approx(10, abs=1)
    table.tick()
    assert table.game.info["game_loop"] - loop <= 6  # what was due in the last slow step, not all that was missed


def test_speed(pygame):
    table = Table(pygame, speed=2.0)
    for _ in range(100):
        table.seconds += 0.01
        table.loop.tick()
    assert table.game.info["game_loop"] == pytest.approx(2 * 22.4, abs=2)


def test_a_resized_window_keeps_clicks_right(pygame):
    table = Table(pygame)
    pygame.display.set_mode((901, 467), pygame.RESIZABLE)
    table.loop.window._surface = pygame.display.get_surface()
    table.tick()
    assert table.loop.controls.layout == Layout.of(901, 467)
    table.key(pygame.K_F2)
    table.mouse(3, (26.0, 31.0))
    table.tick(250)
    assert np.abs(marines(table.game)[0] - (26.0, 31.0)).max() <= 0.5 * 24 / 256 + 24 / 581


def test_clicks_find_their_place_after_the_camera_has_moved(pygame):
    table = Table(pygame, "FindAndDefeatZerglings")
    table.tick()
    for key in (pygame.K_RIGHT, pygame.K_UP):
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key, mod=0))
        table.tick(5)
        pygame.event.post(pygame.event.Event(pygame.KEYUP, key=key, mod=0))
        table.tick()
    camera = table.game.camera
    assert camera.x > 35 and camera.y > 28
    assert table.loop.controls.view.point(table.loop.controls.view.target[:2]) == pytest.approx(
        (camera.x - 12, min(camera.y + 12, 45)), abs=0.1
    )
    calls = []
    step = table.game.step
    table.game.step = lambda call=None: (calls.append(call), step(call))
    table.mouse(1, (camera.x + 3.0, camera.y - 2.0))
    table.tick(2)
    column, row = calls[0].arguments["screen"]
    assert abs(column - 160) <= 1 and abs(row - 149) <= 1


def test_a_policy_is_shown_and_not_disturbed(pygame, capsys):
    scores = []
    for disturbed in (False, True):
        env = make_env("MoveToBeacon", "scripted", 1)
        game = PlayedGame(env, "MoveToBeacon", 1, make_policy(env, "MoveToBeacon", "scripted"), 8)
        loop = WindowLoop(game, Window("test"), speed=0.0, episodes=1, seed=3)
        if disturbed:
            pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_s, mod=0))
            pixel = window_pixel(loop.controls.view, (23.0, 21.0))
            pygame.event.post(pygame.event.Event(pygame.MOUSEBUTTONDOWN, button=3, pos=pixel))
        loop.run()
        assert not loop.controls.waiting
        scores += loop.scores
    assert scores[0] == scores[1] > 15
    assert capsys.readouterr().out.count("game loops") == 2


# ---- the program -------------------------------------------------------------------------------------------------


def test_headless_prints_each_score(capsys):
    flags = ["--map", "MoveToBeacon", "--policy", "scripted", "--headless", "--episodes", "2", "--seed", "3"]
    assert program.main(flags) == 0
    first = capsys.readouterr().out
    scores = [int(score) for score in re.findall(r"episode \d: score (\d+), 1920 game loops", first)]
    assert len(scores) == 2 and min(scores) > 15
    assert f"mean {np.mean(scores):.2f}, min {min(scores)}, max {max(scores)} over 2 episodes" in first
    program.main(flags)
    assert capsys.readouterr().out == first


def test_the_random_policy_is_seeded_and_knows_the_map_by_its_id(capsys):
    outputs = []
    for seed in ("5", "5", "6"):
        flags = ["--policy", "random", "--headless", "--episodes", "3", "--seed", seed]
        program.main(["--map", "SC2CollectMineralShards-v0", *flags])
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]


@needs_pygame
def test_a_window_for_a_policy(pygame, capsys):
    assert program.main(["--map", "MoveToBeacon", "--policy", "scripted", "--episodes", "1", "--speed", "0"]) == 0
    assert re.search(r"episode 1: score \d+, 1920 game loops", capsys.readouterr().out)


def test_a_video_of_a_person_holds_a_picture_a_step(tmp_path):
    pictures = []

    class Pictures:
        add = staticmethod(pictures.append)

    env = make_env("MoveToBeacon", "human", 1)
    game = PlayedGame(env, "MoveToBeacon", 1, video=Pictures())
    game.start(1)
    game.step(Call("select_army", {"select_add": "select"}))
    for x in range(8):
        game.step(Call("Move_screen", {"queued": "now", "screen": (40 + 20 * x, 30)}))
    assert len(pictures) == 10
    assert (pictures[-1] != pictures[0]).any()


def test_a_video_of_a_policy(tmp_path, capsys, monkeypatch):
    pictures = []
    monkeypatch.setattr(program.Video, "add", lambda self, picture: pictures.append(picture))
    path = tmp_path / "video.mp4"
    flags = ["--map", "MoveToBeacon", "--policy", "scripted", "--headless", "--step-mul", "64"]
    assert program.main([*flags, "--save-video", str(path)]) == 0
    assert len(pictures) == 1 + 1920 // 2  # the first, and one each two game loops
    assert f"video {path}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--map", "MoveToBecon"], "unknown map 'MoveToBecon' (did you mean 'MoveToBeacon'"),
        (["--map", "x"], f"unknown map 'x': there are {', '.join(MINI_GAMES)}"),
        (["--map", "MoveToBeacon", "--headless"], "add --policy scripted or --policy random"),
        (["--map", "MoveToBeacon", "--policy", "best"], "invalid choice: 'best'"),
        (["--map", "MoveToBeacon", "--episodes", "0"], "--episodes 0: at least 1"),
        (["--map", "MoveToBeacon", "--seed", "-1"], "--seed -1: a seed is a non-negative integer"),
        (["--map", "MoveToBeacon", "--step-mul", "0"], "--step-mul 0: game loops a step, from 1 to"),
        (["--map", "MoveToBeacon", "--speed", "-1"], "--speed -1.0: 0 or more"),
        (["--map", "MoveToBeacon", "--speed", "nan"], "--speed nan: 0 or more"),
        (["--map", "MoveToBeacon", "--save-video", "a.avi"], "has to end in .mp4 or .gif"),
        (["--policy", "random"], "required: --map"),
    ],
)
def test_flags_that_are_not_possible(flags, message, capsys):
    with pytest.raises(SystemExit) as refused:
        program.main(flags)
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


def test_a_map_without_a_script(monkeypatch, capsys):
    monkeypatch.setattr(program, "SCRIPTS", {"SC2MoveToBeacon-v0": SCRIPTS["SC2MoveToBeacon-v0"]})
    with pytest.raises(SystemExit):
        program.main(["--map", "CollectMineralShards", "--policy", "scripted"])
    assert "there is no script for CollectMineralShards, only for MoveToBeacon" in capsys.readouterr().err


def test_what_is_not_installed_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(SystemExit, match=r'a window needs pygame .*pip install -e "\.\[play\]".*--headless'):
        program.main(["--map", "MoveToBeacon"])
    monkeypatch.setattr(program.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        program.main(["--map", "MoveToBeacon", "--save-video", "a.mp4"])
    assert 'needs imageio-ffmpeg: pip install -e ".[play]"' in capsys.readouterr().err


def test_a_machine_without_a_display_is_told_so(pygame, monkeypatch):
    monkeypatch.delenv("SDL_VIDEODRIVER")
    monkeypatch.setattr(pygame.display, "init", lambda: None)
    monkeypatch.setattr(pygame.display, "get_driver", lambda: "offscreen")
    with pytest.raises(SystemExit, match="there is no display.*--headless"):
        Window("test")


def test_the_documentation_lists_every_key_and_flag():
    text = DOCUMENTATION.read_text(encoding="utf-8")
    for key in [*AIMED, *QUICK, *TRAINING]:
        assert re.search(rf"^\| `{key.upper()}`", text, re.MULTILINE), f"no row for {key}"
    for key in BUILDINGS:
        assert f"`B` `{key.upper()}`" in text
    for action in program.make_parser()._actions:
        for flag in action.option_strings:
            if flag not in ("-h", "--help"):
                assert f"`{flag}" in text, f"{flag} is not documented"
    commands = re.findall(r"python -m sc2_envs\.play (.+)", text)
    assert len(commands) >= 3
    for command in commands:
        program.parse_arguments(command.split("#")[0].split())
