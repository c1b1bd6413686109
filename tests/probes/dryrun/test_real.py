"""The dry run with a real PyTorch on the CPU: what it answers for small scripts."""

import json
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from parts.interpreters import SRC, bare, old_torch

pytestmark = pytest.mark.real
FOLDER = SRC / "ongpu" / "probes" / "dryrun"
MIB, GIB = 1 << 20, 1 << 30
TRAIN = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    rows = TensorDataset(torch.randn(400, 64), torch.randint(0, 10, (400,)))
    model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for x, y in DataLoader(rows, 16, pin_memory=True):
        loss = nn.functional.cross_entropy(model(x.cuda(non_blocking=True)), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


def dry(folder: Path, script: str, *arguments: str, python: str = "", **spec: Any) -> dict[str, Any]:
    """The answer to a script (its text)."""
    argv = [python or bare("torch"), str(FOLDER), str(folder / "spec.json"), str(folder / "train.py"), *arguments]
    path = folder / "train.py"
    path.write_text(dedent(script), "utf-8")
    told = folder / "spec.json"
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    told.write_text(json.dumps({"answer": str(folder / "answer.json"), "scratch": str(scratch), "seconds": 200, **spec}), "utf-8")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=280, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads((folder / "answer.json").read_text("utf-8"))
    answer["printed"] = done.stdout
    assert answer["outcome"] != "crashed", answer["error"]["traceback"]
    return answer


def line(script: str, text: str) -> int:
    """The number of the first line that holds the text."""
    return next(n for n, row in enumerate(dedent(script).splitlines(), 1) if text in row)


@pytest.mark.parametrize("version", ["", pytest.param("oldest", marks=pytest.mark.slow)])
def test_every_feature(tmp_path: Path, version: str) -> None:
    answer = dry(tmp_path, (Path(__file__).parent / "features.py").read_text("utf-8"), python=version and old_torch(), steps=0)
    bad = [row for row in answer["printed"].splitlines() if not row.startswith(("ok ", "USDT"))]
    assert bad == []
    assert answer["printed"].count("ok ") >= 12


def test_a_healthy_loop(tmp_path: Path) -> None:
    answer = dry(tmp_path, TRAIN)
    assert (answer["outcome"], answer["stopped_by"], answer["error"]) == ("stopped", "steps", None)
    assert answer["steps"] == 4
    assert answer["batch_size"] == 16
    weights = 4 * (64 * 1024 + 1024 + 1024 * 10 + 10)
    assert answer["devices"]["parameters"] == {"cuda:0": weights}
    assert answer["devices"]["optimizer_state"]["cuda:0"] >= 2 * weights
    kinds = answer["memory"]["at_peak"]["by_kind"]
    assert weights <= kinds["weight"] <= weights + 4 * 512
    assert 2 * weights <= kinds["optimizer_state"] <= 2 * weights + 8 * 512 + 4 * 512
    assert answer["memory"]["peak_reserved"] >= answer["memory"]["peak_allocated"] >= 4 * weights
    assert answer["memory"]["growth"] is None
    waits = {(row["place"]["line"], row["kind"]): row["per_step"] for row in answer["syncs"]}
    assert waits == {(line(TRAIN, "loss.item()"), "item"): 1.0}
    moves = next(row for row in answer["copies"] if row["place"]["line"] == line(TRAIN, "x.cuda"))
    assert moves["pinned"] == moves["count"] == 8
    assert moves["non_blocking"] == 4
    loader = answer["loaders"][0]
    assert (loader["batch_size"], loader["workers"], loader["pin_memory"], loader["length"]) == (16, 0, True, 400)
    assert answer["accumulation"]["every"] == 1
    assert answer["unsupported"] == []


def test_the_largest_batch_fits_and_a_larger_one_does_not(tmp_path: Path) -> None:
    card = {"total": 400 * MIB, "context": 100 * MIB}
    answer = dry(tmp_path, TRAIN, mode="find-batch-size", card=card)
    batch = answer["batch"]
    assert batch["as_run"] == 16
    assert answer["steps"] <= 6
    assert batch["bounded"]
    assert batch["verified"]
    assert all(row["fits"] == (row["batch"] <= batch["largest"]) for row in batch["traced"])
    larger = TRAIN.replace("(400", "(200000").replace("rows, 16", "rows, %d")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert dry(tmp_path / "a", larger % batch["largest"], card=card)["outcome"] == "stopped"
    assert dry(tmp_path / "b", larger % int(batch["largest"] * 1.1), card=card)["error"]["kind"] == "oom"


def test_savings_are_traced(tmp_path: Path) -> None:
    script = TRAIN.replace("zero_grad()", "zero_grad(set_to_none=False)").replace("print(loss.item())", "pass")
    script = script.replace("nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 10))", "Net()").replace(
        "    torch.manual_seed(0)",
        """
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(1024, 8192), nn.Linear(8192, 1024)
        def forward(self, x):
            return x + self.down(torch.relu(self.up(x)))
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.start, self.blocks, self.end = nn.Linear(64, 1024), nn.ModuleList(Block() for _ in range(4)), nn.Linear(1024, 10)
        def forward(self, x):
            x = self.start(x)
            for block in self.blocks:
                x = block(x)
            return self.end(x)
    torch.manual_seed(0)""",
    ).replace("(400", "(40000").replace("rows, 16", "rows, 2048")  # fmt: skip
    found = {row["change"]: row for row in dry(tmp_path, script, savings=True)["savings"]}
    assert not any(row["failed"] for row in found.values())
    states = 2 * 4 * (64 * 1024 + 4 * 2 * 1024 * 8192 + 1024 * 10)
    assert found["adam-8bit"]["saved_allocated"] >= 0.7 * states
    assert found["checkpointing"]["saved_allocated"] > 100 * MIB
    assert found["bf16-autocast"]["saved_allocated"] > 50 * MIB
    assert "set-to-none" in found


FAULTS = [
    ("x.cuda(non_blocking=True)", "x", "device", "model(x)"),
    ("y.cuda()", "y", "device", "cross_entropy"),
    ("loss.item()", "loss.detach().numpy()", "device", "numpy()"),
    ("nn.Linear(1024, 10)", "nn.Linear(1000, 10)", "script", "model(x"),
    ("import torch\n", "import torch\n    torch.ones(2, device='cuda:1')\n", "cuda", "cuda:1"),
]


@pytest.mark.parametrize(("old", "new", "kind", "where"), FAULTS)
def test_a_fault_is_an_error_at_the_users_line(tmp_path: Path, old: str, new: str, kind: str, where: str) -> None:
    script = TRAIN.replace(old, new, 1)
    answer = dry(tmp_path, script)
    assert answer["outcome"] == "error"
    assert answer["error"]["kind"] == kind
    assert answer["error"]["place"]["line"] == line(script, where)
    assert "ongpu" not in answer["error"]["traceback"].replace(str(tmp_path), "")


def test_out_of_memory_goes_on_to_learn_the_need(tmp_path: Path) -> None:
    large = TRAIN.replace("rows, 16", "rows, 1000").replace("(400", "(8000")
    answer = dry(tmp_path, large, card={"total": 120 * MIB, "context": 100 * MIB})
    assert answer["error"]["kind"] == "oom"
    assert answer["error"]["message"].startswith("CUDA out of memory. Tried to allocate")
    assert answer["steps"] == 4
    assert answer["memory"]["peak_reserved"] > 20 * MIB
    catching = large.replace("print(loss.item())", "pass  # OutOfMemoryError")
    (tmp_path / "raise").mkdir()
    raised = dry(tmp_path / "raise", catching, card={"total": 120 * MIB, "context": 100 * MIB})
    assert raised["steps"] == 0
    assert raised["error"]["type"].endswith("OutOfMemoryError")


def test_labels_indices_growth_and_windows(tmp_path: Path) -> None:
    script = """
        import torch
        from torch import nn
        model = nn.Linear(8, 4).cuda()
        table = nn.Embedding(50, 8).cuda()
        optimizer = torch.optim.SGD([*model.parameters(), *table.parameters()], lr=0.1)
        kept = []
        for step in range(9):
            tokens = torch.randint(0, 50, (6,))
            tokens[2] = 50
            labels = torch.tensor([0, 1, 2, 3, 4, -100])
            loss = nn.functional.cross_entropy(model(table(tokens.cuda())), labels.cuda())
            kept.append(loss)
            (loss / 2).backward(retain_graph=True)
            if step % 2:
                optimizer.step()
                optimizer.zero_grad()
    """
    answer = dry(tmp_path, script, steps=10)
    found = {row["op"]: (row["low"], row["high"], row["allowed"]) for row in answer["indices"]}
    assert found["nll_loss_forward"] == (0, 4, [0, 3])
    assert found["embedding"][1:] == (50, [0, 49])
    assert answer["outcome"] == "finished"
    assert answer["memory"]["growth"] > 0
    window = answer["accumulation"]
    assert (window["every"], window["scaled"], window["dropped"]) == (2, True, 1)


def test_cuda_in_a_forked_worker(tmp_path: Path) -> None:
    script = """
        import torch
        class Rows(torch.utils.data.Dataset):
            def __len__(self): return 8
            def __getitem__(self, k): return torch.ones(3).cuda()
        torch.ones(1).cuda()
        for row in torch.utils.data.DataLoader(Rows(), 2, num_workers=1, multiprocessing_context="fork"):
            print(row.sum())
    """
    answer = dry(tmp_path, script)
    assert answer["outcome"] == "error"
    assert "Cannot re-initialize CUDA in forked subprocess" in answer["error"]["message"]


def test_never_on_the_gpu(tmp_path: Path) -> None:
    answer = dry(tmp_path, TRAIN.replace(".cuda(non_blocking=True)", "").replace(".cuda()", ""))
    assert answer["devices"]["ops"]["cuda"] == 0
    assert {"gpu-never-used"} <= {row["note"] for row in answer["notes"]}
    assert answer["devices"]["parameters"].keys() == {"cpu"}


def test_visible_devices_are_those_of_the_variable(tmp_path: Path) -> None:
    script = """
        import os
        os.environ["CUDA_VISIBLE_DEVICES"] = "3"
        import torch
        print(torch.cuda.is_available(), torch.cuda.device_count())
    """
    answer = dry(tmp_path, script)
    assert "False 0" in answer["printed"]
    assert "visible-devices" in {row["note"] for row in answer["notes"]}


def test_what_cannot_be_followed_is_no_answer_about_the_script(tmp_path: Path) -> None:
    answer = dry(tmp_path, "import torch\ng = torch.cuda.CUDAGraph()\n")
    assert answer["outcome"] == "unsupported"
    assert answer["unsupported"][0]["place"]["line"] == 2


def test_a_script_that_waits_for_ever(tmp_path: Path) -> None:
    answer = dry(tmp_path, "import threading\nthreading.Event().wait()\n", seconds=2)
    assert answer["outcome"] == "timeout"


def test_the_sandbox(tmp_path: Path) -> None:
    script = """
        import os, socket, sys, torch
        os.makedirs("out/a")
        with open("out/a/log.txt", "w") as stream:
            stream.write("hello")
        assert open("out/a/log.txt").read() == "hello"
        os.remove(sys.argv[0])
        try:
            socket.create_connection(("10.1.2.3", 80), timeout=1)
        except OSError as error:
            print("refused", error)
    """
    answer = dry(tmp_path, script, sandbox=True)
    assert answer["outcome"] == "finished"
    assert "refused" in answer["printed"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["answer.json", "scratch", "spec.json", "train.py"]
    assert {(row["what"], row["refused"]) for row in answer["files"]} >= {("write", False), ("delete", True), ("socket.getaddrinfo", True)}


RANKS = """
    import os, sys, torch
    import torch.distributed as dist
    from torch import nn
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    if "same" not in sys.argv:
        torch.cuda.set_device(rank)
    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 10).to("cuda"), device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randn(8, 64, device="cuda")).sum().backward()
        optimizer.step()
        if rank == 0 and "alone" in sys.argv:
            dist.barrier()
"""


EACH = ["cuda:0", "cuda:1"]


@pytest.mark.parametrize(("argument", "devices", "mismatches"), [("", EACH, 0), ("same", ["cuda:0"] * 2, 0), ("alone", EACH, 1)])
def test_ranks(tmp_path: Path, argument: str, devices: list[str], mismatches: int) -> None:
    answer = dry(tmp_path, RANKS, argument, launch=2)
    assert [row["device"] for row in answer["ranks"]] == devices
    assert len(answer["mismatches"]) == mismatches
    assert all(row["error"] is None for row in answer["ranks"])


def test_many_small_operations_are_quick(tmp_path: Path) -> None:
    script = """
        import torch
        from torch import nn
        cell = nn.Linear(32, 32).cuda()
        h = torch.zeros(4, 32, device="cuda")
        for _ in range(3000):
            h = torch.tanh(cell(h)) + h
        h.sum().backward()
    """
    answer = dry(tmp_path, script)
    assert answer["outcome"] == "finished"
    assert answer["devices"]["ops"]["cuda"] > 20000
    assert answer["seconds"] < 60  # about 3 on an idle core


def test_the_operand_that_lies_on_the_cpu_is_named(tmp_path: Path) -> None:
    script = """
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = torch.ones(16)
                self.fc = nn.Linear(16, 4)

            def forward(self, x):
                return self.fc(x * self.scale)

        Net().cuda()(torch.randn(8, 16).cuda())
    """
    told = dry(tmp_path, script)["error"]["operands"].splitlines()
    assert [frame["function"] for frame in json.loads(told[0])["frames"]] == ["forward", "<module>"]
    rows = {row["name"]: (row["role"], row.get("device")) for row in map(json.loads, told[1:]) if row["frame"] == 0}
    assert rows["self.scale"] == ("attribute", "cpu")
    assert rows["x"] == ("argument", "cuda:0")


def test_missing_arguments_are_no_fault(tmp_path: Path) -> None:
    script = """
        import argparse

        parser = argparse.ArgumentParser()
        parser.add_argument("--data", required=True)
        parser.parse_args()
    """
    error = dry(tmp_path, script)["error"]
    assert (error["kind"], error["exit"]) == ("arguments", 2)
    assert error["message"] == "the following arguments are required: --data"


def test_a_syntax_error_has_a_place(tmp_path: Path) -> None:
    error = dry(tmp_path, "x = 1\ndef f(:\n")["error"]
    assert (error["type"], error["place"]["line"], error["place"]["text"]) == ("SyntaxError", 2, "def f(:")


def test_what_was_not_reached_and_where_a_loader_is_made(tmp_path: Path) -> None:
    script = TRAIN + "    def late():\n        return 1\n\n    late()\n"
    script = script.replace("for x, y in DataLoader(rows, 16, pin_memory=True):", "loader = DataLoader(rows, 16)\n    for x, y in loader:")
    early = "    def never():\n        return 0\n\n    def early():\n        torch.manual_seed(0)\n\n    early()\n"
    script = script.replace("    torch.manual_seed(0)\n", early)
    answer = dry(tmp_path, script)
    assert [row["name"] for row in answer["unreached"]] == ["never", "late"]
    assert answer["sources"] == [str(tmp_path / "train.py")]
    assert answer["loaders"][0]["place"]["line"] == line(script, "DataLoader(rows")
