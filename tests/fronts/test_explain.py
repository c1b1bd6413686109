"""`ongpu explain` as a user calls it: a process, its exit code, what it prints."""

import gzip
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"


def explain(
    *arguments: str, stdin: bytes | None = None, lang: str = "en", cwd: Path | None = None
) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "ongpu", "explain", *arguments]
    environ = {**os.environ, "LC_ALL": "zh_CN.UTF-8" if lang == "zh" else "C.UTF-8"}
    done = subprocess.run(command, input=stdin or b"", capture_output=True, timeout=60, env=environ, cwd=cwd)
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Traceback (most" not in out + err
    return done.returncode, out, err


def slugs(out: str) -> list[str]:
    return [f["slug"] for f in json.loads(out)["findings"]]


def test_standard_input() -> None:
    code, out, _ = explain("--format", "json", stdin=XID.encode("utf-16"))
    assert (code, slugs(out)[0]) == (1, "gpu-fell-off-bus")


def test_files_of_any_kind_together(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(XID.encode()))
    (tmp_path / "b.txt").write_text("hello\n")
    (tmp_path / "c.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    code, out, err = explain("--format", "json", "a.log.gz", "b.txt", "c.png", cwd=tmp_path)
    assert (code, slugs(out)[0]) == (1, "gpu-fell-off-bus")
    assert "c.png: binary file (PNG image)" in err
    assert any("PNG" in u["because"] for u in json.loads(out)["unread"])


@pytest.mark.parametrize(
    ("name", "data", "english", "chinese"),
    [
        ("x.png", b"\x89PNG\r\n\x1a\n\0", "binary file (PNG image)", "二进制文件"),
        ("empty.log", b"", "empty", "内容为空"),
        ("a.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\3" + b"\xff" * 50, "archive", "压缩"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(
    tmp_path: Path, name: str, data: bytes, english: str, chinese: str
) -> None:
    (tmp_path / name).write_bytes(data)
    for lang, words in (("en", english), ("zh", chinese)):
        code, out, err = explain(name, lang=lang, cwd=tmp_path)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert words in err


@pytest.mark.parametrize(
    ("what", "english", "chinese"),
    [
        ("no/such.log", "no such file", "没有这个文件"),
        ("./missing", "no such file", "没有这个文件"),
        ("train.log", "no such file", "没有这个文件"),
        ("logs-*.txt", "no file matches", "没有匹配的文件"),
        (".", "a directory", "是目录"),
        ("/dev/zero", "a device", "是设备"),
        ("", "empty", "内容为空"),
    ],
)
def test_wrong_names(tmp_path: Path, what: str, english: str, chinese: str) -> None:
    for lang, words in (("en", english), ("zh", chinese)):
        code, out, err = explain(what, lang=lang, cwd=tmp_path)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert words in err


def test_standard_input_empty_or_closed() -> None:
    code, out, err = explain()
    assert (code, out) == (2, "")
    assert "standard input: empty" in err
    done = subprocess.run(
        f"{sys.executable} -m ongpu explain <&-", shell=True, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "closed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "secret.log").write_text("x")
    (tmp_path / "secret.log").chmod(0)
    code, _, err = explain("secret.log", cwd=tmp_path)
    assert code == 2
    assert "ermission" in err


@pytest.mark.parametrize(
    ("term", "slug"),
    [
        ("803", "compat-lib-conflict"),
        ("802", "fabric-manager-not-running"),
        ("35", "driver-too-old-for-cuda"),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "illegal-memory-access"),
        ("700", "illegal-memory-access"),
        ("710", "device-side-assert"),
        ("Xid 79", "gpu-fell-off-bus"),
        ("GPU is lost", "gpu-fell-off-bus"),
        ("NVML 18", "driver-library-mismatch"),
        ("CUBLAS_STATUS_NOT_INITIALIZED", "cublas-init-failed"),
    ],
)
def test_a_term_that_names_a_cause(term: str, slug: str) -> None:
    code, out, _ = explain("--format", "json", term)
    assert code == 1
    assert slugs(out)[0] == slug


@pytest.mark.parametrize(
    ("term", "words"),
    [
        ("cudaErrorNoDevice", ["100", "CUDA_ERROR_NO_DEVICE"]),
        ("77", ["before 10.1", "IllegalAddress", "Xid 77"]),
        ("9", ["cudaErrorInvalidConfiguration", "NVML_ERROR_DRIVER_NOT_LOADED", "CUDNN_STATUS_NOT_SUPPORTED"]),
        ("sm_120", ["Blackwell", "CUDA 12.8"]),
        ("libcudnn.so.8", ["nvidia-cudnn-cu1"]),
        ("RTX 5090", ["12.0"]),
    ],
)
def test_a_term_that_is_just_told(term: str, words: list[str]) -> None:
    code, out, _ = explain(term)
    assert code == 0
    assert not [word for word in words if word not in out]
    code, out, _ = explain(term, lang="zh")
    assert code == 0
    assert "说明" in out


def test_words_of_a_term_need_no_quotes() -> None:
    code, out, _ = explain("--format", "json", "Xid", "79")
    assert (code, slugs(out)[0]) == (1, "gpu-fell-off-bus")


def test_a_slug_is_answered_with_its_page() -> None:
    code, out, _ = explain("cublas-init-failed")
    assert code == 0
    assert "cublas-init-failed" in out
    code, out, _ = explain("cublas-init-failed", "--format", "json")
    assert json.loads(out)["page"]["slug"] == "cublas-init-failed"


def test_an_unknown_term_is_one_line_with_near_names() -> None:
    code, out, err = explain("cudaErrorNoDevic")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "cudaErrorNoDevice" in err
    code, out, _ = explain("blah", "--format", "json")
    assert (code, json.loads(out)["verdict"]) == (3, "unknown")


@pytest.mark.slow
def test_a_progress_bar_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    line = b"step %d loss 0.5 gpu memory 12 GB\n"
    path.write_bytes(b"".join(line % i for i in range(9_000_000)) + XID.encode())
    _, _, err = explain(str(path))
    assert err == ""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "ongpu", "explain", str(path)], stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        out = process.communicate(timeout=120)[0].decode()
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "%" in shown
    assert "gpu-fell-off-bus" in out
