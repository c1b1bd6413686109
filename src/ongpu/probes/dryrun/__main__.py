"""Reads the spec, makes the pretend card, runs the script, writes the answer. See the package's docstring."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any, Dict, List

HERE = os.path.dirname(os.path.abspath(__file__))


def package(part: str) -> Any:
    """This folder as a package, without its parent on sys.path, whose modules are not the user's business."""
    name = "ongpu_dryrun"
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, "__init__.py"), submodule_search_locations=[HERE])
    if spec is None or spec.loader is None:
        raise ImportError("the dry run's own folder cannot be read")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return importlib.import_module(name + "." + part)


def main(arguments: List[str]) -> int:
    """SPEC.json SCRIPT ARGS... Exit code 0 when the answer was written."""
    if len(arguments) < 2:
        sys.stderr.write("usage: python dryrun SPEC.json SCRIPT [ARGS...]\n")
        return 2
    with open(arguments[0], encoding="utf-8") as stream:
        spec: Dict[str, Any] = json.load(stream)
    sys.dont_write_bytecode = True
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or os.getcwd()) != HERE]
    if int(spec.get("launch") or 0) > 1:
        found = package("ranks").launch(spec, arguments[1:], HERE)
        with open(spec["answer"], "w", encoding="utf-8") as stream:
            json.dump(found, stream)
        return 0
    return int(package("run").run(spec, arguments[1:]))


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # workers, hooks and threads of the script must not hold the answer up
