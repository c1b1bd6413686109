import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.hosts.redact import Redactor, for_this_machine, is_secret


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz123456", "hf_abcdef"),
        ("export WANDB_API_KEY='0123456789abcdef'", "0123456789abcdef"),
        ('{"name": "variable", "value": ["AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI"]}', "wJalrXUtnFEMI"),
        ("git clone https://me:ghp_0123456789012345678901234567890123456789@github.com/x/y", "ghp_0123"),
        ('File "/home/mueller/train.py", line 3', "mueller"),
        (r"C:\Users\Zhang Wei\train.py", "Zhang"),
        ("inet 203.0.113.77/24", "203.0.113.77"),
        ("ether 52:54:00:12:34:56", "52:54:00"),
        ("GPU 0: NVIDIA A100 (UUID: GPU-fa4e1234-0000-4000-8000-0123456789ab)", "fa4e1234"),
        ("Serial Number                         : 1650012345678", "1650012345678"),
        ("mail me: jane.doe@example.org", "jane.doe"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nabcdef\n-----END OPENSSH PRIVATE KEY-----", "abcdef"),
    ],
)
def test_what_names_a_person_or_a_secret_goes(text: str, secret: str) -> None:
    assert secret not in Redactor().text(text)


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-cudnn-cu12==9.1.0.70",
        "nvidia-cublas-cu12 12.4.5.8",
        "Driver Version: 535.183.01",
        "inet 127.0.0.1/8",
        "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "0000:01:00.0 3D controller [0302]: NVIDIA Corporation [10de:20b5]",
        "tokenizer = AutoTokenizer.from_pretrained('gpt2')",
        "[ 0.000000] BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable",
    ],
)
def test_what_a_diagnosis_needs_stays(text: str) -> None:
    assert Redactor().text(text) == text


def test_the_same_name_gets_the_same_mask() -> None:
    redactor = Redactor()
    first = redactor.text(
        "GPU-fa4e1234-0000-4000-8000-0123456789ab CUDA_VISIBLE_DEVICES=GPU-fa4e1234-0000-4000-8000-0123456789ab"
    )
    one, two = first.split(" CUDA_VISIBLE_DEVICES=")
    assert one == two
    assert redactor.text("GPU-00000000-ffff-4000-8000-0123456789ab") != one


def test_own_names_go_wherever_they_stand() -> None:
    redactor = for_this_machine("mueller", "node17.example.org")
    assert redactor.text("node17 kernel: mueller started node17x, not node170") == "host1 kernel: user1 started host1x, not node170"


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.text(max_size=400))
def test_any_text_is_taken_and_masking_twice_changes_nothing_more(text: str) -> None:
    once = Redactor().text(text)
    assert Redactor().text(once).count("<secret>") >= once.count("<secret>")


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("HF_TOKEN", "x", True),
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE", True),
        ("AWS_SECRET_ACCESS_KEY", "/+no/file=", True),
        ("githubToken", "x", True),
        ("MYSQL_PWD", "x", True),
        ("PLAIN", "ghp_0123456789012345678901234567890123456789", True),
        ("HTTP_PROXY", "http://ann:pass@proxy:3128", True),
        ("HTTP_PROXY", "http://proxy:3128", False),
        ("PWD", "/", False),
        ("SSH_AUTH_SOCK", "/proc/self/status", False),
        ("HF_TOKEN", "", False),
        ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", False),
        ("MAX_TOKENS", "512", False),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("PATH", "/usr/bin:/bin", False),
    ],
)
def test_which_variables_are_secrets(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret


def test_a_machine_named_after_a_card_takes_no_card_away() -> None:
    for host in ("titan", "tesla", "hopper", "turing"):
        text = f"| 0  NVIDIA TITAN RTX  | Tesla V100 (Volta), Hopper, Turing; node {host}2"
        assert for_this_machine("ada", host).text(text).startswith("| 0  NVIDIA TITAN RTX  | Tesla V100 (Volta), Hopper, Turing")


def test_an_address_behind_a_name_goes_and_long_values_go_whole() -> None:
    redactor = for_this_machine("ann", "box")
    assert "10.1.2.7" not in redactor.text("gpu07 10.1.2.7")
    assert "A" * 20 not in redactor.text("GCP_CREDENTIALS=" + "A" * 2000)
