"""The design, checked: what was forgotten when a rule, a source or a fact was added."""

import re
import string
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from ongpu.engine import all_rules, loaded_sources
from ongpu.model import Fact, Layer, Rule, Text
from ongpu.report.recipes import table as recipes

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "ongpu"
LAYERS = {layer.name.lower() for layer in Layer}
RULES = all_rules()
LONG_FILE = 400


def _module(rule: Rule) -> str:
    return rule.check.__module__


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.slug)
class TestRule:
    def test_file_is_slug_and_folder_is_layer(self, rule: Rule) -> None:
        *_, folder, name = _module(rule).split(".")
        assert name.replace("_", "-") == rule.slug
        assert folder == rule.layer.name.lower()

    def test_module_says_what_it_finds(self, rule: Rule) -> None:
        import sys

        assert (sys.modules[_module(rule)].__doc__ or "").strip()

    def test_has_sources(self, rule: Rule) -> None:
        assert rule.see
        assert all(url.startswith("https://") for url in rule.see)

    def test_both_languages_have_the_same_placeholders(self, rule: Rule) -> None:
        for english, chinese in [(rule.en, rule.zh), *rule.variants.values()]:
            assert _fields(english) == _fields(chinese), english.title
            words = re.sub(r"\{\w+\}", "", chinese.title + chinese.why + chinese.fix)
            assert re.search(r"[\u4e00-\u9fff]", words) or not re.search(r"\w", words), chinese.title

    def test_needs_are_facts_that_some_source_gives(self, rule: Rule) -> None:
        from ongpu.engine import _needs

        given = {fact for source in loaded_sources() for fact in source.gives}
        for kind, _ in _needs(rule):
            assert issubclass(kind, Fact)
            assert kind in given, f"no source gives {kind.__name__}"

    def test_has_a_test(self, rule: Rule) -> None:
        *_, folder, name = _module(rule).split(".")
        assert (ROOT / "tests" / "rules" / folder / f"test_{name}.py").is_file()

    def test_is_named_by_its_slug_not_by_its_remedy(self, rule: Rule) -> None:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.slug)
        assert not rule.slug.startswith(("update-", "install-", "reinstall-", "use-", "set-"))

    def test_hides_only_what_exists(self, rule: Rule) -> None:
        assert set(rule.hides) <= {r.slug for r in RULES}
        assert rule.slug not in rule.hides


def _fields(text: Text) -> set[str]:
    parts = (text.title, text.why, text.fix)
    return {name for part in parts for _, name, _, _ in string.Formatter().parse(part) if name}


def test_slugs_are_unique() -> None:
    slugs = [rule.slug for rule in RULES]
    assert len(slugs) == len(set(slugs))


def test_rules_do_not_import_each_other() -> None:
    for path in (SRC / "rules").rglob("*.py"):
        assert "ongpu.rules" not in path.read_text("utf-8"), path
        assert not re.search(r"^(from|import) (subprocess|os|pathlib|socket)\b", path.read_text("utf-8"), re.MULTILINE), path


def test_recipes_that_rules_name_exist() -> None:
    named = {m for path in (SRC / "rules").rglob("*.py") for m in re.findall(r'Fix\(\s*"([\w-]+)"', path.read_text("utf-8"))}
    assert named <= set(recipes()), named - set(recipes())


def test_recipes_are_well_formed() -> None:
    platforms = {"any", "linux", "debian", "ubuntu", "rhel", "fedora", "suse", "arch", "nixos", "wsl", "windows", "macos", "container"}
    for name, recipe in recipes().items():
        assert recipe["command"], name
        for step in recipe["command"]:
            assert step["risk"] in ("look", "safe", "disruptive", "destructive"), name
            assert set(step["on"].split()) <= platforms, (name, step["on"])
            if re.search(r"\b(purge|autoremove|rm -r|uninstall|remove)\b", step["run"]) and "pip" not in step["run"]:
                assert step["risk"] == "destructive" or "docker" in step["run"], (name, step["run"])
        if any(step["risk"] == "destructive" for step in recipe["command"]):
            assert set(recipe.get("undo", {})) == {"en", "zh"}, f"{name}: destructive, so it says how to undo"


READING = (
    r"modprobe (?:nvidia|nvidia_uvm)\b|nvidia-modprobe\b|dmesg\b|fuser -v|lspci|"
    r"nvidia-smi (?:-i (?:\{index\}|<index>) -c 0|-q|-i \{index\} -pl)|"
    r"grubby --info|journalctl|dkms status|lsof"
)


def runs(*risks: str) -> Iterator[tuple[str, str]]:
    """(recipe, command) of all steps of these risks."""
    for name, recipe in recipes().items():
        yield from ((name, step["run"]) for step in recipe["command"] if step["risk"] in risks)


def test_what_is_called_safe_needs_no_root_or_only_reads_or_loads_a_module() -> None:
    for name, run in runs("look", "safe"):
        asks = len(re.findall(r"\bsudo\b", run))
        assert asks == len(re.findall(rf"\bsudo (?:{READING})", run)), (name, run)


# What only tells; each part of a command that is joined by ; && | or || begins with it.
TELLS = (
    r"(?:sudo )?(?:cat|ls|lspci|dmesg|lsmod|modinfo|dkms status|dpkg -l|rpm -qa?|apt list|apt-cache|mokutil --sb-state|ldconfig -p|ldd|"
    r"free|df|ps|id|env|uname|grep|head|tail|findstr|which|journalctl|systemctl status|fuser -v|ip |iostat|sar|nfsiostat|vm_stat|"
    r"grubby --info|(?:python -m )?pip (?:show|list|check)|nvidia-smi(?! -i)|docker (?:info|run .*nvidia-smi$)|"
    r"kubectl (?:get|describe)|wsl\.exe -l|"
    r"srun .*nvidia-smi)\b"
)


def test_what_only_tells_is_called_a_look() -> None:
    for name, run in runs("safe"):
        parts = re.split(r";|&&|\|\|?(?=(?:[^']*'[^']*')*[^']*$)", run)
        assert not all(re.match(TELLS, part.strip()) for part in parts), (name, run)


def test_symptoms_are_well_formed() -> None:
    names: set[str] = set()
    for path in (SRC / "knowledge" / "symptoms").glob("*.toml"):
        for name, entry in tomllib.loads(path.read_text("utf-8")).items():
            assert name not in names, f"{name} stands twice"
            names.add(name)
            literals = [entry["has"]] if isinstance(entry["has"], str) else entry["has"]
            assert all(literal == literal.lower() and len(literal.encode()) >= 2 for literal in literals), name
            if "re" in entry:
                re.compile(entry["re"])


def test_symptoms_that_rules_ask_for_exist() -> None:
    names = {n for path in (SRC / "knowledge" / "symptoms").glob("*.toml") for n in tomllib.loads(path.read_text("utf-8"))}
    for path in (SRC / "rules").rglob("*.py"):
        for call in re.findall(r"symptoms\.(?:has|seen|cite)\(([^()]*)\)", path.read_text("utf-8")):
            for name in re.findall(r'(?<!\[)"([a-z0-9-]+)"', call):
                assert name in names, f"{path.name}: {name}"


def test_every_symptom_and_recipe_is_asked_for() -> None:
    named = set(re.findall(r"[\"']([a-z0-9-]+)[\"']", "\n".join(path.read_text("utf-8") for path in SRC.rglob("*.py"))))
    lines = {n for path in (SRC / "knowledge" / "symptoms").glob("*.toml") for n in tomllib.loads(path.read_text("utf-8"))}
    named |= {name for sign in _table("signs", "sign").values() for name in (*sign.get("symptoms", ()), *sign.get("unless", ()))}
    named |= {entry["unless"] for entry in _table("harmless").values() if "unless" in entry}
    told = {f"{kind}-{name}" for kind, file in (("harmless", "harmless"), ("other", "other_faults")) for name in _table(file)}
    assert not lines - named - told
    computed = {"run-podman-with-gpu", "run-apptainer-with-gpu"}  # container_no_gpu_flag names them by the program that was run
    assert not set(recipes()) - named - computed


def _table(name: str, part: str = "") -> dict[str, Any]:
    whole = tomllib.loads((SRC / "knowledge" / f"{name}.toml").read_text("utf-8"))
    return whole[part] if part else whole  # type: ignore[no-any-return]


def test_long_files_say_why() -> None:
    for path in SRC.rglob("*.py"):
        lines = path.read_text("utf-8").splitlines()
        assert len(lines) <= LONG_FILE or "lines because" in "\n".join(lines[:20]), f"{path}: {len(lines)} lines and no reason"


def test_probes_keep_to_old_python() -> None:
    import ast
    import sys

    for path in (SRC / "probes").rglob("*.py"):
        ast.parse(path.read_text("utf-8"), feature_version=(3, 8))
        imported = set(re.findall(r"^\s*(?:import|from) (\w+)", path.read_text("utf-8"), re.MULTILINE))
        assert imported <= sys.stdlib_module_names | {"torch", "tensorflow", "jax"}, path


def test_cases_are_well_formed() -> None:
    slugs = {rule.slug for rule in RULES} | {"healthy", "not-gpu-related"}
    for path in (ROOT / "tests" / "cases").rglob("*.yaml"):
        case = yaml.safe_load(path.read_text("utf-8"))
        assert case["id"] == path.stem
        assert case["expected"]["cause"] in slugs, path
        assert case["source"]


def test_tables_have_a_date() -> None:
    for path in (SRC / "knowledge").glob("*.toml"):
        if path.stem in ("harmless", "other_faults", "signs"):  # words about lines, not facts that age
            continue
        table = tomllib.loads(path.read_text("utf-8"))
        assert date.fromisoformat(str(table["checked"])) <= date.today(), path.name
