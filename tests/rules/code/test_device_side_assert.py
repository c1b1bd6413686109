import pytest
from asking import explain, linted, slugs
from parts.dryruns import LOSS, error, judged
from parts.programs import HEAD, TRAINED


@pytest.mark.parametrize(
    "text",
    [
        "../aten/src/ATen/native/cuda/Loss.cu:242: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], "
        "thread: [5,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
        "RuntimeError: CUDA error: device-side assert triggered",
        "RuntimeError: cuda runtime error (59) : device-side assert triggered at "
        "/pytorch/aten/src/THC/generic/THCTensorMath.cu:26",
        "/opt/conda/conda-bld/pytorch/aten/src/ATen/native/cuda/TensorCompare.cu:110: "
        "_assert_async_cuda_kernel: block: [0,0,0], thread: [0,0,0] Assertion `probability tensor contains "
        "either `inf`, `nan` or element < 0` failed.",
        "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:605: indexSelectSmallIndex: block: [0,0,0], thread: "
        "[0,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "RuntimeError: CUDA 错误：设备端断言已触发",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "device-side-assert"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "AssertionError: assert x > 0",
    ],
)
def test_neighbours(text: str) -> None:
    assert "device-side-assert" not in slugs(text)


def test_a_dry_run_with_labels_out_of_range() -> None:
    index = {"place": LOSS, "op": "nll_loss", "low": 1, "high": 10, "allowed": [0, 9], "count": 1}
    told = error("cuda", "CUDA error: device-side assert triggered", place=LOSS)
    report = judged(outcome="error", error=told, indices=[index])
    assert [f.slug for f in report.findings] == ["device-side-assert"]
    assert "from 1 to 10; only 0 to 9" in report.findings[0].text("en").title


def test_with_launch_blocking_the_line_is_the_guilty_one() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 31, in <module>\n'
        "    loss = criterion(out, labels)\n"
        "RuntimeError: CUDA error: device-side assert triggered\n"
    )
    (finding,) = [f for f in explain("$ CUDA_LAUNCH_BLOCKING=1 python train.py\n" + text).findings if f.slug == "device-side-assert"]
    assert "the line of the traceback is the guilty one: loss = criterion(out, labels)" in finding.text("en").why
    assert finding.fixes == ()
    (finding,) = [f for f in explain(text).findings if f.slug == "device-side-assert"]
    assert "in an unrelated line (loss = criterion(out, labels))" in finding.text("en").why


@pytest.mark.parametrize(
    "text",
    [
        HEAD
        + """
emb = nn.Embedding(100, 16).to(device)
ids = torch.randint(0, 1000, (4, 8), device=device)
print(emb(ids))
""",
        HEAD
        + """
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 3)).to(device)
x = torch.randn(8, 20, device=device)
y = torch.randint(0, 10, (8,), device=device)
loss = F.cross_entropy(model(x), y)
loss.backward()
""",
        HEAD
        + """
class C(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.body = nn.Linear(20, 64)
        self.head = nn.Linear(64, n)
    def forward(self, x):
        return self.head(F.relu(self.body(x)))
model = C(5).cuda()
labels = torch.tensor([1, 2, 3, 4, 5]).cuda()
loss = nn.CrossEntropyLoss()(model(torch.randn(5, 20).cuda()), labels)
""",
        HEAD
        + """
class P(nn.Module):
    def __init__(self):
        super().__init__()
        self.pos = nn.Embedding(128, 16)
    def forward(self, x):
        return x + self.pos(torch.arange(256, device=x.device))
P().to(device)(torch.randn(1, 256, 16, device=device))
""",
        """\
import torch
from transformers import AutoTokenizer, AutoModelForCausalLM
tok = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2").to("cuda")
tok.add_special_tokens({"additional_special_tokens": ["<user>", "<bot>"]})
ids = tok("<user> hi", return_tensors="pt").to("cuda")
model(**ids)
""",
        TRAINED
        + """
for x, y in loader:
    y = y.to(device)
    y[y > 9] = -1
    loss = F.cross_entropy(model(x.to(device)), y)
    loss.backward()
    optimizer.step()
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "device-side-assert" in linted(text)


def test_a_dry_run_that_hung_in_a_loop_is_no_proof() -> None:
    index = {"place": LOSS, "op": "embedding", "low": 64, "high": 3000, "allowed": [0, 63], "count": 9}
    assert judged(outcome="timeout", steps=0, backwards=0, indices=[index]).findings == ()
