"""pysc2 and the protocol's messages import on this Python, and work as they did on theirs."""

import importlib.util
import subprocess
import sys
import textwrap

import pytest

from sc2_envs import pysc2_compat

needs_pysc2 = pytest.mark.skipif(importlib.util.find_spec("pysc2") is None, reason="pysc2 is not installed")
needs_messages = pytest.mark.skipif(
    importlib.util.find_spec("s2clientprotocol") is None, reason="s2clientprotocol is not installed"
)

# pysc2's own tests that need no game; each is a module
PYSC2_TESTS = (
    "lib.features_test",
    "lib.image_differencer_test",
    "lib.named_array_test",
    "lib.np_util_test",
    "lib.point_test",
    "lib.portspicker_test",
    "lib.proto_diff_test",
    "lib.run_parallel_test",
    "lib.stopwatch_test",
    "env.mock_sc2_env_test",
    "tests.dummy_observation_test",
)


def python(code, install=True):
    """What a fresh Python prints that runs this code; a failure is a failure of the test."""
    code = textwrap.dedent(code)
    if install:
        code = "from sc2_envs import pysc2_compat\npysc2_compat.install()\n" + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# ---- installing --------------------------------------------------------------------------------------------------


def test_nothing_happens_before_it_is_asked_for():
    assert (
        python(
            """
        import sys
        before = list(sys.meta_path)
        from sc2_envs import pysc2_compat
        loaded = {"pysc2", "s2clientprotocol", "google.protobuf", "absl"} & set(sys.modules)
        print(sys.meta_path == before, sorted(loaded))
        """,
            install=False,
        )
        == "True []"
    )


def test_installing_twice_is_installing_once():
    code = "import sys; n = len(sys.meta_path); pysc2_compat.install(); print(len(sys.meta_path) - n)"
    assert python(code) == "0"


def test_installing_imports_nothing():
    code = "import sys; print(sorted({'pysc2', 's2clientprotocol', 'google.protobuf', 'absl'} & set(sys.modules)))"
    assert python(code) == "[]"


@needs_pysc2
def test_pysc2_needs_it():
    """Should this fail one day, pysc2_compat has become needless."""
    code = "import pysc2.lib.colors"
    done = subprocess.run([sys.executable, "-c", code + "; pysc2.lib.colors.shuffled_hue(2)"], capture_output=True)
    assert done.returncode != 0


# ---- messages ----------------------------------------------------------------------------------------------------

MESSAGES = ("common", "data", "debug", "error", "query", "raw", "sc2api", "score", "spatial", "ui")


@needs_messages
def test_every_module_of_messages_is_complete():
    python(
        f"""
        import importlib
        from google.protobuf.message import Message
        count = 0
        for name in {MESSAGES}:
            module = importlib.import_module(f"s2clientprotocol.{{name}}_pb2")
            assert module.DESCRIPTOR.name == f"s2clientprotocol/{{name}}.proto"
            for message in module.DESCRIPTOR.message_types_by_name:
                found = getattr(module, message)
                assert issubclass(found, Message) and found.__module__ == module.__name__
                assert found.FromString(found().SerializePartialToString()) == found()
                count += 1
            for enum in module.DESCRIPTOR.enum_types_by_name.values():
                for value in enum.values:
                    assert getattr(module, value.name) == value.number
                    assert getattr(module, enum.name).Name(value.number) == value.name
        assert count == 146, count
        """
    )


@needs_messages
def test_messages_are_of_one_family():
    """Modules that import one another share their classes, and all that Python does with objects works."""
    python(
        """
        import copy, pickle
        from s2clientprotocol import common_pb2, error_pb2, raw_pb2, sc2api_pb2, ui_pb2
        action = sc2api_pb2.Action()
        action.action_ui.select_army.selection_add = True
        request = sc2api_pb2.Request(action=sc2api_pb2.RequestAction(actions=[action]))
        assert type(request.action.actions[0]) is sc2api_pb2.Action
        assert type(action.action_ui) is ui_pb2.ActionUI
        assert pickle.loads(pickle.dumps(request)) == request == copy.deepcopy(request)
        assert sc2api_pb2.Request.FromString(request.SerializeToString()) == request
        assert sc2api_pb2.ResponseCreateGame.MissingMap == 1
        assert sc2api_pb2.ResponseCreateGame.Error.Name(1) == "MissingMap"
        assert sc2api_pb2.Status.items()[0] == ("launched", 1)
        assert error_pb2.ActionResult.Value("CouldntReachTarget") == error_pb2.CouldntReachTarget == 208
        assert common_pb2.Race.Name(common_pb2.Terran) == "Terran"
        assert raw_pb2.Unit(alliance=raw_pb2.Self).alliance == 1
        """
    )


OLD = r"DESCRIPTOR = _descriptor.FileDescriptor(name='a', serialized_pb=%s)"


@pytest.mark.parametrize(
    "text, expected",
    [
        (OLD % r"_b('\n\x01\xff\'')", b"\n\x01\xff'"),
        (OLD % r"b'\n\x01\xff\''", b"\n\x01\xff'"),
        (r"DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(b'\n\x01')", None),
        ("", None),
    ],
)
def test_descriptor_in_a_text(text, expected):
    assert pysc2_compat.serialized_file(text) == expected


def test_messages_that_need_no_repair_are_left_alone(tmp_path):
    package = tmp_path / "s2clientprotocol"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "new_pb2.py").write_text("DESCRIPTOR = 'made by a newer compiler'")
    code = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from s2clientprotocol import new_pb2
        print(new_pb2.DESCRIPTOR)
        """
    assert python(code) == "made by a newer compiler"


# ---- pysc2 -------------------------------------------------------------------------------------------------------


def test_shuffle_is_that_of_python_3_10():
    numbers = list(range(10))
    pysc2_compat.shuffle(numbers, lambda: 0.5)
    assert numbers == [0, 9, 1, 7, 2, 6, 3, 8, 4, 5]  # printed by Python 3.10


@needs_pysc2
def test_colours_and_random_is_not_touched():
    python(
        """
        import random
        before = random.shuffle
        from pysc2.lib import colors
        palette = colors.shuffled_hue(4).tolist()
        assert palette == [[0, 0, 0], [127.5, 0, 255], [127.5, 255, 0], [0, 255, 255]]  # as Python 3.10 shuffles it
        assert random.shuffle is before
        """
    )


@needs_pysc2
def test_compiled_code_on_the_disk_is_neither_read_nor_written():
    """It belongs to the module as it is installed."""
    python(
        """
        import importlib.util, os
        path = importlib.util.cache_from_source(importlib.util.find_spec("pysc2.lib.colors").origin)
        state = lambda: os.stat(path).st_mtime_ns if os.path.exists(path) else None
        before = state()
        from pysc2.lib import colors
        assert state() == before
        """
    )


@needs_pysc2
def test_replay_is_module_and_package():
    python(
        """
        import importlib.util
        from pysc2.lib import replay
        assert replay.get_replay_version.__module__ == "pysc2.lib.replay"
        if hasattr(replay, "__path__"):  # the wheel of Linux holds both
            assert importlib.util.find_spec("pysc2.lib.replay.sc2_replay_utils")
        """
    )


@needs_pysc2
def test_library_for_videos_is_loaded_with_the_first_video():
    python(
        """
        import inspect, sys, types
        from pysc2.env import sc2_env
        from pysc2.lib import video_writer
        inspect.stack()  # looks at every module
        assert not hasattr(video_writer, "anything")
        assert not {"skvideo", "scipy"} & set(sys.modules)
        # what follows does not depend on an installed skvideo
        skvideo = types.ModuleType("skvideo")
        skvideo.io = types.ModuleType("skvideo.io")
        skvideo.io.FFmpegWriter = type("FFmpegWriter", (), {})
        sys.modules["skvideo"] = skvideo
        sys.modules["skvideo.io"] = skvideo.io
        assert issubclass(video_writer.VideoWriter, skvideo.io.FFmpegWriter)
        assert video_writer.VideoWriter is video_writer.VideoWriter
        """
    )


@needs_pysc2
def test_flags_have_their_defaults():
    python(
        """
        from absl import flags
        from pysc2.env import sc2_env
        from pysc2 import run_configs
        assert flags.FLAGS.sc2_timeout == 360
        """
    )


@needs_pysc2
def test_a_program_still_parses_its_flags():
    code = """
        import sys
        from absl import app, flags
        from pysc2.env import sc2_env
        flags.DEFINE_integer("mine", 1, "")
        def main(rest):
            print(flags.FLAGS.sc2_timeout, flags.FLAGS.mine, rest[1:])
        app.run(main, ["program", "--sc2_timeout=7", "--mine=3", "rest"])
        """
    assert python(code).splitlines()[-1] == "7 3 ['rest']"


@needs_pysc2
def test_flags_that_were_parsed_before_keep_their_values():
    code = """
        from absl import flags
        flags.DEFINE_integer("mine", 1, "")
        flags.FLAGS(["program", "--mine=3"])
        from pysc2.env import sc2_env
        print(flags.FLAGS.mine, flags.FLAGS.sc2_timeout)
        """
    assert python(code).splitlines()[-1] == "3 360"


@needs_pysc2
def test_pysc2s_own_tests_pass():
    code = f"""
        import unittest
        suite = unittest.defaultTestLoader.loadTestsFromNames(["pysc2." + name for name in {PYSC2_TESTS}])
        result = unittest.TextTestRunner(verbosity=0).run(suite)
        for test, text in [*result.failures, *result.errors]:
            print(test, text)
        print(result.testsRun, result.wasSuccessful())
        """
    assert python(code).splitlines()[-1] == "205 True"
