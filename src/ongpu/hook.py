"""`python -m ongpu.hook script.py [args]` (or `-m module [args]`): the script as it is, and below a GPU error its diagnosis.

Python 3.8 syntax: an interpreter that is too old for ongpu still runs the script, and is told why there is no diagnosis.
"""

import os
import sys
import types
from typing import Any

USAGE_EN = """usage: python -m ongpu.hook script.py [args ...]
       python -m ongpu.hook -m module [args ...]

Runs the script as Python itself would.
Where it ends with an error that is about the GPU, the cause and its repair follow the traceback.

example: python -m ongpu.hook train.py --epochs 3"""
USAGE_ZH = """用法：python -m ongpu.hook script.py [参数 ...]
      python -m ongpu.hook -m module [参数 ...]

照 Python 本来的方式运行脚本。
如果脚本因 GPU 相关的错误而结束，会在 traceback 之后说明原因和修复方法。

示例：python -m ongpu.hook train.py --epochs 3"""
OLDEST = (3, 11)


def _say(english: str, chinese: str) -> str:
    """As fronts/answer.py says it, in syntax and imports of an old Python."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANGUAGE", "LANG"):
        if os.environ.get(name):
            return chinese if os.environ[name].lower().startswith("zh") else english
    return english


def _tell(text: str, stream: Any) -> None:
    """Print our own words, whatever the terminal can show."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
    print(text, file=stream)


def _main_module(path: str) -> types.ModuleType:
    """A fresh `__main__`, as Python makes it for a script."""
    import builtins
    import importlib.machinery

    module = types.ModuleType("__main__")
    module.__dict__.update(
        __file__=path, __builtins__=builtins, __spec__=None, __package__=None, __cached__=None, __annotations__={},
        __loader__=importlib.machinery.SourceFileLoader("__main__", path),
    )
    sys.modules["__main__"] = module
    return module


def _run_file(path: str) -> None:
    """Execute a script file as Python does."""
    full = os.path.abspath(path)
    module = _main_module(full)
    import io

    with io.open_code(full) as file:
        source = file.read()
    exec(compile(source, full, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the user's own script, as asked


def _run(arguments: "list[str]") -> None:
    """Run what the arguments name, with sys.argv and sys.path as it would have them without us."""
    safe = getattr(sys.flags, "safe_path", False)
    if arguments[0] == "-m":
        import runpy

        sys.argv[:] = ["-m", *arguments[2:]]
        _main_module("")
        runpy._run_module_as_main(arguments[1])  # type: ignore[attr-defined]  # what `python -m` itself calls
        return
    sys.argv[:] = arguments
    path = arguments[0]
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        import runpy

        sys.path[0 : 0 if safe else 1] = [os.path.abspath(path)]
        _main_module("")
        runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]
        return
    if not safe:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    _run_file(path)


def _without_us(trace: Any) -> Any:
    """The traceback from the first frame that is not ours."""
    own = __file__
    while trace is not None and trace.tb_frame.f_code.co_filename == own:
        trace = trace.tb_next
    return trace



def main() -> None:
    """Run the script; print its traceback as Python would, then the diagnosis; end as Python would."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help") or (arguments[0] == "-m" and len(arguments) < 2):
        asked = bool(arguments) and arguments[0] in ("-h", "--help")
        _tell(_say(USAGE_EN, USAGE_ZH), sys.stdout if asked else sys.stderr)
        sys.exit(0 if asked else 2)
    if arguments[0] != "-m" and not os.path.exists(arguments[0]):
        _tell("ongpu.hook: " + _say("no such file: ", "没有这个文件：") + arguments[0], sys.stderr)
        sys.exit(2)
    if sys.version_info < OLDEST:
        version = ".".join(map(str, sys.version_info[:3]))
        english = f"ongpu needs Python 3.11 or newer, this is {version}: the script runs without diagnosis"
        chinese = f"ongpu 需要 Python 3.11 或更新，这里是 {version}：脚本照常运行，但没有诊断"
        print("ongpu.hook: " + _say(english, chinese), file=sys.stderr)  # noqa: T201
    try:
        _run(arguments)
    except SystemExit:
        raise
    except BaseException as error:
        trace = _without_us(error.__traceback__)
        error.__traceback__ = trace
        sys.excepthook(type(error), error, trace)
        if sys.version_info >= OLDEST and isinstance(error, Exception):
            from ongpu.fronts.failure import report_to_stderr

            report_to_stderr(error)
        sys.excepthook = lambda *_: None  # it has been shown; Python's own way to end follows: exit code, atexit, signals
        raise


if __name__ == "__main__":
    main()
