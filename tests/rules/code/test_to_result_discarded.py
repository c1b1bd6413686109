
import pytest
from asking import explain, lint, linted, slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the "
        "same\n"
        "\n"
        "17:    images.to(device)\n"
        "18:    out = model(images)",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "to-result-discarded"


@pytest.mark.parametrize(
    "text",
    [
        "17:    model.to(device)\n"
        "18:    out = model(x)",
        "17:    x = x.to(device)",
    ],
)
def test_neighbours(text: str) -> None:
    assert "to-result-discarded" not in slugs(text)


@pytest.mark.parametrize(
    "text",
    [
        "x = torch.rand(3)\nx.to('cuda')",
        "x = torch.rand(3)\nx.cuda()",
        "x = torch.rand(3) + 1\nx.half()",
        "for x, y in DataLoader([], 2):\n    x.to('cuda')",
    ],
)
def test_found_in_source(text: str) -> None:
    (finding,) = [f for f in lint(HEAD + text).findings if f.slug == "to-result-discarded"]
    assert [e.text for e in finding.edits] == ["x = "]
    assert finding.edits[0].line == finding.refs[0].line == 4


@pytest.mark.parametrize(
    "text",
    [
        "x = torch.rand(3)\nx = x.to('cuda')",
        "model = torch.nn.Linear(1, 1)\nmodel.to('cuda')",
        "model = torch.nn.Sequential(torch.nn.ReLU())\nmodel[0].cuda()",
        "batch = tokenizer('a', return_tensors='pt')\nbatch.to('cuda')",
        "for batch in DataLoader(graphs):\n    batch.to('cuda')",
        "def f(x):\n    x.to('cuda')",
        "class A(torch.nn.Module):\n    def f(self):\n        self.to('cuda')",
    ],
)
def test_neighbours_in_source(text: str) -> None:
    assert "to-result-discarded" not in linted(HEAD + text)


HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"


@pytest.mark.parametrize("line", ["x.cuda()", "x.to('cuda')", "x.half()", "x.cuda(non_blocking=True)"])
def test_told_in_the_words_of_the_line(line: str) -> None:
    (finding,) = [f for f in lint(f"{HEAD}x = torch.rand(3)\n{line}\n").findings if f.slug == "to-result-discarded"]
    assert finding.values["line"] == line
    assert finding.values["method"] == f".{line[2:].partition('(')[0]}()"


@pytest.mark.parametrize("line", ["images.to(device)", "images.cuda()"])
def test_told_in_the_words_of_a_pasted_line(line: str) -> None:
    error = "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same\n\n"
    report = explain(f"{error}17:    {line}  # moved\n18:    out = model(images)")
    (finding,) = [f for f in report.findings if f.slug == "to-result-discarded"]
    assert finding.values["line"] == line
    assert finding.values["method"] == f".{line[7:].partition('(')[0]}()"
