import pytest
from asking import linted, slugs
from parts.programs import HEAD, START


@pytest.mark.parametrize(
    "text",
    [
        '  File "/x/torch/utils/data/sampler.py", line 124, in __iter__\n'
        "    yield from torch.randperm(n, generator=generator).tolist()\n"
        "RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'",
        "RuntimeError: Expected a 'cuda:0' generator device but found 'cpu'",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "default-device-cuda"


@pytest.mark.parametrize(
    "text",
    [
        START + """\
torch.set_default_device("cuda")
loader = DataLoader([], 2, shuffle=True)
""",
        START + """\
torch.set_default_tensor_type("torch.cuda.FloatTensor")
parts = torch.utils.data.random_split([], [1, 2])
""",
        START + """\
torch.set_default_device(device)
loader = DataLoader([], 2, True)
""",
    ],
)
def test_found_in_source(text: str) -> None:
    assert "default-device-cuda" in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        START + """\
torch.set_default_device("cuda")
loader = DataLoader([], 2, shuffle=True, generator=torch.Generator(device="cuda"))
""",
        START + """\
torch.set_default_device("cuda")
loader = DataLoader([], 2)
""",
        START + """\
torch.set_default_device("cpu")
loader = DataLoader([], 2, shuffle=True)
""",
        START + """\
loader = DataLoader([], 2, shuffle=True)
""",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "default-device-cuda" not in linted(text)


@pytest.mark.parametrize(
    "text",
    [
        HEAD
        + """
torch.set_default_device("cuda")
loader = DataLoader(dataset, 32, shuffle=True)
""",
        HEAD
        + """
torch.set_default_device(device)
def main():
    loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=0)
main()
""",
        HEAD
        + """
torch.set_default_tensor_type("torch.cuda.FloatTensor")
train, val = torch.utils.data.random_split(dataset, [8, 2])
""",
        HEAD
        + """
torch.set_default_tensor_type(torch.cuda.FloatTensor)
loader = DataLoader(dataset, 4, True)
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "default-device-cuda" in linted(text)
