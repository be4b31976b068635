"""pysc2 4.0.0 and the game's protocol on Python 3.11 to 3.13, with any protobuf from 4.21 on.

    from sc2_envs import pysc2_compat

    pysc2_compat.install()  # before the first import of pysc2 or s2clientprotocol
    from pysc2.env import sc2_env

pysc2 was released in 2022 and does not import on a current Python. `install()` puts one finder in front of Python's
own, which loads a few modules in another way. No installed file is changed, no function of another library is
replaced, and nothing happens to modules that are not in this table:

    s2clientprotocol.*_pb2   their code was generated for protobuf 3; the classes are made from the descriptor in it
    pysc2.lib.colors         calls random.shuffle with a second argument, which Python 3.11 dropped
    pysc2.lib.replay         a module and a folder in the same wheel; Python sees only the folder
    pysc2.lib.video_writer   is loaded when a video is written: its library takes longer to import than all of pysc2
    pysc2                    its settings are absl flags, which raise an error in a program that never parsed them
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Callable, MutableSequence, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

# The descriptor in the code that protoc before 3.19 generated: `serialized_pb=_b('...')`, later `serialized_pb=b'...'`.
_SERIALIZED_FILE = re.compile(r"\bserialized_pb=(?:_b\()?(b?'(?:[^'\\]|\\.)*')")


def install() -> None:
    """Make `import pysc2` and `import s2clientprotocol` work in this process; calling it again does nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the modules of the table above where Python finds them, and gives them another loader."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        make_loader = _LOADERS.get(fullname)
        if fullname.startswith("s2clientprotocol.") and fullname.endswith("_pb2"):
            make_loader = _DescriptorLoader
        if make_loader is None:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        spec.loader = make_loader(fullname, spec.loader.path)
        return spec


class _DescriptorLoader(SourceFileLoader):
    """Makes the contents of a `_pb2` module from the file descriptor in its text, without running the text."""

    def exec_module(self, module: ModuleType) -> None:
        serialized = serialized_file(self.get_data(self.path).decode("utf-8"))
        if serialized is None:  # generated for protobuf 4 or later: nothing to repair
            super().exec_module(module)
        else:
            _fill_from_descriptor(module, serialized)


def serialized_file(text: str) -> bytes | None:
    """The serialized FileDescriptorProto in the text of an old `_pb2` module; None where it holds none."""
    found = _SERIALIZED_FILE.search(text)
    if found is None:
        return None
    literal = ast.literal_eval(found[1])
    return literal if isinstance(literal, bytes) else literal.encode("latin-1")


def _fill_from_descriptor(module: ModuleType, serialized: bytes) -> None:
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

    parsed = descriptor_pb2.FileDescriptorProto.FromString(serialized)
    for dependency in parsed.dependency:
        importlib.import_module(dependency.removesuffix(".proto").replace("/", ".") + "_pb2")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(serialized)
    file = pool.FindFileByName(parsed.name)
    contents: dict[str, Any] = {"DESCRIPTOR": file}
    for name, enum in file.enum_types_by_name.items():
        contents[name] = EnumTypeWrapper(enum)
        contents.update((value.name, value.number) for value in enum.values)
    for name, message in file.message_types_by_name.items():
        contents[name] = message_class = _message_class(message)
        message_class.__module__ = module.__name__  # where pickle looks for it
    vars(module).update(contents)


def _message_class(descriptor: Any) -> Any:
    from google.protobuf import message_factory, symbol_database

    if hasattr(message_factory, "GetMessageClass"):  # since 4.22
        return message_factory.GetMessageClass(descriptor)
    return symbol_database.Default().GetPrototype(descriptor)


class _ShuffleLoader(SourceFileLoader):
    """Compiles a module with its two-argument calls of `random.shuffle` turned into calls of `shuffle` below."""

    def get_code(self, fullname: str) -> CodeType:
        # straight from the source: compiled code that lies on the disk is the unchanged module's
        tree = _ShuffleCalls().visit(ast.parse(self.get_data(self.path), self.path))
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)[_ShuffleCalls.NAME] = shuffle
        super().exec_module(module)


class _ShuffleCalls(ast.NodeTransformer):
    NAME = "_shuffle_of_python_3_10"

    def visit_Call(self, node: ast.Call) -> ast.AST:  # noqa: N802 (ast's name)
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "shuffle" and len(node.args) == 2:
            node.func = ast.copy_location(ast.Name(self.NAME, ast.Load()), node.func)
        return node


def shuffle(x: MutableSequence[Any], random: Callable[[], float]) -> None:
    """`random.shuffle(x, random)` as Python had it until 3.10: in place, with a source of numbers in [0, 1)."""
    for i in range(len(x) - 1, 0, -1):
        j = int(random() * (i + 1))
        x[i], x[j] = x[j], x[i]


class _ReplayLoader(SourceFileLoader):
    """Loads the package `replay` together with the module `replay.py` beside it, where the wheel holds both."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        hidden = Path(self.path).parent.with_suffix(".py")
        if Path(self.path).name == "__init__.py" and hidden.exists():
            exec(compile(hidden.read_bytes(), str(hidden), "exec", dont_inherit=True), vars(module))


class _FlagsLoader(SourceFileLoader):
    """Loads a package and lets absl's flags have their default values where no program has parsed them."""

    def exec_module(self, module: ModuleType) -> None:
        from absl import flags

        super().exec_module(module)
        if not flags.FLAGS.is_parsed():
            flags.FLAGS.mark_as_parsed()  # absl.app.run still parses them


class _VideoLoader(SourceFileLoader):
    """Runs the module when somebody asks it for VideoWriter."""

    def exec_module(self, module: ModuleType) -> None:
        run = super().exec_module

        # not importlib's LazyLoader: its modules run at any look at them, as inspect and pytest take at all modules
        def __getattr__(name: str) -> Any:  # noqa: N807 (Python's name)
            if name != "VideoWriter":
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            run(module)
            return vars(module)[name]

        vars(module)["__getattr__"] = __getattr__


_LOADERS: dict[str, Callable[[str, str], Any]] = {
    "pysc2": _FlagsLoader,
    "pysc2.lib.colors": _ShuffleLoader,
    "pysc2.lib.replay": _ReplayLoader,
    "pysc2.lib.video_writer": _VideoLoader,
}
