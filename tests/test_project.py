"""The project's files agree with each other: versions, commands, documentation, and what the algorithm files share."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
ALGORITHMS = sorted((REPOSITORY / "algorithms").glob("*.py"))
SOURCES = [
    path
    for folder in ("sc2_envs", "algorithms", "benchmark", "tests")
    for path in sorted((REPOSITORY / folder).rglob("*.py"))
]


def read(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def code_blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def identifier(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


# ---- versions ----------------------------------------------------------------------------------------------------


def test_one_version_everywhere():
    import sc2_envs

    version = PYPROJECT["project"]["version"]
    assert sc2_envs.__version__ == version
    assert re.search(r"^version: (.+)$", read("CITATION.cff"), re.MULTILINE)[1] == version
    assert re.search(r"version = \{(.+)\}", read("README.md"))[1] == version
    assert re.search(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)[1] == version


def pins() -> dict[str, str]:
    lines = [line.split("#")[0].strip() for line in read("constraints.txt").splitlines()]
    requirements = [Requirement(line) for line in lines if line]
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in requirements}


def test_what_the_commands_install_is_pinned():
    extras = PYPROJECT["project"]["optional-dependencies"]
    pinned = pins()
    direct = PYPROJECT["project"]["dependencies"] + [
        requirement
        for extra in ("train", "sb3", "pysc2", "pysc2-light", "server", "benchmark", "docs", "dev")
        for requirement in extras[extra]
    ]
    for requirement in map(Requirement, direct):
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"{name} has no tested version in constraints.txt"
        assert requirement.specifier.contains(pinned[name]), f"{requirement} excludes the tested {pinned[name]}"


@pytest.mark.slow
def test_wheel_holds_data_and_licences(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", tmp_path, REPOSITORY]
    subprocess.run(command, check=True, timeout=250)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"sc2_envs/data/functions.csv", "sc2_envs/py.typed", "sc2_envs/engine/__init__.py"} <= set(names)
    assert {"LICENSE", "Apache-2.0.txt"} <= {Path(name).name for name in names}
    assert {name.split("/")[0] for name in names} == {
        "sc2_envs",
        f"sc2_envs-{PYPROJECT['project']['version']}.dist-info",
    }


# ---- documentation -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in PAGES if code_blocks(page, "python")], ids=identifier)
def test_python_of_the_documentation_runs(page):
    """The blocks of one page run in their order, as a reader types them, each into the names of those before."""
    import gymnasium
    import numpy

    blocks = code_blocks(page, "python")
    if any("stable_baselines3" in block for block in blocks):
        pytest.importorskip("stable_baselines3")
    if any("pysc2" in block for block in blocks) and importlib.util.find_spec("pysc2") is None:
        pytest.skip("pysc2 is not installed")
    names = {"gym": gymnasium, "np": numpy, "__name__": "documentation"}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)
    for name in ("env", "envs"):
        if name in names:
            names[name].close()


def documented_commands() -> list[tuple[str, str]]:
    return [
        (identifier(page), line.split("#")[0].strip())
        for page in PAGES
        for block in code_blocks(page, "bash")
        for line in block.splitlines()
        if line.split("#")[0].strip()
    ]


def test_commands_of_the_documentation_exist():
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    checked = 0
    for page, command in documented_commands():
        for target in re.findall(r"^(?:[A-Z_]+=\S+ )*make (?:[A-Z_]+=\S+ )*([a-z-]+)", command):
            assert target in targets, f"{page}: `{command}`: the Makefile has no target {target}"
            checked += 1
        for script in re.findall(r"(?:algorithms|benchmark)/\S+\.(?:py|toml|sbatch)", command):
            assert (REPOSITORY / script).is_file(), f"{page}: `{command}`: there is no {script}"
            checked += 1
            if not script.endswith(".py"):
                continue
            source = read(script)
            own = re.sub(r"(--algorithm-flags).*", r"\1", command.split(script)[1])  # the others are the algorithm's
            for flag in re.findall(r"--([a-z-]+)", own):
                field = flag.removeprefix("no-").replace("-", "_")
                assert re.search(rf"^    {field}: ", source, re.MULTILINE), f"{page}: {script} has no flag --{flag}"
    assert checked > 10


def registered_ids() -> list[str]:
    import gymnasium as gym

    import sc2_envs  # noqa: F401

    return [name for name, spec in gym.registry.items() if str(spec.entry_point).startswith("sc2_envs")]


def test_every_environment_has_its_page():
    ids = registered_ids()
    assert ids
    for name in ids:
        map_name = re.fullmatch(r"SC2(\w+)-v\d+", name)[1]
        page = "environments/" + re.sub(r"(?<!^)(?=[A-Z])", "_", map_name).lower() + ".md"
        assert f"`{name}`" in read(f"docs/{page}")
        assert page in read("mkdocs.yml")
        for overview in ("README.md", "docs/environments/index.md"):
            assert f"`{name}`" in read(overview), f"{overview} does not list {name}"


def test_every_algorithm_is_documented():
    for path in ALGORITHMS:
        page = re.search(r"docs/algorithms/\w+\.md", ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))))
        assert page, f"{path.name} does not name its page"
        assert f"`algorithms/{path.name}`" in read(page[0])
        assert f"`algorithms/{path.name}`" in read("README.md")


def test_every_metric_is_documented():
    for path in ALGORITHMS:
        source = path.read_text(encoding="utf-8")
        page = read(re.search(r"docs/algorithms/\w+\.md", source)[0])
        for metric in set(re.findall(r"[\"']((?:charts|losses|eval|es|time)/\w+)[\"']", source)):
            assert f"`{metric}`" in page, f"{path.name} logs {metric}, which its page does not explain"


# ---- commands ----------------------------------------------------------------------------------------------------


def test_make_lists_every_command():
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    listed = subprocess.run(["make", "help"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.+)$", read("Makefile"), re.MULTILINE)[1].split()
    for target in phony:
        assert re.search(rf"^  make {target} +\w", listed, re.MULTILINE), f"`make help` does not explain {target}"


@pytest.mark.skipif(sys.platform == "win32", reason=".ci/run is a bash script")
@pytest.mark.parametrize("failing", ["types", None])
def test_checks_fail_when_one_of_them_fails(tmp_path, failing):
    """.ci/run with a make of our own: every step is tried, and one failure makes the whole fail. All that it would
    install is there."""
    needed = re.findall(r"(\S+):\S+", re.search(r"^NEEDED=\((.+)\)", read(".ci/run"), re.MULTILINE)[1])
    assert "make" in needed
    for name in needed:
        fake = tmp_path / name
        fake.write_text(
            f'#!/bin/sh\nfor step; do :; done\necho "$step" >> {tmp_path}/steps\n[ "$step" != "{failing}" ]\n'
        )
        fake.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([REPOSITORY / ".ci" / "run"], env=environment, capture_output=True, text=True)
    assert (tmp_path / "steps").read_text().split() == ["lint", "types", "docs", "test", "test-slow"]
    assert (done.returncode != 0) == (failing is not None)
    assert ("failed: types" in done.stdout) == (failing is not None)


# ---- what may be imported and loaded -----------------------------------------------------------------------------


def imported_modules(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return modules


def test_algorithm_files_stand_alone():
    stems = {path.stem for path in ALGORITHMS} | {"algorithms", "benchmark"}
    for path in ALGORITHMS:
        for module in imported_modules(path):
            assert not stems & set(module.split(".")), f"{path.name} imports {module}"


def test_package_needs_no_algorithm():
    for path in (REPOSITORY / "sc2_envs").rglob("*.py"):
        for module in imported_modules(path):
            assert module.split(".")[0] not in ("algorithms", "benchmark"), f"{identifier(path)} imports {module}"


def test_engine_needs_only_the_vocabulary():
    """It is compiled, and of use, without environments and without the protocol."""
    for path in (REPOSITORY / "sc2_envs" / "engine").rglob("*.py"):
        for module in imported_modules(path):
            if module.split(".")[0] == "sc2_envs":
                known = module.startswith(("sc2_envs.engine", "sc2_envs.actions", "sc2_envs.features"))
                assert known, f"{identifier(path)} imports {module}"
            assert module.split(".")[0] not in ("s2clientprotocol", "google"), f"{identifier(path)} imports {module}"


def test_import_is_light():
    program = "import sys, sc2_envs; print(sorted({'torch', 'pysc2', 'stable_baselines3', 'numba'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


UNPICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}


def dangerous_loads(source: str) -> list[str]:
    """Calls that could run code out of a file."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = ast.unparse(node.func.value)
        keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        unpickles = (
            (owner in UNPICKLERS and node.func.attr in ("load", "loads", "Unpickler", "open"))
            or (owner == "torch" and node.func.attr == "load" and keywords.get("weights_only") != "True")
            or keywords.get("weights_only") == "False"
            or keywords.get("allow_pickle") == "True"
            or (owner == "yaml" and node.func.attr in ("load", "unsafe_load"))
        )
        if unpickles:
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def test_nothing_is_unpickled():
    for path in SOURCES:
        if path.parent.name != "tests":
            assert not dangerous_loads(path.read_text(encoding="utf-8")), identifier(path)


@pytest.mark.parametrize(
    ("call", "dangerous"),
    [
        ("pickle.load(file)", True),
        ("torch.load(path)", True),
        ("torch.load(path, weights_only=False)", True),
        ("np.load(path, allow_pickle=True)", True),
        ("torch.load(path, weights_only=True)", False),
        ("json.load(file)", False),
    ],
)
def test_dangerous_loads_are_seen(call, dangerous):
    assert bool(dangerous_loads(call)) == dangerous


# ---- what the algorithm files share ------------------------------------------------------------------------------

# The pieces that several algorithm files need in the very same form. A file may have what else it wants in a form of
# its own, also under a name that another file has.
SHARED = {
    "the ranks": ("Ranks", "find_ranks", "to_bytes", "from_bytes", "average_gradients", "check_equal_weights"),
    "random streams": (
        *("TRAINING", "ACTION_NOISE", "EVALUATION", "EVALUATION_NOISE", "SHUFFLE"),
        *("stream_seeds", "uniforms"),
    ),
    "the network": ("layer_init", "Planes", "Agent"),
    "the action": ("sample_index", "given_function", "sample_actions", "log_prob_and_entropy"),
    "play": ("Rollout", "ForwardPass", "play", "check_rows"),
    "the loss": ("n_step_returns", "Targets"),
    "the network at work": ("network_of", "piece_size"),
    "games and evaluation": ("EVALUATION_METRICS", "env_keywords", "make_envs", "evaluate_over_ranks", "film"),
    "the run folder": ("start_run", "end_run", "find_run"),
    "checkpoints": (
        "CHECKPOINT_ARGS",
        "Counters",
        "save_games",
        "resume_games",
        "save_checkpoint",
        "read_checkpoint",
        "read_to_evaluate",
        "read_to_resume",
        "resume",
    ),
    "arguments": ("check_equal_args",),
    "the optimizer": ("OPTIMIZERS", "make_optimizer"),
}
# The same for the files of several ranks; those of one process have shorter forms under these names.
SHARED_OVER_RANKS = ("evaluate_and_film", "main", "evaluate_checkpoint")
# What evolution strategies do in ways of their own: they have no games half played, and networks of several kinds.
OF_GRADIENTS = ("env_keywords", "evaluate_checkpoint", "CHECKPOINT_ARGS")
# What has to know of a memory: the files whose network has one have forms of their own.
MEMORYLESS = (
    *("Agent", "network_of", "Rollout", "ForwardPass", "play", "evaluate_over_ranks", "film"),
    *("CHECKPOINT_ARGS", "save_games", "resume_games", "evaluate_checkpoint"),
)
OWN = {"ALGORITHM"}  # equal in the files of one algorithm, and another in those of another
SHARED_NAMES = [name for names in SHARED.values() for name in names]


def definitions(source: str) -> dict[str, str]:
    """Source of each function, class and constant at the top of a file, by name."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        else:
            continue
        # from the line on, so that decorators count too
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        text = "\n".join(source.splitlines()[first - 1 : node.end_lineno])
        found |= dict.fromkeys(names, text)
    return found


def versions(name: str) -> dict[str, str]:
    """The definitions of a name in the algorithm files, by file."""
    files = {path.name: definitions(path.read_text(encoding="utf-8")) for path in ALGORITHMS}
    if name in SHARED_OVER_RANKS:
        files = {file: names for file, names in files.items() if "Ranks" in names}
    if name in OF_GRADIENTS:
        files = {file: names for file, names in files.items() if "perturbations" not in names}
    if name in MEMORYLESS:
        files = {file: names for file, names in files.items() if "nn.LSTM" not in names["Agent"]}
    return {file: names[name] for file, names in files.items() if name in names}


@pytest.mark.parametrize("name", [*SHARED_NAMES, *SHARED_OVER_RANKS])
def test_shared_piece_is_word_for_word_the_same_wherever_it_stands(name):
    found = versions(name)
    assert len(found) >= 2, f"{name} stands in {list(found)} only: has it been renamed? Then rename it in SHARED too"
    first, *others = found
    for other in others:
        assert found[other] == found[first], f"{name} of {other} differs from that of {first}"


def test_what_is_the_same_everywhere_is_in_the_table_of_shared_pieces():
    """So that a copy is held to its original from the day on which it is made."""
    names = {name for path in ALGORITHMS for name in definitions(path.read_text(encoding="utf-8"))}
    for name in sorted(names - {*SHARED_NAMES, *SHARED_OVER_RANKS} - OWN):
        found = versions(name)
        assert len(found) < 2 or len(set(found.values())) > 1, f"{name} is the same in {list(found)}: add it to SHARED"


def test_a_changed_decorator_or_constant_is_a_changed_piece():
    one = definitions("A, B = 1, 2\n@no_grad\ndef play(x):\n    return x\n")
    other = definitions("A, B = 1, 3\n\n@grad\ndef play(x):\n    return x\n")
    assert set(one) == set(other) == {"A", "B", "play"}
    assert all(one[name] != other[name] for name in one)


# ---- other systems -----------------------------------------------------------------------------------------------


def test_spawned_workers():
    """Worker processes that start from nothing, as on macOS and Windows, find the environments by the id alone."""
    import gymnasium as gym
    import numpy as np

    envs = gym.make_vec(
        "sc2_envs:SC2MoveToBeacon-v0", num_envs=2, vectorization_mode="async", vector_kwargs={"context": "spawn"}
    )
    try:
        first, _ = envs.reset(seed=[1, 2])
        observation, reward, terminated, truncated, _ = envs.step(np.zeros_like(envs.action_space.sample()))
        assert reward.shape == terminated.shape == truncated.shape == (2,)
        assert not np.array_equal(first["feature_screen"][0], first["feature_screen"][1])
        assert observation["feature_screen"].shape == first["feature_screen"].shape
    finally:
        envs.close()


def test_gymnasium_records_a_video(tmp_path):
    pytest.importorskip("moviepy")
    import gymnasium as gym
    import imageio_ffmpeg

    env = gym.make("sc2_envs:SC2MoveToBeacon-v0", render_mode="rgb_array")
    env = gym.wrappers.RecordVideo(env, str(tmp_path / "videos"), episode_trigger=lambda episode: True)
    env.reset(seed=1)
    for _ in range(9):
        env.step(env.unwrapped.sample_valid_action())
    env.close()
    (video,) = (tmp_path / "videos").glob("*.mp4")
    frames, _ = imageio_ffmpeg.count_frames_and_secs(str(video))
    assert frames == 10  # the first observation, and one a step
