"""`ongpu fix` in a process of its own, on a recorded machine with a real interpreter.

Arguments: the machine's tree, its environment as JSON, the interpreter, "" or a file that only a command which is not safe
would make, then those of ongpu.
"""

import json
import sys
from pathlib import Path

from ongpu.fronts import cli, examined
from ongpu.hosts.live import Live
from ongpu.report import recipes

tree, environ, python, mark, *arguments = sys.argv[1:]
sys.argv = ["ongpu", *arguments]
if mark:
    for risk in ("disruptive", "destructive"):
        recipes.table()["install-torch-cuda"]["command"].append({"on": "any", "run": f"touch {mark}", "risk": risk})
        recipes.table()["install-torch-cuda"]["command"].append({"on": "linux", "run": f"touch {mark}", "risk": risk})
machine = Live(root=Path(tree), python=python, environ=json.loads(environ), system="linux")
examined.machine = lambda root, asked: machine
sys.exit(cli.run(arguments))
