"""`ongpu.check` and the listener of IPython, without either framework: readable, quiet, never raising."""

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from parts.ducks import Module, Optimizer, Tensor, linear, weights

import ongpu
from ongpu.fronts import failure, notebook
from ongpu.model import Evidence, Verdict

OOM = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.20 GiB is free."


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as found:
        return found


def test_importing_ongpu_loads_nothing() -> None:
    code = "import sys; before = set(sys.modules); import ongpu; print(sorted(set(sys.modules) - before))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "['ongpu']"


def test_check_shows_where_all_sits() -> None:
    net = Module(body=linear("cuda:0"), head=linear("cuda:0"))
    found = ongpu.check(net, {"x": Tensor(2, 4, on="cuda:0")}, Optimizer(*weights(net), state_on="cuda:0"), lang="en")
    assert found
    assert found.verdict is Verdict.CLEAR
    assert not found.findings
    text = repr(found)
    assert "parameters       cuda:0  float32  4        160 B" in text
    assert "Nothing wrong was found." in text


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_check_shows_what_is_wrong(lang: str) -> None:
    found = ongpu.check(Module(fc=linear("cuda:0"), buffers={"<mean>": Tensor(3)}), lang=lang)
    assert not found
    assert [f.slug for f in found.findings] == ["model-not-moved"]
    html = found._repr_html_()
    assert "model-not-moved" in repr(found)
    assert "&lt;mean&gt;" in html
    assert "<mean>" not in html
    assert "<body" not in html
    assert ("错误" in repr(found)) == (lang == "zh")


@pytest.mark.parametrize("what", [None, 3, "model", object(), [], {}, Exception, [None], Module()])
def test_check_never_raises(what: Any) -> None:
    for given in ((what,), (what, what), (what, what, what), (None, what), (None, None, what)):
        found = ongpu.check(*given)
        assert repr(found)
        assert found._repr_html_()
        assert not found


def test_our_own_failure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("ongpu.probes.objects.describe", broken)
    found = ongpu.check(Module(), lang="en")
    assert found.verdict is Verdict.CRASHED
    assert "ZeroDivisionError: ours" in found._repr_html_()
    assert "ZeroDivisionError: ours" in repr(found)


def test_an_old_python_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ongpu, "OLDEST", (4, 0))
    with pytest.raises(ImportError, match=r"needs Python 3\.11 or newer; this is"):
        ongpu.check(None)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("cuda"), ValueError("device"), ZeroDivisionError("division by zero"), ModuleNotFoundError("No module named 'gpu_tools'"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"), FileNotFoundError("gpu.yaml"), AssertionError("half"),
        IndexError("index 3 is out of bounds for dimension 0 with size 3"), TypeError("unsupported operand type(s): 'Tensor' and 'str'"),
        MemoryError(), StopIteration("driver"), AttributeError("'NoneType' object has no attribute 'device'"),
    ],
)  # fmt: skip
def test_silent_about_other_exceptions(error: Exception) -> None:
    assert failure.told(raised(error)) is None


@pytest.mark.parametrize(
    ("message", "slug"),
    [
        ("Torch not compiled with CUDA enabled", "cpu-only-build"),
        ("CUDA error: device-side assert triggered", "device-side-assert"),
        ("Expected all tensors to be on the same device, but found at least two devices, cpu and cuda:0!", "device-mismatch"),
        ("Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.", "checkpoint-map-location"),
        ("Cannot re-initialize CUDA in forked subprocess", "fork-after-cuda-init"),
    ],
)  # fmt: skip
def test_told_about_gpu_exceptions(message: str, slug: str) -> None:
    found = failure.told(raised(RuntimeError(message)))
    assert isinstance(found, failure.Diagnosis), found
    assert slug in [f.slug for f in found.report.findings]


def test_the_exception_behind_an_exception_counts() -> None:
    try:
        try:
            raise RuntimeError("CUDA error: device-side assert triggered")
        except RuntimeError as first:
            raise ValueError("step failed") from first
    except ValueError as error:
        found = failure.told(error)
    assert isinstance(found, failure.Diagnosis)
    assert found.report.findings[0].slug == "device-side-assert"


def nvml(monkeypatch: pytest.MonkeyPatch, **card: object) -> None:
    """The machine's NVML tells of one card."""
    lines = [{"init": "ok"}, {"driver": "550.54.14", "cuda": 12040, "count": 1}, {"gpu": 0, "name": "NVIDIA A100", **card}]
    text = "\n".join(map(json.dumps, lines))
    monkeypatch.setattr("ongpu.hosts.others.ask", lambda started: [Evidence("nvml", text, "NVML")])


def test_what_nvml_says_by_the_way_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml(monkeypatch, temperature=99, slowdown=90, reasons=64, persistence=0, utilization={"gpu": 90}, processes=[])
    found = failure.told(raised(RuntimeError("CUDA error: device-side assert triggered")))
    assert isinstance(found, failure.Diagnosis)
    assert [f.slug for f in found.report.findings] == ["device-side-assert"]


def test_others_on_the_card_explain_a_bare_message(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = {"total": 80 << 30, "used": 73 << 30, "free": 7 << 30}
    nvml(monkeypatch, memory=memory, processes=[{"pid": 4242, "kind": "C", "memory": 72 << 30, "name": "python3"}])
    found = failure.told(raised(RuntimeError("CUDA error: out of memory")), "en")
    assert isinstance(found, failure.Diagnosis)
    assert found.report.findings[0].slug == "oom-other-process"
    assert "GPU 0: process 4242 (python3) holds 73728 MiB" in found.text()
    assert "GPU 0: process 4242 (python3) holds 73728 MiB" in found._repr_html_()


class Events:
    """As IPython's event manager."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[Any]] = {"pre_run_cell": [], "post_run_cell": []}

    def register(self, event: str, function: Any) -> None:
        self.callbacks[event].append(function)

    def unregister(self, event: str, function: Any) -> None:
        self.callbacks[event].remove(function)


def test_listener_keeps_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    shell, other = SimpleNamespace(events=Events()), lambda result: None
    shell.events.register("post_run_cell", other)
    ongpu.load_ipython_extension(shell)
    ongpu.load_ipython_extension(shell)
    first, mine = shell.events.callbacks["post_run_cell"]
    assert first is other
    mine(SimpleNamespace(error_in_exec=None))
    mine(SimpleNamespace(error_in_exec=raised(KeyError("x"))))
    mine(SimpleNamespace(error_in_exec=raised(KeyboardInterrupt())))
    assert capsys.readouterr().out == ""
    ongpu.unload_ipython_extension(shell)
    assert shell.events.callbacks == {"pre_run_cell": [], "post_run_cell": [other]}


def test_listener_shows_the_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=shown.append))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    notebook.Listener().after(SimpleNamespace(error_in_exec=raised(RuntimeError("CUDA error: device-side assert triggered"))))
    (diagnosis,) = shown
    assert "device-side-assert" in repr(diagnosis)
    assert "device-side-assert" in diagnosis._repr_html_()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["token", "auth", "password", "api_key", "10.0.0.1", "me@example.com", "hf_abcdefghijklmnopqrstuvwxyz"])
def test_masking_secrets_keeps_the_lines_readable(name: str) -> None:
    batch = {name: Tensor(3, dtype="float64"), "x": {name: Tensor(2)}}
    objects = ongpu.check(Module(buffers={name: Tensor(3)}, fc=linear(), **{name: linear()}), batch).objects
    assert objects
    assert len(objects.placed) == 7
    assert all(item.device == "cpu" and item.shape for item in objects.placed)
