"""Feature layers by name, and their uint8 encoding."""

import ast
import importlib.util
import pickle
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sc2_envs import features
from sc2_envs.features import (
    DEFAULT_MINIMAP_LAYERS,
    DEFAULT_SCREEN_LAYERS,
    FEATURE_UNIT_FIELDS,
    MINIMAP_LAYERS,
    PLAYER_FIELDS,
    SCORE_CUMULATIVE_FIELDS,
    SCREEN_LAYERS,
    UNIT_LAYER_FIELDS,
    Layer,
    encode_layer,
    encoding_table,
    resolve_layers,
)

# unit_type needs the engine's table of units; what it must do is tested with a table of three
PLAIN_LAYERS = [layer for layer in SCREEN_LAYERS + MINIMAP_LAYERS if layer.name != "unit_type"]
LARGE_AMOUNTS = [layer for layer in SCREEN_LAYERS if not layer.categorical and layer.scale > 256]


@pytest.fixture
def unit_ids(monkeypatch):
    """Sets the engine's table of units for one test."""

    def use(ids):
        units = ModuleType("sc2_envs.engine.units")
        units.UNIT_IDS = ids
        monkeypatch.setitem(sys.modules, "sc2_envs.engine.units", units)
        features._encoding_table.cache_clear()

    yield use
    features._encoding_table.cache_clear()


def test_numbers_of_names():
    assert len(SCREEN_LAYERS) == 27
    assert len(MINIMAP_LAYERS) == 11
    assert len(PLAYER_FIELDS) == 11
    assert len(SCORE_CUMULATIVE_FIELDS) == 13
    assert len(FEATURE_UNIT_FIELDS) == 46
    assert len(UNIT_LAYER_FIELDS) == 7


@pytest.mark.parametrize("table", [SCREEN_LAYERS, MINIMAP_LAYERS])
def test_layer_index_is_its_position(table):
    assert [layer.index for layer in table] == list(range(len(table)))
    assert len({layer.name for layer in table}) == len(table)


def test_shared_names_mean_the_same_on_screen_and_minimap():
    screen = {layer.name: (layer.scale, layer.categorical) for layer in SCREEN_LAYERS}
    for layer in MINIMAP_LAYERS:
        assert screen.get(layer.name, (layer.scale, layer.categorical)) == (layer.scale, layer.categorical)


def test_resolve_layers():
    assert resolve_layers("all", "screen") is SCREEN_LAYERS
    assert resolve_layers("all", "minimap") is MINIMAP_LAYERS
    assert tuple(layer.name for layer in resolve_layers("default", "screen")) == DEFAULT_SCREEN_LAYERS
    assert tuple(layer.name for layer in resolve_layers("default", "minimap")) == DEFAULT_MINIMAP_LAYERS
    # the order of the names is kept, and what is resolved resolves to itself
    chosen = resolve_layers(["unit_type", "creep"], "screen")
    assert [layer.index for layer in chosen] == [6, 2]
    assert resolve_layers(chosen, "screen") == chosen


@pytest.mark.parametrize(
    ("layers", "which", "message"),
    [
        (["player_relativ"], "screen", "player_relative"),
        (["camera"], "screen", "unknown screen layer 'camera'"),
        (["unit_hit_points"], "minimap", "unknown minimap layer"),
        ("creep", "screen", r"\['creep'\]"),
        ("everything", "minimap", "'default', 'all'"),
        ([], "screen", "empty"),
        (["creep", "power", "creep"], "screen", "'creep' is named twice"),
        ([3], "screen", "unknown screen layer 3"),
        (3, "screen", "not 3"),
        ("all", "both", "'both'"),
    ],
)
def test_resolve_layers_refuses(layers, which, message):
    with pytest.raises(ValueError, match=message):
        resolve_layers(layers, which)


def test_layers_pickle_and_hash():
    assert pickle.loads(pickle.dumps(SCREEN_LAYERS)) == SCREEN_LAYERS
    assert len(set(SCREEN_LAYERS)) == 27


@pytest.mark.parametrize("layer", PLAIN_LAYERS, ids=lambda layer: layer.name)
def test_encoding_keeps_nothing_and_something_apart(layer):
    table = encoding_table(layer)
    assert table.dtype == np.uint8
    assert len(table) >= layer.scale
    assert table[0] == 0
    assert (table[1:] > 0).all()
    assert not table.flags.writeable


@pytest.mark.parametrize("layer", PLAIN_LAYERS, ids=lambda layer: layer.name)
def test_values_that_fit_into_a_byte_are_kept(layer):
    if layer.scale <= 256:
        assert encode_layer(layer, np.arange(256)).tolist() == list(range(256))


@pytest.mark.parametrize("layer", LARGE_AMOUNTS, ids=lambda layer: layer.name)
def test_large_amounts_are_logarithmic(layer):
    values = np.arange(layer.scale + 1)
    codes = encode_layer(layer, values)
    expected = [max(round(255 * np.log1p(v) / np.log1p(layer.scale)), int(v > 0)) for v in values]
    assert codes.tolist() == expected
    assert (np.diff(codes.astype(int)) >= 0).all()
    assert codes[-1] == 255


@given(
    layer=st.sampled_from([layer for layer in SCREEN_LAYERS if not layer.categorical]),
    values=st.lists(st.integers(0, 2**62), min_size=2, max_size=20),
)
def test_amounts_stay_in_order_however_large(layer, values):
    codes = encode_layer(layer, np.sort(np.array(values)))
    assert (np.diff(codes.astype(int)) >= 0).all()


def test_a_marine_and_a_roach_differ_in_hit_points():
    marine, roach = encode_layer("unit_hit_points", [45, 145])
    assert marine < roach


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.uint64, bool])
def test_encoding_takes_any_integers(dtype):
    assert encode_layer("unit_hit_points", np.array([[0, 1]], dtype)).tolist() == [[0, 24]]


def test_encoding_of_huge_unsigned_values():
    assert encode_layer("unit_density", np.array([2**64 - 1], np.uint64)).tolist() == [255]


def test_encoding_keeps_the_shape():
    assert encode_layer("creep", np.zeros((3, 48, 64), np.int32)).shape == (3, 48, 64)


def test_buffs_are_all_other():
    assert encode_layer("buffs", [0, 1, 289, 290, 5000]).tolist() == [0, 255, 255, 255, 255]


def test_unit_types_are_numbered_by_the_engine(unit_ids):
    unit_ids((48, 1680, 317))
    assert encode_layer("unit_type", [0, 48, 1680, 317]).tolist() == [0, 1, 2, 3]
    assert encode_layer("unit_type", [1, 47, 49, 1961, 1962, 10**6]).tolist() == [255] * 6


def test_unit_types_beyond_pysc2s_table(unit_ids):
    unit_ids((48, 3000))
    assert encode_layer("unit_type", [48, 3000, 2999, 3001]).tolist() == [1, 2, 255, 255]


@pytest.mark.parametrize(
    ("ids", "message"), [(tuple(range(1, 256)), "do not fit"), ((48, 48), "different"), ((0,), "positive")]
)
def test_unit_tables_without_a_code_for_each_are_refused(unit_ids, ids, message):
    unit_ids(ids)
    with pytest.raises(ValueError, match=message):
        encoding_table("unit_type")


def test_the_engines_units_have_a_code_each():
    from sc2_envs.engine.units import UNIT_IDS

    assert encode_layer("unit_type", UNIT_IDS).tolist() == list(range(1, len(UNIT_IDS) + 1))


@pytest.mark.parametrize(
    ("layer", "raw", "message"),
    [
        ("unit_typ", [0], "unit_type"),
        (Layer(0, "nonsense", 2, True), [0], "nonsense"),
        ("creep", [-1], "'creep' holds -1"),
        ("creep", [0.5], "float64"),
    ],
)
def test_encoding_refuses(layer, raw, message):
    with pytest.raises(ValueError, match=message):
        encode_layer(layer, raw)


@pytest.fixture
def pysc2_features():
    """Syntax tree of an installed pysc2's lib/features.py, which need not be importable."""
    found = importlib.util.find_spec("pysc2")
    if found is None:
        pytest.skip("pysc2 is not installed")
    return ast.parse((Path(found.submodule_search_locations[0]) / "lib" / "features.py").read_text(encoding="utf-8"))


def _layers_of(tree, layers, table):
    """(name, scale, categorical) of pysc2's layers; a scale that is no literal is None."""
    class_ = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == layers)
    order = [name.value for name in class_.bases[0].args[1].elts]
    call = next(node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == table)
    rows = {}
    for keyword in call.keywords:
        scale, type_ = keyword.value.elts[:2]
        rows[keyword.arg] = (getattr(scale, "value", None), type_.attr == "CATEGORICAL")
    return [(name, *rows[name]) for name in order]


@pytest.mark.parametrize(
    ("ours", "layers", "table"),
    [(SCREEN_LAYERS, "ScreenFeatures", "SCREEN_FEATURES"), (MINIMAP_LAYERS, "MinimapFeatures", "MINIMAP_FEATURES")],
)
def test_layers_are_pysc2s(pysc2_features, ours, layers, table):
    theirs = _layers_of(pysc2_features, layers, table)
    assert [(layer.name, layer.categorical) for layer in ours] == [(name, label) for name, _, label in theirs]
    for layer, (name, scale, _) in zip(ours, theirs, strict=True):
        assert scale == layer.scale or (scale is None and name in ("unit_type", "buffs"))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (PLAYER_FIELDS, "Player"),
        (SCORE_CUMULATIVE_FIELDS, "ScoreCumulative"),
        (FEATURE_UNIT_FIELDS, "FeatureUnit"),
        (UNIT_LAYER_FIELDS, "UnitLayer"),
    ],
)
def test_columns_are_pysc2s(pysc2_features, ours, theirs):
    enum = next(node for node in pysc2_features.body if isinstance(node, ast.ClassDef) and node.name == theirs)
    members = [(line.targets[0].id, line.value.value) for line in enum.body if isinstance(line, ast.Assign)]
    assert members == [(name, position) for position, name in enumerate(ours)]
