# ruff: noqa: E501  printed lines stand in one piece
"""Names and secrets planted in texts as tools print them: none survives, and the answer stays what it was."""

import json
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ongpu.engine import diagnose
from ongpu.hosts import pasted
from ongpu.hosts.redact import Redactor, for_this_machine
from ongpu.model import Evidence

_ALNUM = string.ascii_letters + string.digits


def _of(alphabet: str, least: int, most: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=least, max_size=most)


# A word that no text of a tool holds, so that finding it is a leak.
PEOPLE = st.builds("zq{}{}".format, _of(string.ascii_lowercase, 3, 8), st.sampled_from(["", "7", "_x", "-ml"]))
HOSTS = st.builds("qz{}{}".format, _of(string.ascii_lowercase, 3, 8), st.sampled_from(["", "07", "-12"]))
SERIALS = st.builds("13{}".format, _of(string.digits, 9, 11))
BODIES = st.builds("{}9aZ{}".format, _of(_ALNUM, 12, 18), _of(_ALNUM, 14, 20))  # what follows a token's prefix
OCTET = st.integers(1, 254)
ADDRESSES = st.one_of(
    st.builds("{}.{}.{}.{}".format, st.integers(1, 223).filter(lambda n: n != 127), OCTET, OCTET, OCTET),
    st.builds("2001:db8::{:x}:{:x}".format, st.integers(1, 65535), st.integers(1, 65535)),
    st.builds("fe80::{:x}:{:x}ff:fe{:02x}:{:x}".format, st.integers(1, 65535), st.integers(1, 255), OCTET, st.integers(1, 65535)),
)

PERSON_TEXTS = (
    'File "/home/{}/train.py", line 3', "/data/{}_ckpt/last.pt", "/scratch/{}-env/lib", "/users/{}/x", "/gpfs/home/{}/run", "/lustre/scratch/{}/run",
    "PYTHONPATH=/Users/{}/lib", r"C:\Users\{} Jones\train.py", r'"C:\\Users\\{} Jones\\train.py"', "{}@box:~/x$ nvidia-smi",
    "uid=1000({0}) gid=1000({0}) groups=1000({0}),44(video)", "Requested-By: {} (1000)", "USER={}", "ssh://{}@10.1.2.3:22",
    "SLURM_JOB_USER={}", "drwxr-xr-x 2 user1 user1 /data/{}",
)  # fmt: skip
HOST_TEXTS = (
    "SLURM_JOB_NODELIST={}", "SLURM_SUBMIT_HOST={}.corp.example.com", "Nov 30 12:00:01 {} kernel: NVRM: loading", "Linux {} 5.15.0-113-generic #123-Ubuntu SMP",
    "systemd[1]: Hostname set to <{}.corp.example.com>.", "MASTER_ADDR={}", "https_proxy=http://{}:3128", "registry.{}.example.com:5000/team/image", "user@{}:~$ nvidia-smi",
    "2024-11-30T12:00:01.123456+01:00 {} kernel: NVRM: loading", "http://{}.local:8000/v1", "Hostname: {}", "SLURMD_NODENAME={}", "KUBERNETES_NODE_HOST={}",
)  # fmt: skip
SERIAL_TEXTS = (
    "Serial Number                         : {}", "SerialNumber: {}", "<serial>{}</serial>", "<serial_number>{}</serial_number>", '"serial": "{}"', '{{"serial":"{}"}}',
    "NVRM: GPU Board Serial Number: {}", "serial_number={}", "Serial Number {}", "S/N: {}", "name, serial\nNVIDIA A100, {}", "Service Tag: AB{}", "序列号：{}", "SERIAL={}",
)  # fmt: skip
SECRET_TEXTS = (
    "HF_TOKEN=x{}", "export WANDB_API_KEY='{}'", "Authorization: Bearer {}", "curl -H 'authorization: Basic {}' x", "Bearer {}", "nvapi-{}", "AIza{}", "npm_{}", "hf_{}", "sk-{}",
    "sk-proj-{}", "ghp_{}", "glpat-{}", "github_pat_{}", "xoxb-{}", "https://me:{}@github.com/x", "https://{}@github.com/x", "pip install -i https://u:{}@pypi.corp.example.com/simple",
    "--token {}", "--hf-token={}", "'--password', '{}'", "aws_secret_access_key = {}", "AWS_SESSION_TOKEN: {}", "PGPASSWORD={}", "- name: HF_TOKEN\n  value: {}", "docker run -e=NGC_API_KEY={} x",
    '{{"name": "OPENAI_API_KEY", "value": "{}"}}', "wandb login {}", "password: '{}'", "?X-Amz-Signature={}", "curl -u bob:{} https://x", "SSHPASS={}", "postgres://bob:{}@db/x", "gsk_{}",
    "machine x login y password {}", "dckr_pat_{}", "ya29.{}", 'os.environ["HF_TOKEN"] = "{}"', "token={}&x=1", "dbPassword: {}",
)  # fmt: skip
ADDRESS_TEXTS = (
    "inet {}/24", "({})", "{}", "connect to {} failed", "[rank0]: {}", "MASTER_ADDR={}", "ping {}: ok", "http://[{}]:80 {}", "NFS: mounted {} on /data", "at {}, port 5000", "NCCL_COMM_ID={}",
)  # fmt: skip


def _gone(texts: tuple[str, ...], planted: str, redactor: Redactor | None = None) -> None:
    for text in texts:
        shown = (redactor or Redactor()).text(text.format(planted, planted))
        assert planted.lower() not in shown.lower(), (text, shown)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(PEOPLE, HOSTS, SERIALS, BODIES, ADDRESSES)
def test_nothing_that_was_planted_survives(person: str, host: str, serial: str, secret: str, address: str) -> None:
    for texts, planted in (
        (PERSON_TEXTS, person),
        (HOST_TEXTS, host),
        (SERIAL_TEXTS, serial),
        (SECRET_TEXTS, secret),
        (ADDRESS_TEXTS, address),
    ):
        _gone(texts, planted)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(PEOPLE, HOSTS)
def test_own_names_go_from_longer_names_and_in_any_case(person: str, host: str) -> None:
    redactor = for_this_machine(person, host + ".corp.example.org")
    _gone(("/data/{}_ckpt", "/tmp/ray_{}/x", "{}-env", "run_{}.log"), person, redactor)
    _gone(("{}-ib0", "bond0.{}", "log-{}.txt"), host, redactor)
    assert host.upper() not in redactor.text(host.upper())


def _snapshot(person: str, host: str, serial: str, secret: str, address: str) -> list[Evidence]:
    """Evidence of one machine, as `gather` gives it, with names in each text."""
    values = {
        "SLURM_JOB_NODELIST": host, "SLURM_JOB_ACCOUNT": f"acct-{person}", "SLURM_JOB_NAME": f"job-{person}", "SLURM_CLUSTER_NAME": f"cl-{host}", "SLURM_JOB_GPUS": "0",
        "SLURM_SUBMIT_DIR": f"/scratch/{person}/proj", "HF_TOKEN": secret, "NVIDIA_API_KEY": f"nvapi-{secret}", "CUDA_VISIBLE_DEVICES": "", "NCCL_COMM_ID": address,
        "PYTHONPATH": f"/users/{person}/lib", "TORCH_HOME": f"/data/{person}_cache",
    }  # fmt: skip
    rows = [{"name": "system", "value": "linux", "from": "sys.platform"}]
    rows += [{"name": "variable", "value": [name, value], "from": "env"} for name, value in values.items()]
    daemon = {
        "registry-mirrors": [f"https://{host}.corp.example.com"],
        "insecure-registries": [f"{host}:5000"],
        "proxies": {"http-proxy": f"http://{address}:3128"},
    }
    log = f"""[    8.6] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024
[ 4240.1] systemd[1]: Hostname set to <{host}.corp.example.com>.
[ 4244.1] NVRM: GPU Board Serial Number: {serial}
[ 4245.1] NVRM: Xid (PCI:0000:1a:00): 79, pid=4711, name=/home/{person}/x, GPU has fallen off the bus.
[ 4246.1] NFS: nvidia mount {address}:/export/{person}
"""
    pip = f"/home/{person}/venv/lib/python3.11/site-packages"
    nvml = {
        "gpu": 0,
        "name": "NVIDIA A100",
        "serial": serial,
        "uuid": "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
        "error": f'{host} "{person}"',
    }
    return [
        Evidence("device-nodes", f"uid=1000({person}) gid=1000({person}) groups=1000({person}),44(video)", "id", "id"),
        Evidence("machine-state", "\n".join(map(json.dumps, rows)), "system:ask"),
        Evidence("docker", json.dumps(daemon), "/etc/docker/daemon.json", "cat /etc/docker/daemon.json"),
        Evidence("docker", json.dumps(daemon, indent=2), "/etc/docker/daemon.json", "cat /etc/docker/daemon.json"),
        Evidence("python-environment", json.dumps({"version": "3.11", "path": [pip], "distributions": [["nvidia_cublas_cu12", "12.1.3.1", pip]]}), "interpreter:ask"),
        Evidence("nvml", json.dumps(nvml), "NVML"),
        Evidence("system-packages", f"Start-Date: 2024-01-01  10:00:00\nRequested-By: {person} (1000)\nInstall: nvidia-driver-535:amd64 (535.1)", "/var/log/apt/history.log"),
        *pasted.read_text("$ dmesg\n" + log, "dmesg"),
    ]  # fmt: skip


@settings(derandomize=True, max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PEOPLE, HOSTS, SERIALS, BODIES, ADDRESSES)
def test_a_redacted_snapshot_names_nobody_and_gives_the_same_answer(person: str, host: str, serial: str, secret: str, address: str) -> None:
    before = _snapshot(person, host, serial, secret, address)
    after = for_this_machine(person, host + ".corp.example.com").every(before)
    whole = "\n".join(f"{item.text}\n{item.origin}\n{item.command}" for item in after)
    for planted in (person, host, serial, secret, address, "corp.example.com", "eeeeeeeeeeee"):
        assert planted.lower() not in whole.lower(), (planted, whole)
    assert "12.1.3.1" in whole, "a version is no address"
    for item in after:
        if item.kind in ("machine-state", "nvml", "python-environment", "docker"):
            assert [json.loads(line) for line in ([item.text] if item.kind == "docker" else item.text.splitlines())]
    one, two = diagnose(before, "live"), diagnose(after, "snapshot")
    assert [(f.slug, f.certainty) for f in one.findings] == [(f.slug, f.certainty) for f in two.findings]
    assert one.findings[0].slug == "gpu-fell-off-bus"


@pytest.mark.parametrize(
    "text",
    [
        "cudnn 9.1.0.70", "nvidia-cublas-cu12     12.4.5.8", "cuDNN (8.9.2.26)", "Unpacking libcudnn8 (8.9.7.29-1+cuda12.2) over (8.9.2.26-1+cuda12.1)",
        "ii  libcudnn9-cuda-12 9.1.0.70-1 amd64", '["nvidia_cublas_cu12", "12.1.3.1", "/usr/lib"]', "tensorrt 10.0.1.6", "VBIOS Version : 92.00.45.00.03", "opencv-python 4.9.0.80",
        "(from versions: 8.9.2.26, 9.1.0.70)", "curand    10.3.5.147    0    nvidia", "nvidia-cusolver from 11.6.0.99 to 11.6.1.9", "c10::cuda::check at::add std::add", "PCI:0000:3b:00.0",
        "SLURM_JOB_GPUS=0,1", "SLURM_GPUS=gpu:a100:2", "SLURM_JOB_ID=123456", "x = self.model.net(y)", "https://download.pytorch.org/whl/cu121", "/data/imagenet/train",
        "/usr/local/cuda-12.1/lib64", "/data/miniconda3/lib/libcudart.so.12", "eos_token = '</s>'", "forward pass: 3.2 s", "12:34:56", "print(max(x), min(y))",
        "NVIDIA_REQUIRE_CUDA=cuda>=12.1 brand=tesla,driver>=450", "uid=0(root) gid=0(root) groups=0(root),44(video)", "GPU 00000000:3B:00.0", "GPU UUID: N/A", "Serial Number : N/A",
    ],
)  # fmt: skip
def test_what_names_nobody_stays_readable(text: str) -> None:
    assert Redactor().text(text) == text


def test_a_choice_by_the_first_digits_of_a_uuid_still_chooses_it() -> None:
    redactor = Redactor()
    card = redactor.text("GPU 0: NVIDIA A100 (UUID: GPU-fa4e1234-0000-4000-8000-0123456789ab)").split("UUID: ")[1].rstrip(")")
    assert redactor.text("CUDA_VISIBLE_DEVICES=GPU-fa4e1234") == f"CUDA_VISIBLE_DEVICES={card}"


def test_names_that_are_words_of_every_log_are_left_in_it() -> None:
    redactor = for_this_machine("max", "trainer")
    assert redactor.text("x = max(1, 2)  # trainer.fit(model)") == "x = max(1, 2)  # trainer.fit(model)"
    assert "/home/max/" not in redactor.text("/home/max/x.py")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("password: zq&zq'zq-zq", "password: <secret>"),
        ("DB_PASSWORD=zq'zq}zq\\zq", "DB_PASSWORD=<secret>"),
        ("PASSWORD='zq''zq'", "PASSWORD='<secret>'"),
        ("PASSWORD='zq'\\''zq' next", "PASSWORD='<secret>' next"),
        ('password: "zq\\"zq" next', 'password: "<secret>" next'),
        ("--password 'zq zq' next", "--password '<secret>' next"),
        ('["--token","zq"]', '["--token","<secret>"]'),
        ("- name: HF_TOKEN\n  value: zq'zq&zq", "- name: HF_TOKEN\n  value: <secret>"),
        ("curl -u bob:zq'zq x", "curl -u <secret> x"),
        ("https://bob:zq@zq@pypi.org/simple", "https://<login>@pypi.org/simple"),
        ("https://pypi.org/x?token=zq&flag=1", "https://pypi.org/x?token=<secret>&flag=1"),
        ("TOKEN=zq&& nvidia-smi", "TOKEN=<secret>&& nvidia-smi"),
        ("['TOKEN=zq', 'B=c']", "['TOKEN=<secret>', 'B=c']"),
    ],
)
def test_a_secret_goes_to_its_end_and_no_further(text: str, left: str) -> None:
    assert Redactor().text(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("http://gpuhost:8000/v1", "http://host1:8000/v1"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("nfs.sjtu.edu.cn:/data on /data", "host1:/data on /data"),
        ("server nfs.sjtu.edu.cn not responding", "server host1 not responding"),
        ("storage.ox.ac.uk not responding", "host1 not responding"),
        ("Looking in indexes: https://mirror.sjtu.edu.cn/pypi/web/simple", "Looking in indexes: https://mirror.sjtu.edu.cn/pypi/web/simple"),
        ("版本: 2.2.4.0", "版本: 2.2.4.0"),
        ("固件版本为 96.0.2.3", "固件版本为 96.0.2.3"),
        ("地址: 10.2.3.4", "地址: ip1"),
    ],
)
def test_hosts_by_their_ending_and_versions_in_chinese(text: str, left: str) -> None:
    assert Redactor().text(text) == left
