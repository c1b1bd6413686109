"""Get your model on the GPU, and keep it there."""

__version__ = "0.1.0"

OLDEST = (3, 11)  # the Python that we need

TYPE_CHECKING = False
if TYPE_CHECKING:  # nothing is imported until it is asked for
    from ongpu.fronts.notebook import Checked


def check(model: object, batch: object = None, optimizer: object = None, *, lang: "str | None" = None) -> "Checked":
    """Where every parameter, buffer, input and optimizer state of these live objects sits, and what is wrong with that.

    model: a PyTorch module (or several in a list or dict). batch: what it is given: tensors in nested dicts, lists, tuples,
    dataclasses. optimizer: one, or several. lang: "en" or "zh". Only attributes are read: no copy, no wait for the GPU.
    The answer has `findings`, `verdict` and `report`, is true where all is clear, and shows itself as text or HTML.
    """
    _ask_for_python()
    from ongpu.fronts.notebook import check as look

    return look(model, batch, optimizer, lang=lang)


def load_ipython_extension(ipython: object) -> None:
    """`%load_ext ongpu`: a diagnosis below the traceback of any exception that is about GPUs."""
    _ask_for_python()
    from ongpu.fronts.notebook import load

    load(ipython)


def unload_ipython_extension(ipython: object) -> None:
    """`%unload_ext ongpu`."""
    from ongpu.fronts.notebook import unload

    unload(ipython)


def _ask_for_python() -> None:
    """ImportError in an interpreter that is too old for ongpu: it says so in words."""
    import sys

    if sys.version_info < OLDEST:
        raise ImportError(f"ongpu needs Python 3.11 or newer; this is {sys.version.split()[0]} ({sys.executable})")
