"""How long the dry run takes, and how much host memory: a ResNet-50 step at batch 32, a GPT-2-small step at 8 x 1024 tokens.

    python benchmarks/dryrun.py --python PATH_OF_A_PYTHON_WITH_TORCH [--steps 4]

Each script is run through `ongpu dryrun` from start to end (start of two interpreters and import of PyTorch included), in a
process group of its own; the peak is the largest sum of resident memory over that group, sampled each 50 ms. The models stand
in this file; nothing is downloaded. Wanted on two cores: ResNet-50 under 8 s, GPT-2 small under 15 s, both under 2 GB.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

RESNET50 = '''
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        out = 4 * width
        self.c1, self.b1 = nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width)
        self.c2, self.b2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.c3, self.b3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
        self.down = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out)) if inside != out else None

    def forward(self, x):
        y = F.relu(self.b1(self.c1(x)), inplace=True)
        y = F.relu(self.b2(self.c2(y)), inplace=True)
        return F.relu(self.b3(self.c3(y)) + (self.down(x) if self.down else x), inplace=True)


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        layers, inside = [], 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for n in range(count):
                layers.append(Block(inside, width, stride if n == 0 else 1))
                inside = 4 * width
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(2048, 1000)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.layers(self.stem(x)), 1).flatten(1))


model = ResNet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
for _ in range(10):
    images, labels = torch.randn(32, 3, 224, 224).cuda(), torch.randint(0, 1000, (32,)).cuda()
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
'''
GPT2 = '''
import torch
import torch.nn.functional as F
from torch import nn

VOCAB, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 50257, 768, 12, 12, 1024, 8


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, HEADS, c // HEADS).transpose(1, 2) for part in self.qkv(self.ln1(x)).split(WIDTH, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers, self.norm = nn.ModuleList(Layer() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x)).view(-1, VOCAB), targets.reshape(-1))


model = GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4)
for _ in range(10):
    ids = torch.randint(0, VOCAB, (BATCH, LENGTH + 1)).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(ids[:, :-1], ids[:, 1:])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
'''
SCRIPTS = {"resnet50 batch 32": (RESNET50, 8.0), "gpt2-small 8 x 1024": (GPT2, 15.0)}
PAGE = os.sysconf("SC_PAGE_SIZE")
MOST_MEMORY = 2e9


def resident(group: int) -> int:
    """Bytes of resident memory of ongpu and of the child, which leads a group of its own."""
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(entry.name) == group or int(stat[1]) == group or _ancestor(int(stat[1]), group):
                    total += int((entry / "statm").read_text().split()[1]) * PAGE
            except (OSError, IndexError, ValueError):
                continue
    return total


def _ancestor(pid: int, group: int) -> bool:
    for _ in range(4):
        if pid in (0, 1):
            return False
        if pid == group:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            return False
    return False


def measure(python: str, script: Path, steps: int) -> tuple[float, float, dict[str, object]]:
    """Seconds, bytes at most, and what the dry run told."""
    command = [sys.executable, "-m", "ongpu", "dryrun", "--format", "json", "--gpu", "A100 80GB", "--steps", str(steps), "--python", python]
    began = time.monotonic()
    process = subprocess.Popen([*command, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    most = [0]

    def watch() -> None:
        while process.poll() is None:
            most[0] = max(most[0], resident(process.pid))
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    out = process.communicate()[0]
    watcher.join()
    told: dict[str, object] = json.loads(out)["facts"]["DryRun"]
    return time.monotonic() - began, most[0], told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="an interpreter with PyTorch")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, (source, limit) in SCRIPTS.items():
            script = Path(folder, name.split()[0] + ".py")
            script.write_text(source, "utf-8")
            found = [measure(options.python, script, options.steps) for _ in range(options.rounds)]
            seconds, memory, told = sorted(found, key=lambda one: one[0])[len(found) // 2]
            peak = told["memory"]["peak_reserved"] / 2**30  # type: ignore[index]
            late = seconds > limit or memory > MOST_MEMORY
            failed |= late
            print(
                f"{name}: {seconds:.1f} s (wanted {limit:.0f}), {memory / 1e9:.2f} GB of host memory, {told['steps']} steps, "
                f"{peak:.2f} GiB reserved on the card{'   TOO MUCH' if late else ''}"
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
