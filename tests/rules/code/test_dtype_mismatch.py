# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import linted, slugs
from parts.programs import HEAD


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: expected scalar type Half but found Float",
        "RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float",
        "RuntimeError: Input type (c10::Half) and bias type (float) should be the same",
        "ValueError: Attempting to unscale FP16 gradients.",
        "RuntimeError: \"LayerNormKernelImpl\" not implemented for 'Half'",
        "RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'",
        "RuntimeError: Expected object of scalar type Float but got scalar type Double for argument #2 "
        "'mat1' in call to _th_addmm",
        "RuntimeError: Index put requires the source and destination dtypes match, got Half for the "
        "destination and Float for the source.",
        "RuntimeError: Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be "
        "the same",
        "RuntimeError: FlashAttention only support fp16 and bf16 data type",
        "RuntimeError: Found dtype Double but expected Float",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "dtype-mismatch"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the "
        "same",
    ],
)
def test_neighbours(text: str) -> None:
    assert "dtype-mismatch" not in slugs(text)


@pytest.mark.parametrize(
    "text",
    [
        HEAD
        + """
import numpy as np
model = Net().to(device)
x = torch.from_numpy(np.random.rand(8, 64)).to(device)
model(x)
""",
        HEAD
        + """
model = Net().half().to(device)
x = torch.randn(8, 64, device=device)
model(x)
""",
        HEAD
        + """
model = nn.Sequential(nn.Linear(64, 2)).to(device)
x = torch.randn(8, 64, dtype=torch.float64).to(device)
print(model(x))
""",
        HEAD
        + """
import numpy as np
rng = np.random.default_rng(0)
def main():
    X = torch.tensor(rng.normal(size=(10, 64)))
    net = Net().cuda()
    net(X.cuda())
main()
""",
        HEAD
        + """
emb = nn.Embedding(10, 4).to(device)
ids = torch.zeros(3).to(device)
emb(ids)
""",
        HEAD
        + """
import numpy as np
ds = TensorDataset(torch.from_numpy(np.random.randn(100, 64)), torch.randint(0, 10, (100,)))
model = Net().to(device)
for x, y in DataLoader(ds, 10):
    F.cross_entropy(model(x.to(device)), y.to(device))
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "dtype-mismatch" in linted(text)


SAME_TYPE = "RuntimeError: Expected tensor for argument #1 'grad_output' to have the same type as tensor for argument #2 'weight'; but type torch.{} does not equal torch.{} (while checking arguments for cudnn_convolution_backward_input)"


def test_types_of_two_arguments() -> None:
    assert slugs(SAME_TYPE.format("cuda.HalfTensor", "cuda.FloatTensor"))[0] == "dtype-mismatch"
    assert slugs(SAME_TYPE.format("FloatTensor", "cuda.FloatTensor"))[0] != "dtype-mismatch"
