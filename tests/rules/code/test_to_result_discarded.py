
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


ENCODED = """\
from transformers import AutoModelForCausalLM, AutoTokenizer
device = torch.device("cuda:0")
tokenizer = AutoTokenizer.from_pretrained("a")
model = AutoModelForCausalLM.from_pretrained("a").to(device)
inputs = tokenizer(["a"], return_tensors="pt")
"""
INDEX = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cpu and cuda:0! "
    "(when checking argument for argument index in method wrapper_CUDA__index_select)"
)


@pytest.mark.parametrize(
    "text",
    [
        'inputs["input_ids"].to(device)\nmodel.generate(**inputs)',
        "inputs.attention_mask.cuda()\nmodel(**inputs)",
        'ids = inputs["input_ids"]\nids.to(device)\nmodel.generate(ids)',
        'ids = tokenizer.encode("a", return_tensors="pt")\nids.to(device)\nmodel.generate(ids)',
        "def answer(input_ids):\n    input_ids.to(device)\n    return model.generate(input_ids)\nanswer(inputs.input_ids)",
        'for batch in texts:\n    batch["ids"].to(device)\n    model(batch["ids"]).loss.backward()',
    ],
)
def test_parts_of_an_encoded_text_and_entries_of_a_batch(text: str) -> None:
    assert linted(HEAD + ENCODED + text) == ["to-result-discarded"]
    assert slugs(HEAD + ENCODED + text, INDEX)[0] == "to-result-discarded"
    assert "model-not-moved" not in slugs(HEAD + ENCODED + text, INDEX)


@pytest.mark.parametrize(
    "text",
    [
        "inputs.to(device)\nmodel.generate(**inputs)",  # moves itself
        'ids = inputs["input_ids"].to(device)\nmodel.generate(ids)',
        'nets = load()\nnets["labeller"].to(device)',
        'for nets in pairs():\n    nets["labeller"].to(device)',
        'for nets in pairs():\n    nets[0].to(device)\n    nets[0](inputs["input_ids"])',
    ],
)
def test_what_may_move_itself(text: str) -> None:
    assert "to-result-discarded" not in linted(HEAD + ENCODED + text)
