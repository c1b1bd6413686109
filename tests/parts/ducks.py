"""Objects that look like PyTorch's, by the names of their classes and the attributes that are read; no torch is needed."""

from typing import Any

ASKED: set[str] = set()  # what a tensor was asked for and has not: a method that might compute, copy or wait


class Dtype:
    """`torch.float32` and the like."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.itemsize = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "bool": 1}[name]

    def __repr__(self) -> str:
        return f"torch.{self.name}"


class Tensor:
    """A tensor without memory."""

    __module__ = "torch"

    def __init__(self, *shape: int, on: str = "cpu", dtype: str = "float32", requires_grad: bool = False) -> None:
        self.shape, self.device, self.dtype = shape, on, Dtype(dtype)
        self.requires_grad, self.is_leaf, self.grad = requires_grad, True, None

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            ASKED.add(name)
        raise AttributeError(name)


class Parameter(Tensor):
    """A trainable one."""

    __module__ = "torch.nn.parameter"

    def __init__(self, *shape: int, on: str = "cpu", dtype: str = "float32", requires_grad: bool = True) -> None:
        super().__init__(*shape, on=on, dtype=dtype, requires_grad=requires_grad)


class Module:
    """A module: what is a parameter or a module among the arguments is registered, `plain` is not."""

    __module__ = "torch.nn.modules.module"

    def __init__(self, plain: dict[str, Any] | None = None, buffers: dict[str, Tensor] | None = None, **parts: Any) -> None:
        self._parameters = {name: part for name, part in parts.items() if isinstance(part, Parameter)}
        self._modules = {name: part for name, part in parts.items() if isinstance(part, Module)}
        self._buffers = dict(buffers or {})
        self.training = True
        self.__dict__.update(plain or {})


class Optimizer:
    """An optimizer with the state that Adam keeps."""

    __module__ = "torch.optim.optimizer"

    def __init__(self, *parameters: Parameter, state_on: str | None = None) -> None:
        self.param_groups = [{"params": list(parameters), "lr": 0.1}]
        self.state = {p: {"step": Tensor(), "exp_avg": Tensor(*p.shape, on=state_on)} for p in parameters} if state_on else {}


def linear(on: str = "cpu", dtype: str = "float32", **more: Any) -> Module:
    """A layer of 4 x 4."""
    return Module(weight=Parameter(4, 4, on=on, dtype=dtype), bias=Parameter(4, on=on, dtype=dtype), **more)


def weights(module: Module) -> list[Parameter]:
    """`list(module.parameters())`."""
    return [*module._parameters.values(), *(p for child in module._modules.values() for p in weights(child))]
