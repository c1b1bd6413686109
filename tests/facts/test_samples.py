# ruff: noqa: E501  programs stand in one piece
from ongpu.facts.program import Event
from ongpu.facts.samples import costly, takes, whole_files
from ongpu.sources.python_source import script

HEAD = "import cv2\nimport numpy as np\nimport torch\nfrom torch.utils.data import DataLoader, Dataset\nimport torchvision\n"
OWN = "class D(Dataset):\n    def __getitem__(self, i):\n        return {}\nloader = DataLoader(D(), 4)\nother = DataLoader(D(), 4)\nfor k, x in enumerate(loader):\n    pass\n"


def test_what_a_sample_costs() -> None:
    for text, cost in (("cv2.imread(self.files[i])", "cv2.imread"), ("self.rows[i]", None)):
        found = script("train.py", HEAD + OWN.format(text))
        assert found
        made = costly(found, found.loaders[0])
        assert (made.name if isinstance(made, Event) else made) == cost
    for text, name in (("ImageFolder('x')", "ImageFolder"), ("CIFAR10('x')", None)):
        found = script("train.py", HEAD + f"loader = DataLoader(torchvision.datasets.{text}, 4)\n")
        assert found
        assert costly(found, found.loaders[0]) == name


def test_which_loop_takes_a_loader() -> None:
    found = script("train.py", HEAD + OWN.format("0"))
    assert found
    assert [takes(loop, loader) for loader in found.loaders for loop in found.loops] == [True, False]


def test_files_read_whole() -> None:
    found = script("train.py", HEAD + OWN.format("np.load(self.path)[i], np.load(self.files[i])"))
    assert found
    assert [event.words() for event in whole_files(found)] == ["np.load(self.path)"]
