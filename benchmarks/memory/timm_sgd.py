"""One timm model trained as the table timm_a100_fp32_sgd.csv was taken: float32, SGD with momentum, cross-entropy, its own input size."""

import argparse
import sys
import types

import torch
from torch.nn import functional as F


class Name(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class Stand(types.ModuleType):
    """In place of torchvision, of which timm wants names only: its transforms and operators are not used here."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(name, (), {"__init__": lambda self, *a, **k: None})


class Finder:
    def find_spec(self, name, path=None, target=None):
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "torchvision" else None

    def create_module(self, spec):
        return Stand(spec.name)

    def exec_module(self, module):
        pass


def main() -> None:
    try:
        import torchvision  # noqa: F401
    except Exception:  # not installed, or built for another torch
        sys.modules.pop("torchvision", None)
        sys.meta_path.insert(0, Finder())
    import timm

    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()
    model = timm.create_model(args.model).cuda().train()
    size = model.default_cfg["input_size"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(args.steps):
        images, labels = torch.rand(args.batch, *size).cuda(), torch.randint(0, 1000, (args.batch,)).cuda()
        optimizer.zero_grad()
        outputs = model(images)
        loss = F.cross_entropy(outputs[0] if isinstance(outputs, tuple) else outputs, labels)
        loss.backward()
        optimizer.step()
    mib = 1 << 20
    print(f"peak: {torch.cuda.max_memory_allocated() / mib:.0f} MiB allocated, {torch.cuda.max_memory_reserved() / mib:.0f} MiB reserved")


if __name__ == "__main__":
    main()
