"""Run in the user's interpreter: one small honest computation on every GPU. Python 3.8 syntax, standard library and the
user's own framework only.

Prints one JSON object: {"framework", "version", "available", "count", "devices": [{"index", "name", "ok", "error"}], "error"}.
The computation is a matrix product of small integers, whose result every device must give exactly.
"""

import json
import os
import sys
from typing import Any, Dict  # noqa: F401 - in type comments


def torch_answer():  # type: () -> Dict[str, Any]
    """What PyTorch says, and whether each device computes."""
    import torch

    answer = {  # type: Dict[str, Any]
        "framework": "torch",
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "available": bool(torch.cuda.is_available()),
        "count": 0,
        "devices": [],
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }
    if not answer["available"]:
        try:
            torch.zeros(1).cuda()
        except Exception as error:  # the reason is what we came for
            answer["error"] = "%s: %s" % (type(error).__name__, error)
        return answer
    answer["archs"] = list(torch.cuda.get_arch_list())
    answer["count"] = torch.cuda.device_count()
    numbers = torch.arange(64 * 64, dtype=torch.float32).reshape(64, 64) % 7
    right = numbers @ numbers
    for index in range(answer["count"]):
        device = {"index": index}  # type: Dict[str, Any]
        try:
            device["name"] = torch.cuda.get_device_name(index)
            there = numbers.to("cuda:%d" % index)
            device["ok"] = bool(torch.equal((there @ there).cpu(), right))
        except Exception as error:
            device["ok"] = False
            device["error"] = "%s: %s" % (type(error).__name__, error)
        answer["devices"].append(device)
    return answer


def main():  # type: () -> None
    """Ask the framework that is there."""
    try:
        answer = torch_answer()
    except Exception as error:  # a broken import is an answer too
        answer = {"framework": "torch", "error": "%s: %s" % (type(error).__name__, error)}
    print("ongpu-probe " + json.dumps(answer))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
