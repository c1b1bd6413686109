"""A pretend `torch` package: it speaks the few calls of the probe, and computes on plain lists."""

from pathlib import Path

VERSION = "__version__ = '2.3.1+cu121'\ncuda = '12.1'\nhip = None\n"
CODE = """\
import os, sys, time
from . import version
__version__ = version.__version__
COUNT, MODE = {count}, {mode!r}
if MODE == "broken":
    raise ImportError("libcudnn.so.8: cannot open shared object file: No such file or directory")
if MODE == "hangs":
    time.sleep(3600)
if MODE == "dies":
    os._exit(139)
if MODE == "warns":
    print("UserWarning: CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up environment", file=sys.stderr)
float32 = "float32"

class Tensor:
    def __init__(self, rows, device="cpu"):
        self.rows, self.device = rows, device
    def reshape(self, a, b):
        return Tensor([self.rows[i * b:(i + 1) * b] for i in range(a)])
    def __mod__(self, n):
        return Tensor([[x % n for x in row] for row in self.rows])
    def __matmul__(self, other):
        columns = list(zip(*other.rows))
        off = 1 if MODE == "wrong" and self.device.endswith(str(COUNT - 1)) else 0
        return Tensor([[sum(x * y for x, y in zip(row, column)) + off for column in columns] for row in self.rows], self.device)
    def to(self, device):
        if MODE == "refuses" and device.endswith(str(COUNT - 1)):
            raise RuntimeError("CUDA error: no kernel image is available for execution on the device")
        return Tensor(self.rows, device)
    def cpu(self):
        return Tensor(self.rows)
    def cuda(self):
        raise RuntimeError("CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env "
                           "variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.")

def arange(n, dtype=None):
    return Tensor(list(range(n)))
def zeros(n):
    return Tensor([0])
def equal(a, b):
    return a.rows == b.rows

class cuda:
    def is_available(): return COUNT > 0 and MODE not in ("warns", "unavailable")
    def device_count(): return COUNT
    def get_arch_list(): return ["sm_80", "sm_90"]
    def get_device_name(index): return "NVIDIA A100 80GB PCIe"
"""


def build_torch(folder: Path, count: int, mode: str = "") -> Path:
    """The package in `folder`, which goes onto PYTHONPATH. mode: "", "wrong", "refuses", "broken", "hangs", "dies", "warns"."""
    package = folder / "torch"
    package.mkdir(parents=True)
    (package / "version.py").write_text(VERSION)
    (package / "__init__.py").write_text(CODE.format(count=count, mode=mode).replace("{{", "{").replace("}}", "}"))
    (folder / "torch-2.3.1+cu121.dist-info").mkdir()
    return folder
