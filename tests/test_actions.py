"""pysc2's functions and arguments, and action sets over them."""

import ast
import importlib.util
import pickle
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import MultiDiscrete
from hypothesis import given
from hypothesis import strategies as st

from sc2_envs.actions import (
    ARGUMENT_NAMES,
    ARGUMENT_SIZES,
    ARGUMENT_VALUES,
    FUNCTION_KIND,
    FUNCTIONS,
    FUNCTIONS_BY_NAME,
    SPATIAL_ARGUMENTS,
    ActionSet,
    FunctionKind,
    InvalidActionError,
)
from sc2_envs.engine.abilities import ABILITIES, RAW_FUNCTION

MARINES = ["no_op", "select_point", "select_rect", "select_army", "Move_screen", "Move_minimap", "Stop_quick"]
ALL = ActionSet("all", screen_size=(64, 48), minimap_size=(32, 40))


def action_sets():
    return st.builds(
        ActionSet,
        st.lists(st.integers(0, 572), min_size=1, max_size=12, unique=True),
        screen_size=st.tuples(st.integers(1, 90), st.integers(1, 90)),
        minimap_size=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    )


@st.composite
def action_sets_and_actions(draw, max_actions=4):
    action_set = draw(action_sets())
    row = st.tuples(*(st.integers(0, int(limit) - 1) for limit in action_set.nvec))
    rows = draw(st.lists(row, min_size=1, max_size=max_actions))
    return action_set, np.array(rows, np.int64)


def test_functions():
    assert len(FUNCTIONS) == 573
    assert [function.id for function in FUNCTIONS] == list(range(573))
    assert len(FUNCTIONS_BY_NAME) == 573
    move = FUNCTIONS_BY_NAME["Move_screen"]
    assert move == (331, "Move_screen", FunctionKind.cmd_screen, 3794, 0, ("queued", "screen"))
    # the specific function stands behind the general one
    assert FUNCTIONS_BY_NAME["Move_Move_screen"][:5] == (563, "Move_Move_screen", FunctionKind.cmd_screen, 16, 3794)
    assert FUNCTIONS[0].name == "no_op"
    assert FUNCTIONS[0].arguments == ()


def test_kinds_by_function_id():
    assert FUNCTION_KIND.dtype == np.int32
    assert FUNCTION_KIND.tolist() == [function.kind for function in FUNCTIONS]


def test_commands_have_an_ability_and_only_they():
    for function in FUNCTIONS:
        assert (function.ability_id > 0) == (function.kind >= FunctionKind.cmd_quick)


def test_every_argument_is_described_once():
    assert len(ARGUMENT_NAMES) == 13
    assert set(ARGUMENT_NAMES) == set(SPATIAL_ARGUMENTS) | set(ARGUMENT_SIZES)
    assert {name for function in FUNCTIONS for name in function.arguments} == set(ARGUMENT_NAMES)


def test_layout_of_an_action_set():
    action_set = ActionSet(MARINES, screen_size=(64, 48), minimap_size=(32, 40))
    assert [function.name for function in action_set.functions] == MARINES
    assert action_set.arguments == ("screen", "minimap", "screen2", "queued", "select_point_act", "select_add")
    assert action_set.nvec.dtype == np.int64
    assert action_set.nvec.tolist() == [7, 64 * 48, 32 * 40, 64 * 48, 2, 4, 2]
    assert action_set.argument_mask.dtype == bool
    assert action_set.argument_mask.shape == (7, 6)
    used = [[a for a, used in zip(action_set.arguments, row, strict=True) if used] for row in action_set.argument_mask]
    assert used == [
        [],
        ["screen", "select_point_act"],
        ["screen", "screen2", "select_add"],
        ["select_add"],
        ["screen", "queued"],
        ["minimap", "queued"],
        ["queued"],
    ]


def test_all_functions():
    assert ALL.functions == FUNCTIONS
    assert ALL.arguments == ARGUMENT_NAMES
    assert ALL.nvec[0] == 573


def test_no_op_is_put_first_where_it_is_not_listed():
    assert [f.name for f in ActionSet(["Move_screen", "select_army"]).functions] == [
        "no_op",
        "Move_screen",
        "select_army",
    ]
    assert [f.name for f in ActionSet(["Move_screen", "no_op"]).functions] == ["Move_screen", "no_op"]


def test_names_and_ids_are_the_same():
    assert ActionSet(["no_op", "Move_screen"]) == ActionSet([0, np.int64(331)])


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (["Move_scren"], "Move_screen"),
        (["move_camera", "move_camera"], "move_camera .* twice"),
        (["move_camera", 1], "move_camera .* twice"),
        ([], "empty"),
        ([573], "573"),
        ([-1], "-1"),
        ([1.0], "1.0"),
        ([True], "True"),
        ("Move_screen", r"\['Move_screen'\]"),
        ("everything", "'everything'"),
        (7, "not 7"),
        (None, "not None"),
    ],
)
def test_impossible_action_sets(functions, message):
    with pytest.raises(ValueError, match=message):
        ActionSet(functions)


@pytest.mark.parametrize("size", [64, (64,), (64, 64, 3), (0, 64), (64, -1), (64.0, 64), "64", (True, 64), None])
@pytest.mark.parametrize("name", ["screen_size", "minimap_size"])
def test_impossible_sizes(name, size):
    with pytest.raises(ValueError, match=name):
        ActionSet(MARINES, **{name: size})


def test_equal_by_value():
    action_set = ActionSet(MARINES, screen_size=(64, 48))
    assert action_set == ActionSet(MARINES, screen_size=(64, 48))
    assert hash(action_set) == hash(ActionSet(MARINES, screen_size=(64, 48)))
    assert action_set != ActionSet(MARINES, screen_size=(48, 64))
    assert action_set != ActionSet(MARINES, screen_size=(64, 48), minimap_size=(32, 32))
    assert action_set != ActionSet(MARINES[:-1], screen_size=(64, 48))
    assert action_set != MARINES


def test_pickles_to_a_few_numbers():
    action_set = ActionSet(MARINES, screen_size=(64, 48), minimap_size=(32, 40))
    data = pickle.dumps(action_set)
    assert pickle.loads(data) == action_set
    assert len(data) < 200
    assert pickle.loads(pickle.dumps(ALL)) == ALL


def test_arrays_cannot_be_changed_by_accident():
    for array in (ALL.nvec, ALL.argument_mask, ALL.function_ids, FUNCTION_KIND):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_encode_by_names():
    action_set = ActionSet(MARINES, screen_size=(64, 48), minimap_size=(32, 40))
    action = action_set.encode("Move_screen", queued="now", screen=(10, 40))
    assert action.dtype == np.int64
    # x is the column: 40 rows of 64 pixels come before
    assert action.tolist() == [4, 40 * 64 + 10, 0, 0, 0, 0, 0]
    assert action_set.encode("Move_minimap", queued="queued", minimap=(31, 39)).tolist() == [5, 0, 1279, 0, 1, 0, 0]
    rectangle = action_set.encode(3, select_add="add", screen=(0, 0), screen2=np.array([63, 47]))
    assert rectangle.tolist() == [2, 0, 0, 64 * 48 - 1, 0, 0, 1]
    assert action_set.encode("select_point", select_point_act=2, screen=(np.int64(1), 0))[5] == 2
    assert action_set.encode("no_op").tolist() == [0] * 7


def test_decode():
    action_set = ActionSet(MARINES, screen_size=(64, 48), minimap_size=(32, 40))
    assert action_set.decode([4, 40 * 64 + 10, 5, 6, 1, 3, 1]) == (
        "Move_screen",
        {"queued": "queued", "screen": (10, 40)},
    )
    assert action_set.decode([0, 5, 5, 5, 1, 1, 1]) == ("no_op", {})
    assert ALL.decode(ALL.encode("select_unit", select_unit_act="deselect", select_unit_id=499)) == (
        "select_unit",
        {"select_unit_act": "deselect", "select_unit_id": 499},
    )


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("Move_screen", {"queued": "now"}, "missing screen"),
        ("Move_screen", {}, "missing queued, screen"),
        ("Move_screen", {"queued": 0, "screen": (1, 1), "minimap": (1, 1)}, "surplus minimap"),
        ("Move_screen", {"queue": 0, "screen": (1, 1)}, "missing queued and surplus queue"),
        ("no_op", {"queued": 0}, "surplus queued.*none"),
        ("Move_screen", {"queued": "later", "screen": (1, 1)}, "now, queued.*'later'"),
        ("Move_screen", {"queued": 2, "screen": (1, 1)}, "queued is 2.*0 to 1"),
        ("Move_screen", {"queued": True, "screen": (1, 1)}, "queued .*True"),
        ("Move_screen", {"queued": 0, "screen": (64, 1)}, "x of screen is 64.*0 to 63"),
        ("Move_screen", {"queued": 0, "screen": (1, 48)}, "y of screen is 48.*0 to 47"),
        ("Move_screen", {"queued": 0, "screen": (-1, 1)}, "x of screen is -1"),
        ("Move_screen", {"queued": 0, "screen": (1.5, 1)}, "x of screen .*1.5"),
        ("Move_screen", {"queued": 0, "screen": 65}, "point.*65"),
        ("Move_screen", {"queued": 0, "screen": (1, 2, 3)}, "point"),
        ("Move_minimap", {"queued": 0, "minimap": (32, 0)}, "x of minimap is 32.*0 to 31"),
        ("select_control_group", {"control_group_act": "recall", "control_group_id": "one"}, "integer, not 'one'"),
        ("Move_scren", {}, "'Move_screen'"),
        (573, {}, "573"),
        (True, {}, "True"),
    ],
)
def test_encode_refuses(function, arguments, message):
    with pytest.raises(InvalidActionError, match=message):
        ALL.encode(function, **arguments)


def test_functions_outside_the_set_are_refused():
    action_set = ActionSet(["no_op", "Move_screen"])
    with pytest.raises(InvalidActionError, match="'Attack_screen' is not in this action set of 2 functions"):
        action_set.encode("Attack_screen", queued="now", screen=(1, 1))
    # an id is pysc2's, never a position in the set
    with pytest.raises(InvalidActionError, match="1 is not in"):
        action_set.position(1)
    assert action_set.position(331) == action_set.position("Move_screen") == 1


@given(action_sets_and_actions(max_actions=1))
def test_decode_then_encode_is_the_used_part(case):
    action_set, actions = case
    name, arguments = action_set.decode(actions[0])
    used = np.concatenate([[True], action_set.argument_mask[actions[0, 0]]])
    assert action_set.encode(name, **arguments).tolist() == (actions[0] * used).tolist()


@given(action_sets_and_actions())
def test_to_engine_agrees_with_decode(case):
    action_set, actions = case
    function_ids, arguments = action_set.to_engine(actions)
    assert function_ids.dtype == np.int32
    assert function_ids.shape == (len(actions),)
    assert arguments.dtype == np.int32
    assert arguments.shape == (len(actions), 13)
    assert arguments.flags.c_contiguous
    for row, function_id, given_arguments in zip(actions, function_ids, arguments, strict=True):
        name, decoded = action_set.decode(row)
        assert FUNCTIONS[function_id].name == name
        expected = dict.fromkeys(ARGUMENT_NAMES, 0)
        for argument, value in decoded.items():
            if argument in SPATIAL_ARGUMENTS:
                width = (action_set.minimap_size if argument == "minimap" else action_set.screen_size)[0]
                value = value[1] * width + value[0]
            elif argument in ARGUMENT_VALUES:
                value = ARGUMENT_VALUES[argument].index(value)
            expected[argument] = value
        assert given_arguments.tolist() == list(expected.values())


@pytest.mark.parametrize("screen_size", [(64, 48), (48, 64)])
def test_x_is_the_column_on_screens_that_are_not_square(screen_size):
    action_set = ActionSet(["Move_screen"], screen_size=screen_size)
    width, height = screen_size
    ahead, aside = (action_set.encode("Move_screen", queued=0, screen=point) for point in ((10, 40), (40, 10)))
    _, arguments = action_set.to_engine([ahead, aside])
    assert arguments[:, 0].tolist() == [40 * width + 10, 10 * width + 40]
    corner = action_set.encode("Move_screen", queued=0, screen=(width - 1, height - 1))
    assert corner[1] == action_set.nvec[1] - 1
    assert action_set.decode(corner)[1]["screen"] == (width - 1, height - 1)
    # the pixel of a (height, width) layer
    assert np.unravel_index(int(ahead[1]), (height, width)) == (40, 10)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint16, np.uint64, ">i8"])
def test_any_integers_are_accepted(dtype):
    action = ALL.encode("Move_screen", queued="queued", screen=(63, 47))
    function_ids, arguments = ALL.to_engine(np.array([action], dtype))
    assert function_ids.tolist() == [331]
    assert arguments.tolist() == [[64 * 48 - 1, 0, 0, 1, *[0] * 9]]


def test_lists_and_views_are_accepted():
    action = ALL.encode("Move_screen", queued="queued", screen=(63, 47))
    expected = ALL.to_engine(action[np.newaxis])[1].tolist()
    assert ALL.to_engine([action.tolist()])[1].tolist() == expected
    assert ALL.to_engine([action])[1].tolist() == expected
    strided = np.zeros((1, 28), np.int64)[:, ::2]
    strided[:] = action
    assert ALL.to_engine(strided)[1].tolist() == expected


def test_an_empty_batch():
    function_ids, arguments = ALL.to_engine(np.zeros((0, 14), np.int64))
    assert function_ids.shape == (0,)
    assert arguments.shape == (0, 13)


def test_a_set_without_arguments():
    action_set = ActionSet(["no_op", "select_larva"])
    assert action_set.nvec.tolist() == [2]
    assert action_set.argument_mask.shape == (2, 0)
    function_ids, arguments = action_set.to_engine([[1], [0]])
    assert function_ids.tolist() == [9, 0]
    assert not arguments.any()


def test_the_actions_stay_as_they_were():
    actions = np.array([ActionSet(MARINES).nvec - 1])
    before = actions.copy()
    _, arguments = ActionSet(MARINES).to_engine(actions)
    arguments[:] = -1
    assert np.array_equal(actions, before)


# Components of ActionSet(["no_op", "Move_screen"], screen_size=(64, 48)): function, screen, queued.
@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([[1, 64 * 48, 0]], "action 0: screen is 3072, allowed are 0 to 3071"),
        ([[1, 0, 0], [1, -1, 0]], "action 1: screen is -1"),
        ([[2, 0, 0]], "function is 2, allowed are 0 to 1"),
        ([[1, 0, 2]], "queued is 2"),
        ([[0, 5000, 0]], "screen is 5000"),
        ([[1, 1.5, 0]], "float64.*1.5"),
        ([[1.0, 2.0, 0.0]], "float64"),
        ([[1, float("nan"), 0]], "nan"),
        ([[1, float("inf"), 0]], "inf"),
        ([[True, False, True]], "bool"),
        ([[1, 0]], r"\(1, 2\), expected \(N, 3\).*function, screen, queued"),
        ([[1, 0, 0, 0]], r"\(1, 4\)"),
        ([1, 0, 0], r"\(3,\)"),
        ([[[1, 0, 0]]], r"\(1, 1, 3\)"),
        ([[1, 0, 0], [1]], "array of integers"),
        ([["1", "0", "0"]], "'1'"),
        ([[None, 0, 0]], "None"),
        ([[2**70, 0, 0]], str(2**70)),
        (np.array([[2**63, 0, 0]], np.uint64), f"function is {2**63}"),
        (np.array([[-(2**63), 0, 0]]), "function is -9223372036854775808"),
        ([], r"\(0,\)"),
        (None, r"\(\)"),
        ({}, r"\(\)"),
    ],
)
def test_to_engine_refuses(actions, message):
    action_set = ActionSet(["no_op", "Move_screen"], screen_size=(64, 48))
    with pytest.raises(InvalidActionError, match=message):
        action_set.to_engine(actions)
    assert action_set.to_engine([[1, 0, 0]])[0].tolist() == [331]


def test_decode_refuses_what_to_engine_refuses():
    action_set = ActionSet(["no_op", "Move_screen"])
    for action in ([2, 0, 0], [1, -1, 0], [1, 0.5, 0], [1, 0], 3):
        with pytest.raises(InvalidActionError):
            action_set.decode(action)


@given(action_sets(), st.data())
def test_flat_mask_and_its_components(action_set, data):
    available = np.array(data.draw(st.lists(st.booleans(), min_size=len(action_set), max_size=len(action_set))))
    available[action_set.position("no_op")] = True
    mask = action_set.flat_mask(available.astype(np.int8))
    assert mask.dtype == bool
    assert mask.shape == (action_set.nvec.sum(),)
    components = action_set.split_mask(mask)
    assert [len(component) for component in components] == action_set.nvec.tolist()
    assert all(component.dtype == np.int8 for component in components)
    assert components[0].tolist() == available.astype(int).tolist()
    assert all(component.all() for component in components[1:])
    space = MultiDiscrete(action_set.nvec)
    space.seed(0)
    action = space.sample(mask=components)
    assert available[action[0]]
    action_set.to_engine(action[np.newaxis])


def test_flat_masks_of_a_batch():
    action_set = ActionSet(["no_op", "Move_screen"], screen_size=(4, 3))
    masks = action_set.flat_mask([[1, 0], [1, 1]])
    assert masks.shape == (2, 2 + 12 + 2)
    assert masks[:, :2].tolist() == [[True, False], [True, True]]
    assert masks[:, 2:].all()
    masks[:] = False
    assert action_set.flat_mask([1, 0])[0]


def test_masks_of_a_wrong_shape_are_refused():
    action_set = ActionSet(["no_op", "Move_screen"], screen_size=(4, 3))
    with pytest.raises(ValueError, match=r"\(3,\), expected \(\.\.\., 2\)"):
        action_set.flat_mask([1, 1, 1])
    with pytest.raises(ValueError, match="no function is available"):
        action_set.flat_mask([[1, 1], [0, 0]])
    with pytest.raises(ValueError, match=r"\(3,\), expected \(16,\)"):
        action_set.split_mask([1, 1, 1])


@pytest.fixture
def pysc2_actions():
    """Syntax tree of an installed pysc2's lib/actions.py, which need not be importable."""
    found = importlib.util.find_spec("pysc2")
    if found is None:
        pytest.skip("pysc2 is not installed")
    return ast.parse((Path(found.submodule_search_locations[0]) / "lib" / "actions.py").read_text(encoding="utf-8"))


def _assigned(tree, name):
    """The first value that a module assigns to a name."""
    return next(node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == name)


def test_functions_are_pysc2s(pysc2_actions):
    types = _assigned(pysc2_actions, "FUNCTION_TYPES")
    arguments = {
        kind.id: tuple(argument.attr for argument in names.elts)
        for kind, names in zip(types.keys, types.values, strict=True)
    }
    theirs = []
    for call in _assigned(pysc2_actions, "_FUNCTIONS").elts:
        number, name, kind, *abilities = call.args
        ability = [0, 0]
        if call.func.attr == "ability":
            ability[: len(abilities)] = (value.value for value in abilities)
        theirs.append((number.value, name.value, kind.id, *ability, arguments[kind.id]))
    ours = [(f.id, f.name, f.kind.name, f.ability_id, f.general_id, f.arguments) for f in FUNCTIONS]
    assert ours == sorted(theirs)


def test_raw_functions_of_orders_are_pysc2s(pysc2_actions):
    """As feature_units and raw_units name an order: of several functions of its ability the one with the lowest id."""
    theirs = {}
    for call in _assigned(pysc2_actions, "_RAW_FUNCTIONS").elts:
        if call.func.attr == "raw_ability":
            theirs.setdefault(call.args[3].value, []).append(call.args[0].value)
    for ability in ABILITIES:
        assert RAW_FUNCTION[ability] == min(theirs[ability]), ability


def test_arguments_are_pysc2s(pysc2_actions):
    fields = next(
        node.bases[0].args[1]
        for node in pysc2_actions.body
        if isinstance(node, ast.ClassDef) and node.name == "Arguments"
    )
    assert tuple(field.value for field in fields.elts) == ARGUMENT_NAMES
    for argument in _assigned(pysc2_actions, "TYPES").keywords:
        how, parameters = argument.value.func.attr, argument.value.args
        if how == "point":
            assert argument.arg in SPATIAL_ARGUMENTS
        elif how == "scalar":
            assert ARGUMENT_SIZES[argument.arg] == parameters[0].value
        else:
            options = _assigned(pysc2_actions, parameters[0].id)
            assert tuple(option.elts[0].value for option in options.elts) == ARGUMENT_VALUES[argument.arg]
