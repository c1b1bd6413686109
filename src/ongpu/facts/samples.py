"""What a loader's samples cost to make, and which loop takes its batches, as a program's source shows it."""

import ast
from collections.abc import Iterator

from ongpu.facts.depends import depends
from ongpu.facts.program import Event, Loop, Script, distinct
from ongpu.facts.values import CUDA, MAYBE, Class, Dataset, Items, Loader, Tensor

# What costs milliseconds for each sample: decoding, reading, resampling, augmenting.
COSTLY = (
    "PIL.*", "cv2.*", "imageio.*", "skimage.*", "scipy.*", "librosa.*", "torchaudio.*", "soundfile.*", "decord.*", "pydicom.*", "nibabel.*",
    "h5py.*", "albumentations.*", "torchvision.io.*", "torchvision.transforms.functional.*", "numpy.load", "torch.load", "pandas.read_*",
    "open", "torch.nn.functional.interpolate", "torch.nn.functional.grid_sample", "torch.stft", "torch.istft",
    "torch.fft.*", "numpy.fft.*", "torch.poisson", "numpy.random.poisson",
)  # fmt: skip
FOLDERS = ("torchvision.datasets.", "torchaudio.datasets.", "timm.data.")
SMALL = ("MNIST", "FashionMNIST", "CIFAR10", "CIFAR100", "KMNIST", "QMNIST", "EMNIST", "USPS", "FakeData")  # lie in memory, decoded


def costly(script: Script, loader: Loader) -> Event | str | None:
    """What makes a sample costly: a call in the dataset's own methods, or a library's dataset of files; None where nothing is seen."""
    data = loader.dataset
    if not isinstance(data, Dataset):
        return None
    if isinstance(data.cls, str) and data.cls.startswith("datasets."):  # Hugging Face's, which transforms what it gives when it is asked
        return next((e for e in script.calls(".set_transform", ".with_transform") if e.receiver is data), None)
    if isinstance(data.cls, str):
        name = data.cls.rpartition(".")[2]
        return name if data.cls.startswith(FOLDERS) and name not in SMALL else None
    return costly_call(script, data.cls)


def costly_call(script: Script, cls: Class) -> Event | None:
    """The first costly call in the methods of that dataset."""
    return next((call for call in distinct(script.calls(*COSTLY)) if _of(call, cls)), None)


def _of(call: Event, cls: Class) -> bool:
    frame = call.at.frame.inside("getitem", "worker")
    return frame is not None and frame.function is not None and frame.function.cls in (cls, *cls.own_bases)


def takes(loop: Loop, loader: Loader) -> bool:
    """Whether the loop goes over the batches of that loader, counted or not."""
    over = loop.over
    parts = over.items[0].items if isinstance(over, Items) and over.items and isinstance(over.items[0], Items) else ()
    return over is loader or any(isinstance(part, Tensor) and part.origin == "batch" and part.made is loader.made for part in parts)


def makes_its_own(script: Script) -> bool:
    """Whether the training loops make their inputs on the GPU themselves, so that no data is waited for."""
    loops = [loop for loop in script.loops if loop.trains]
    calls = [e for loop in loops for e in loop.forwards or () if e.loop is loop and not e.at.frame.inside("forward")]
    given = [value for e in calls for value in (*e.args, *(e.kw or {}).values())]
    return not script.loaders and bool(given) and all(isinstance(value, Tensor) and _on_card(value) for value in given)


def _on_card(tensor: Tensor) -> bool:
    """Whether all that it was computed from lies on the GPU, and is no batch of a loader."""
    return all(t.where in (CUDA, MAYBE) and t.origin not in ("batch", "input") for t in tensor.line())


WHOLE = (
    "pandas.read_csv", "pandas.read_parquet", "pandas.read_excel", "pandas.read_json", "pandas.read_pickle", "pandas.read_hdf",
    "numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "torch.load", "pickle.load", "json.load", "scipy.io.loadmat", "joblib.load",
)  # fmt: skip


def whole_files(script: Script) -> Iterator[Event]:
    """Calls in __getitem__ that read a file which does not depend on the index: the whole of it for each sample."""
    for call in distinct(script.calls(*WHOLE)):
        function = call.at.frame.function.node if call.at.frame.function else None
        if call.at.frame.kind != "getitem" or call.at.guards or not isinstance(call.node, ast.Call) or not call.node.args:
            continue
        mapped = "mmap_mode" in (call.kw or {}) or call.stars
        if isinstance(function, ast.FunctionDef) and not mapped and not depends(call.node, function):
            yield call
