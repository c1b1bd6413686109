"""Whether a build's code runs on a card, and which PyTorch does: the tables of models and releases put together."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Literal

from ongpu.knowledge import torch
from ongpu.knowledge._versions import capability_numbers, cuda_numbers
from ongpu.knowledge.gpus import architecture

Fit = Literal["fits", "old", "new"]


def capability(text: str) -> str | None:
    """'sm_86', '86', '8, 6', '8.6' or '1200' (llama.cpp) -> '8.6'; None where it is none."""
    plain = text.strip(" ()'\"").lower().removeprefix("sm_").removeprefix("compute_").rstrip("af").replace(" ", "")
    plain = plain.replace(",", ".")
    if plain.isdigit() and len(plain) in (3, 4) and plain.endswith("0") and int(plain) >= 200 and int(plain[:-1]) < 200:
        plain = plain[:-1]  # ggml counts 8.6 as 860
    if plain.isdigit() and len(plain) in (2, 3):
        plain = f"{plain[:-1]}.{plain[-1]}"
    found = capability_numbers(plain) if "." in plain else None
    return f"{found[0]}.{found[1]}" if found and 1 <= found[0] <= 15 else None


def below(one: str, other: str) -> bool:
    """Whether a capability is older than another."""
    a, b = capability_numbers(one), capability_numbers(other)
    return bool(a and b and a < b)


def fit(card: str, archs: Iterable[str], cuda: str | None = None) -> Fit | None:
    """Whether code for `archs` runs on a card of that capability, and if not on which side the card stands."""
    built = [arch for arch in archs if arch]
    numbers = [n for arch in built if (n := capability_numbers(arch.lower().removesuffix("+ptx")))]
    mine = capability_numbers(card)
    if not numbers or not mine:
        return None
    if torch.runs(built, card, cuda):
        return "fits"
    return "old" if mine < min(numbers) or (mine[0] < 8 and mine < max(numbers)) else "new"


def torch_archs(version: str | None, cuda: str | None) -> tuple[str, ...] | None:
    """What a PyTorch of this version, built for this CUDA, holds code for; None where the tables do not say."""
    if not version or not (found := torch.release(version)):
        return None
    build = torch.build_of(version) or (build_name(cuda) if cuda else None)
    return torch.archs(version, build) if build and build in found.archs else None


def build_name(cuda: str) -> str:
    """'12.1' -> 'cu121'."""
    return "cu" + "".join(str(n) for n in cuda_numbers(cuda)[:2])


@cache
def torch_for(card: str) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """The first and the newest (version, build) of PyTorch with code for a capability; None where no release has any."""
    found = [
        (release.version, build)
        for release in torch.releases()
        for build in release.builds
        if build in release.archs and torch.runs(release.archs[build], card)
    ]
    if not found:
        return None
    newest = next(item for item in found if item[0] == found[0][0])
    return found[-1], newest


FIRST_OF = {  # architecture as error lines name it -> its first compute capability
    "pascal": "6.0", "volta": "7.0", "turing": "7.5", "ampere": "8.0", "a100": "8.0", "ada": "8.9", "hopper": "9.0",
    "h100": "9.0", "blackwell": "10.0",
}  # fmt: skip
_CAPS = ("cap", "cap2", "sm", "sm2", "hex")
_CARDS = ("card", "card2", "card3")


def told(groups: Iterable[Mapping[str, str]]) -> tuple[str | None, str | None, tuple[str, ...], str | None]:
    """(capability, name of the card, capabilities the build has code for, capability needed) in the groups of symptoms."""
    card: str | None = None
    name: str | None = None
    archs: tuple[str, ...] = ()
    need: str | None = None
    for group in groups:
        for key in _CAPS:
            text = group.get(key)
            if text and not card:
                card = capability(f"{int(text[0])}.{int(text[1:])}" if key == "hex" else text)
        name = name or next((group[key].strip() for key in _CARDS if group.get(key)), None)
        if group.get("archs") and not archs:
            archs = tuple(_archs(group["archs"]))
        need = need or (capability(group["need"]) if group.get("need") else None)
        need = need or FIRST_OF.get(group.get("arch", "").lower())
    return card, name, archs, need


def _archs(text: str) -> Iterable[str]:
    for word in text.replace(",", " ").replace("'", " ").replace('"', " ").split():
        if found := capability(word):
            yield f"compute_{found}" if word.startswith("compute") else found


def toolkit_side(cuda: str, card: str) -> Fit | None:
    """Whether a toolkit compiles for a card: "new": the card came later; "old": the toolkit has dropped it."""
    found = architecture(card)
    if not found:
        return None
    if cuda_numbers(cuda) < cuda_numbers(found.cuda_first):
        return "new"
    return "old" if found.cuda_last and cuda_numbers(cuda) > cuda_numbers(found.cuda_last) else "fits"
