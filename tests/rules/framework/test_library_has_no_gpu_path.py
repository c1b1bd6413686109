# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import linted, slugs


@pytest.mark.parametrize(
    "texts",
    [
        (
            "from sklearn.ensemble import RandomForestClassifier\n"
            "clf.fit(X, y)\n"
            "How can I use the GPU with this? GPU usage 0%",
        ),
        (
            "NotImplementedError: Could not run 'aten::_histogramdd_from_bin_cts' with arguments from"
            " the 'CUDA' backend. This could be because the operator doesn't exist for this backend,"
            " or was omitted during the selective/custom build process",
        ),
    ],
)
def test_is_it(texts: tuple[str, ...]) -> None:
    assert slugs(*texts)[:1] == ["library-has-no-gpu-path"]


@pytest.mark.parametrize(
    "texts",
    [
        ("torch.cuda.is_available() returns False\ntorch.__version__ is 1.13.1+cpu, RTX 3060, driver 528.02",),
        (
            "UserWarning: Specified provider 'CUDAExecutionProvider' is not in available provider"
            " names.Available providers: 'AzureExecutionProvider, CPUExecutionProvider'",
        ),
        (
            "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
            " Falling back to cpu.\n"
            "epoch 3: loss 0.2, using pytorch on cuda:0",
        ),
    ],
)
def test_is_not_it(texts: tuple[str, ...]) -> None:
    assert "library-has-no-gpu-path" not in slugs(*texts)


@pytest.mark.parametrize(
    "text",
    [
        """\
import torch
from sklearn.ensemble import RandomForestClassifier
device = "cuda" if torch.cuda.is_available() else "cpu"
clf = RandomForestClassifier(n_estimators=500)
clf.fit(X, y)
""",
        """\
import torch
import xgboost as xgb
print("cuda", torch.cuda.is_available())
model = xgb.XGBClassifier(n_estimators=1000, max_depth=8)
model.fit(X, y)
""",
        """\
import torch, lightgbm as lgb
assert torch.cuda.is_available()
params = {"objective": "binary", "num_leaves": 255}
booster = lgb.train(params, data)
""",
        """\
import torch
from sklearn.manifold import TSNE
device = torch.device("cuda")
def main():
    emb = TSNE(n_components=2).fit_transform(X)
main()
""",
        """\
import torch
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
class T:
    def __init__(self):
        self.device = torch.device("cuda:0")
        self.model = GridSearchCV(SVC(), {"C": [1, 10]})
    def run(self, x, y):
        self.model.fit(x, y)
T().run(a, b)
""",
    ],
)
def test_found_in_other_wordings(text: str) -> None:
    assert "library-has-no-gpu-path" in linted(text)


FOREST = "from sklearn.ensemble import RandomForestClassifier\nclf = RandomForestClassifier(500)\nclf.fit(x, y)\n"


def test_an_estimator_whose_user_wants_the_gpu() -> None:
    words = "Google Colab, runtime type GPU (T4). nvidia-smi: the GPU stays at 0 % all the time, it is not used"
    assert slugs(FOREST, words)[0] == "library-has-no-gpu-path"
    assert "library-has-no-gpu-path" not in slugs(FOREST)


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nfrom sklearn.svm import SVC\ndef head(x, y):\n    return SVC().fit(x, y)\nprint(torch.cuda.is_available())\n",
        "import torch\nfrom sklearn.model_selection import train_test_split\nfrom sklearn.preprocessing import StandardScaler\n"
        "x = StandardScaler().fit_transform(x)\nprint(torch.cuda.is_available())\n",
        "import torch\nfrom xgboost import XGBClassifier\nXGBClassifier(tree_method='gpu_hist').fit(x)\nprint(torch.cuda.device_count())",
        "import torch\nfrom xgboost import XGBClassifier\nXGBClassifier(**params).fit(x, y)\nprint(torch.cuda.is_available())\n",
        "import torch\nimport catboost\ncatboost.CatBoostClassifier(task_type='GPU').fit(x, y)\nprint(torch.cuda.is_available())",
    ],
)
def test_estimators_beside_a_gpu(text: str) -> None:
    assert "library-has-no-gpu-path" not in linted(text)


TOKENIZER = "from transformers import AutoTokenizer\ntokenizer = AutoTokenizer.from_pretrained('bert-base-uncased')\nprint(tokenizer(open('a.txt').read()))\n"
IDLE = "$ nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv\nutilization.gpu [%], memory.used [MiB]\n0 %, 0 MiB"


def test_a_script_that_only_tokenizes() -> None:
    assert slugs(TOKENIZER, IDLE) == ["library-has-no-gpu-path"]
    assert linted(TOKENIZER) == []  # nobody asked for a GPU
    model = TOKENIZER.replace("import AutoTokenizer", "import AutoModel, AutoTokenizer") + "model = AutoModel.from_pretrained('bert-base-uncased')\n"
    assert "library-has-no-gpu-path" not in slugs(model, IDLE)


@pytest.mark.parametrize("text", ["Tokenization步骤看上去并没有使用到GPU，只是在CPU上运行的。", "the tokenizer runs on the CPU even though a GPU is there"])
def test_tokenizing_is_told(text: str) -> None:
    assert slugs(text) == ["library-has-no-gpu-path"]


@pytest.mark.parametrize("text", ["The tokenizer works, but the model does not use the GPU", "Tokenizer loaded. Running on CPU because no GPU found"])
def test_the_model_behind_the_tokenizer(text: str) -> None:
    assert "library-has-no-gpu-path" not in slugs(text)
