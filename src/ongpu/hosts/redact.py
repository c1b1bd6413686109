"""Names, paths, addresses, serials and tokens out, before anything is written. The same name gets the same mask."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ongpu.hosts import addresses, tokens
from ongpu.hosts.tokens import is_secret as is_secret
from ongpu.lazy import lazy, replace
from ongpu.model import Evidence

_UUID = lazy(r"\b(?P<kind>GPU-|MIG-(?:GPU-)?)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
_UUID_PART = lazy(r"\b(?P<kind>GPU-|MIG-(?:GPU-)?)(?P<part>[0-9a-f]{4,8}(?:-[0-9a-f]{1,4}){0,3})(?![\w-])", re.IGNORECASE)  # CUDA takes the first digits
_SERIAL = lazy(
    r"(?P<head>(?:serial[ _-]?(?:numbers?|num|no\.?|nr\.?|id|#)?|\bS/N|service[ _-]?tag|asset[ _-]?tag|\bPDI|machine[ _-]?id|boot[ _-]?id|序列号)"
    r"(?:[ \t]*#)?(?:\\?[\"'][ \t]*)?(?:[ \t]*[:=：>][ \t]*|[ \t]{1,40}(?=[\w-]{0,30}\d))\\?[\"']?)(?P<value>[A-Za-z0-9][A-Za-z0-9_-]{3,63})",
    re.IGNORECASE,
)
_SERIAL_COLUMN = lazy(r"^(?P<head>[^\n]{0,400}\b(?:serial|uuid|gpu_serial)\b[^\n]{0,400})$", re.IGNORECASE | re.MULTILINE)
_NO_SERIAL = ("none", "unknown", "specified", "null", "default", "number", "false", "true", "port", "disabled", "enabled", "supported")
# Folders of people: what follows is a name. The second kind only where the path starts, and where it is no usual folder.
_HOME = lazy(r"(?P<head>/(?:home\d{0,3}|[Uu]sers?)/)(?P<name>[^/\\\s:\"',;()<>\]}]{1,64})")
_WINDOWS_HOME = lazy(r"(?P<head>(?:\b[A-Z]:|/[a-z]|/mnt/[a-z])[\\/]{1,4}(?:Users|Documents and Settings)[\\/]{1,4})(?P<name>[^\\/\n\r\"':*?<>|]{1,64}(?=[\\/])|[^\\/\s\"':*?<>|;,]{1,64})", re.IGNORECASE)
_SHARED_HOME = lazy(
    r"(?P<head>(?<![\w/.~-])(?:/(?:mnt|media|gpfs|lustre|nfs|beegfs|vast|ceph|weka|net|vol|volumes?|storage|cluster|export|raid|fast|ssd|nvme|hpc|fs|fsx|efs|p|g)\d{0,3}){0,2}"
    r"/(?:scratch|data|work|projects?|export|exports|gscratch|scratch[-_]\w{1,12}|data\d{1,3}|work\d{1,3}|groups?|labs?|staff|students?|people)/)(?P<name>[^/\\\s:\"',;()<>\]}]{1,64})"
)
_USUAL_FOLDER = lazy(
    r"^(?:(?:mini|ana)?(?:conda|forge|mamba)\d*|(?:cuda|cudnn|nccl|tensorrt|python|torch|nvidia|rocm|gcc|hf|huggingface)[-_.\d]*|(?:data|model|dataset|checkpoint|output|log|env|venv|"
    r"virtualenv|cache|image|weight|result|run|input|project|user|app|job|experiment|script|package|wheel)s?|ckpts?|imagenet\w*|coco\w*|cifar\w*|mnist|tmp|temp|bin|lib|lib64|share|shared|src|opt|"
    r"etc|var|public|common|home|scratch|work|train|test|val|raw|processed|software|modules?|spack|easybuild|\.\w+|main|docker|containers?|[^.]*\.[A-Za-z]\w{0,4}|user\d+\S*|host\d+\S*)$",
    re.IGNORECASE,
)
_PUBLIC_NAMES = {"user", "users", "shared", "public", "root", "runner", "ubuntu", "default", "all users", "username", "<user>", "you", "your_name", "vscode", "jovyan"}
# Groups and accounts of the system itself, as `id` prints them.
_SYSTEM_GROUPS = {
    "root", "video", "render", "docker", "sudo", "wheel", "adm", "users", "cdrom", "dip", "plugdev", "lpadmin", "sambashare", "audio", "input", "kvm",
    "libvirt", "staff", "games", "daemon", "bin", "sys", "disk", "lxd", "microk8s", "dialout", "nogroup", "nobody", "tty", "netdev", "systemd-journal",
    "vglusers", "slurm", "vboxusers", "bluetooth", "scanner", "lp", "man", "mail", "operator", "tape", "utmp", "kmem", "floppy", "ollama", "admin",
}  # fmt: skip
_ID = lazy(r"^uid=[^\n]{1,4000}", re.MULTILINE)
_NUMBERED_NAME = lazy(r"(?<=\d\()[^)\n]{1,80}(?=\))")
_TOLD_USER = lazy(r"(?:^Requested-By:[ ]|\b(?:USER|LOGNAME|USERNAME|SUDO_USER)[=:][ ]?|^Registered Owner:[ ]{1,40})(?P<name>[A-Za-z][\w.-]{1,40})", re.MULTILINE)
_PROMPT = lazy(r"(?<![\w.@/-])(?P<user>[A-Za-z_][\w.-]{0,31})@(?P<host>[\w-][\w.-]{0,62})(?=:[~/][^\n]{0,200}[$#]|[ \t][~/\w][^\n\]]{0,100}\][$#%]|[ \t]?~?[$#%][ \t])")
_TOLD_HOST = lazy(
    r"(?:^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?) (?=[\w.-]{1,64} [\w./@()-]{1,64}(?:\[\d{1,9}\])?:(?:\s|$))"
    r"|\bHostname set to <|^(?:Linux|Darwin) (?=\S{1,64} \d+\.\d)|\bhost ?name[\"']?[ \t]*[:=][ \t]*[\"']?|\bStatic hostname:[ \t]*|\b(?:Computer|Machine|Node) ?name[ \t]*[:=][ \t]*"
    r"|\bCOMPUTERNAME[=:]|kubernetes\.io/hostname[=:][ \t]?)(?P<name>[A-Za-z0-9][\w.-]{0,62})",
    re.MULTILINE | re.IGNORECASE,
)
# Variables whose value is a name of a host, a person, an account, a job or a cluster; of schedulers all that is no number.
_VARIABLE = lazy(
    r"(?P<head>(?<![\w$])(?P<name>(?:SLURM|SLURMD|SRUN|SBATCH|SALLOC|PBS|LSB|LSF|SGE|OAR|COBALT|FLUX|JOB_NAME)(?:_[A-Z0-9_]{1,60})?|[A-Z0-9_]{0,40}(?:HOST|HOSTS|HOSTNAME|HOSTLIST|NODELIST|"
    r"NODENAME|MASTER_ADDR|COMM_ID|ENDPOINT|CLUSTER|CLUSTER_NAME|ACCOUNT|USER|LOGNAME|USERNAME|USERDOMAIN|COMPUTERNAME))(?:=[ ]?|:[ ]{1,2})[\"']?)(?P<value>[^\s\"';,]{1,2000}(?:,[\w.-][^\s\"';,]{0,100}){0,50})"
)
_TECHNICAL = lazy(r"^(?:[\d,.:x()\[\]*/+=_-]*|(?:(?:gres[:/])?(?:gpu|cpu|mem|node|billing|shard|mps)s?(?:[:=/(][\w:=/.,()\[\]-]*)?)|yes|no|true|false|none|null|all|local|linux|tmpfs|block|cyclic|default|normal|debug|bash|sh)$", re.IGNORECASE)
_COUNTED = lazy(r"GPU|GRES|TRES|CPU|MEM|TASK|BIND|VERSION|DISTRIBUTION|EXPORT_ENV|_ID$|JOBID|NNODES|CONSTRAINT|SCRIPT_CONTEXT")
_PLACE = lazy(r"HOST|NODE|ADDR|ENDPOINT|SERVER|COMPUTERNAME|COMM_ID")
_PATH_VALUE = lazy(r"(?:DIR|PATH|HOME|CONF|STDOUT|STDERR|STDIN|WORKDIR)$")
# Docker's settings and `docker info`: registries, mirrors, proxies.
_DOCKER_KEYS = lazy(r"\"(?:registry-mirrors|insecure-registries|allow-nondistributable-artifacts|http-proxy|https-proxy|ftp-proxy|no-proxy|https?Proxy|noProxy|dns|dns-search|hosts|labels|cluster-\w+|host-gateway-ip|name)\"\s{0,20}:\s{0,20}(?P<value>\[[^\]]{0,4000}\]|\"[^\"\n]{0,1000}\")")
_DOCKER_LINES = lazy(r"^(?P<head>[ ]{0,4}(?:HTTP Proxy|HTTPS Proxy|No Proxy|Name|Registry|ID|Username):[ ]{1,4})(?P<value>\S[^\n]{0,400})$", re.MULTILINE)
_DOCKER_LIST = lazy(r"^(?P<head>[ ]{0,4}(?:Insecure Registries|Registry Mirrors|Labels):[ ]*\n)(?P<value>(?:[ ]{2,8}\S[^\n]{0,400}\n?){1,100})", re.MULTILINE)
_STRING = lazy(r"(?<=\")[^\"\n]{1,1000}(?=\")")
_CONTEXT = lazy(r"^(?!NAME\b|default\b|desktop-linux\b|desktop-windows\b|rootless\b|colima\b|orbstack\b)[\w][\w.+-]{0,80}(?=[ ])", re.MULTILINE)
# Words that are also names of people or machines: they go only where a path or a list says what they name.
_COMMON = _PUBLIC_NAMES | _SYSTEM_GROUPS | set(
    """
    accelerate admin administrator agent all amd anaconda any apt arch asus audio batch bert bool build builder bytes cache card centos chat
    class cluster code colab compute conda container cuda dask data dataset debian dell demo desktop dev developer device devices dict
    diffusers docker dpkg driver epoch error failed false fan fans fedora float frame free from gpu gpu0 gpu1 gpus grad graph guest half
    home host hosts image import index input intel jax jetson job jobs jupyter kaggle keras kernel lab labs laptop layer lenovo lightning
    lin linux list llama loader local localhost login loss main map master max memory metrics min miniconda missing model models monitor
    nano node node0 node1 nodes none notebook null nvidia ollama open optim output pip print process processes proxy python pytorch range
    rank ray research router running scheduler self server server1 service shape size slurm spark start step student students sum sun system
    systemd tensorflow test tester that this thread torch torchrun total train trainer training transformers triton true tuple type unknown
    ada ampere blackwell command critical debug geforce grace hopper info kepler kind lovelace maxwell message name null orin pascal quadro
    status tegra tesla text titan turing value volta warning warn xavier
    used vagrant version video vllm windows with work worker workers workstation world zip
    """.split()  # noqa: SIM905
)  # fmt: skip


class Redactor:
    """Masks with memory: UUID 1 stays UUID 1 in every text, so that findings on the masked texts are the same.

    names: user and host names, each with its mask: this machine's. Those that the texts tell (a home, a prompt, a journal) come to them.
    seen: what was masked, each with its mask.
    """

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self.seen: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._pattern: tuple[int, re.Pattern[str] | None] = (-1, None)
        for name, mask in (names or {}).items():
            self.seen.setdefault(f"{mask.rstrip('0123456789')}:{name.lower()}", mask)
            self._told.setdefault(name.lower(), mask)

    def _mask(self, kind: str, value: str) -> str:
        if re.fullmatch(rf"{kind}\d+", value):  # masked before
            return value
        key = f"{kind}:{value.lower()}"
        if key not in self.seen:
            taken = set(self.seen.values())
            number = len({mask for mask in taken if mask.rstrip("0123456789") == kind}) + 1
            while f"{kind}{number}" in taken:
                number += 1
            self.seen[key] = f"{kind}{number}"
        return self.seen[key]

    # -- what the texts tell

    def _name(self, kind: str, name: str) -> str:
        """The mask of a name, which goes from now on wherever it stands, unless it is a common word."""
        if kind == "user" and name.lower() in _PUBLIC_NAMES:
            return name
        mask = self._told.get(name.lower()) or self._mask(kind, name)
        if _USUAL_FOLDER.match(name):  # masked where it stands, and no word elsewhere
            return mask
        if name.lower() not in _COMMON and len(name) > 3 and mask != name and not re.fullmatch(r"[\d.:_-]+|(?:user|host|ip)\d+\S*", name):
            self._told.setdefault(name.lower(), mask)
        return mask

    def learn(self, text: str) -> None:
        """Take down the names of people and machines that a text tells, and its UUIDs, so that they go from every other text, too."""
        for pattern in (_HOME, _WINDOWS_HOME, _TOLD_USER):
            for match in pattern.finditer(text):
                self._name("user", match["name"].rstrip("."))
        for match in _PROMPT.finditer(text):
            self._name("user", match["user"])
            self._host(match["host"])
        for match in _TOLD_HOST.finditer(text):
            self._host(match["name"])
        for match in _UUID.finditer(text):
            self._uuid(match)
        for line in _ID.finditer(text):
            for name in _NUMBERED_NAME.findall(line[0]):
                if name not in _SYSTEM_GROUPS:
                    self._name("user", name)
        for match in _VARIABLE.finditer(text):
            if _PLACE.search(match["name"]) or match["name"].endswith(("USER", "LOGNAME", "USERNAME")):
                self._variable(match["name"], match["value"])

    def _host(self, name: str) -> str:
        short = name.split(".")[0]
        if name.lower() in ("localhost", "kernel") or re.fullmatch(r"[\d.]+", name) or addresses.is_public(name):
            return name
        mask = self._name("host", short)
        if name != short and mask != short:
            self._told.setdefault(name.lower(), mask)
        return mask

    # -- what goes

    def secrets(self, text: str) -> str:
        """The text without keys, tokens, passwords and addresses of mail: what not even the machine's own users should read."""
        return tokens.without(text)

    def text(self, text: str) -> str:
        """The text without what names a person, a machine or a secret."""
        if not text:
            return text
        self.learn(text)
        return self._masked(text)

    def _masked(self, text: str) -> str:
        text = _PROMPT.sub(lambda m: f"{self._name('user', m['user'])}@{self._host(m['host'])}", text)
        text = self.secrets(text)
        text = _UUID.sub(self._uuid, text)
        text = _UUID_PART.sub(self._uuid_part, text)
        text = _SERIAL.sub(self._serial, text)
        text = self._columns(text)
        text = addresses.URL.sub(self._url, text)
        text = addresses.IPV6.sub(lambda m: self._mask("ip", m[0]) if addresses.is_address6(m[0]) else m[0], text)
        text = addresses.IPV4.sub(lambda m: self._mask("ip", m[0]) if addresses.is_address4(m) else m[0], text)
        text = self._known(text)
        text = _WINDOWS_HOME.sub(lambda m: m["head"] + self._name("user", m["name"]), text)
        text = _HOME.sub(lambda m: m[0] if re.match(r"user\d+", m["name"]) else m["head"] + self._name("user", m["name"]), text)
        text = _SHARED_HOME.sub(self._shared, text)
        text = _VARIABLE.sub(lambda m: m["head"] + self._variable(m["name"], m["value"]), text)
        text = _ID.sub(lambda m: _NUMBERED_NAME.sub(lambda n: n[0] if n[0] in _SYSTEM_GROUPS else self._name("user", n[0]), m[0]), text)
        text = _TOLD_HOST.sub(lambda m: m[0].removesuffix(m["name"]) + self._host(m["name"]), text)
        text = _TOLD_USER.sub(lambda m: m[0].removesuffix(m["name"]) + self._name("user", m["name"]), text)
        text = addresses.CLOUD.sub(lambda m: self._mask("host", m[0]), text)
        return addresses.DOMAIN.sub(lambda m: self._mask("host", m[0].removesuffix(m["after"] or "")) + (m["after"] or "") if addresses.names_machine(m) else m[0], text)

    def _known(self, text: str) -> str:
        """The names that are known out, wherever they stand: alone, in a longer name, in other case."""
        if self._pattern[0] != len(self._told):
            # A long name goes from within words; a short one stands between what is no letter. "node17" is not in "node170".
            words = [
                re.escape(name) + (r"(?!\d)" if name[-1].isdigit() else "") if len(name) > 7 or (len(name) > 5 and any(c.isdigit() for c in name))
                else rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z])" + (r"(?!\d)" if name[-1].isdigit() else "")
                for name in sorted(self._told, key=len, reverse=True)
            ]  # fmt: skip
            self._pattern = (len(self._told), re.compile("|".join(words), re.IGNORECASE) if words else None)
        pattern = self._pattern[1]
        return pattern.sub(lambda m: self._told[m[0].lower()], text) if pattern else text

    def _url(self, match: re.Match[str]) -> str:
        login = match["login"] or ""
        if login and login not in ("git@", "<login>@"):
            login = "<login>@"
        host = match["host"]
        scheme = match["scheme"].lower()
        if scheme in ("unix://", "file://", "npipe://") or addresses.is_public(host) or re.fullmatch(r"[\d.]+|\W.*|<.*|\{.*|(?:host|ip)\d+|(?:(?:my|your|some|the|remote|docker)[-_]?)?host(?:name)?", host):
            return match["scheme"] + login + host
        return match["scheme"] + login + self._host(host)

    def _uuid(self, match: re.Match[str]) -> str:
        if match[0].lower().removeprefix((match["kind"] or "").lower()).startswith("00000000-0000-0000-0000-"):
            return match[0]
        number = int(re.sub(r"\D", "", self._mask("uuid", match[0].lower())))
        return f"{match['kind'] or ''}00000000-0000-0000-0000-{number:012x}"

    def _uuid_part(self, match: re.Match[str]) -> str:
        """The first digits of a UUID, as the variable that chooses GPUs takes them: those of the masked one would choose all."""
        start = match[0].lower()
        if start.endswith("-00000000"):
            return match[0]
        key = next((key for key in self.seen if key.startswith("uuid:" + start)), None)
        number = int(re.sub(r"\D", "", self.seen[key] if key else self._mask("uuid", start)))
        return f"{match['kind']}00000000-0000-0000-0000-{number:012x}"

    def _serial(self, match: re.Match[str]) -> str:
        if match["value"].lower() in _NO_SERIAL or not any(c.isdigit() for c in match["value"]):
            return match[0]
        return match["head"] + self._mask("serial", match["value"])

    def _columns(self, text: str) -> str:
        """A table whose head names a column "serial": nvidia-smi --query-gpu=name,serial, wmic."""
        head = next((m for m in _SERIAL_COLUMN.finditer(text) if re.search(r"\bserial(?:number)?\b", m[0], re.IGNORECASE)), None)
        if head is None or "," not in head[0]:
            return text
        names = [name.strip().lower() for name in head[0].split(",")]
        places = [n for n, name in enumerate(names) if name in ("serial", "gpu_serial", "serialnumber")]
        rows = text[head.end() :].split("\n")
        for number, row in enumerate(rows):
            cells = row.split(",")
            if len(cells) == len(names):
                for place in places:
                    value = cells[place].strip()
                    if any(c.isdigit() for c in value):
                        cells[place] = cells[place].replace(value, self._mask("serial", value))
                rows[number] = ",".join(cells)
        return text[: head.end()] + "\n".join(rows)

    def _shared(self, match: re.Match[str]) -> str:
        usual = _USUAL_FOLDER.match(match["name"]) or "user" in match["name"] or match["name"].lower() in _PUBLIC_NAMES
        return match[0] if usual else match["head"] + self._mask("user", match["name"])

    def _variable(self, name: str, value: str) -> str:
        """The value of a variable of the environment, masked as its name asks."""
        scheduler = re.match(r"(?:SLURMD?|SRUN|SBATCH|SALLOC|PBS|LSB|LSF|SGE|OAR|COBALT|FLUX)_", name) is not None
        if value.startswith("<") or _TECHNICAL.match(value) or (scheduler and _COUNTED.search(name)):
            return value
        if value.startswith(("/", "~", "$", "{", "%")) or _PATH_VALUE.search(name):
            return value if not scheduler else "/" + self._mask("path", value) if value.startswith("/") else self._mask("path", value)
        if name.endswith(("USER", "LOGNAME", "USERNAME")):
            return self._name("user", value)
        if _PLACE.search(name):
            if re.match(r"https?://|tcp://|unix://|ip\d", value) or re.search(r"COMPUTE_MODE|NODE_ALIASES", name):
                return value
            if re.fullmatch(r"[A-Za-z][\w-]*(?:\.[\w-]+)*", value):
                return self._host(value)
            return self._mask("host", value)
        return self._mask("name", value)

    # -- evidence

    def every(self, items: Iterable[Evidence]) -> list[Evidence]:
        """All the evidence of one machine, masked: what one text tells of names goes from the others, too."""
        found = list(items)
        for item in found:
            self.learn(item.text)
            for name, value in _variables(item.text):
                if not tokens.is_secret(name, value):
                    self.learn(f"{name}={value}")
        return [self.evidence(item) for item in found]

    def evidence(self, item: Evidence) -> Evidence:
        """The evidence, masked."""
        command = self.text(item.command) if item.command else item.command
        problem = self.text(item.problem) if item.problem else item.problem
        text = self._docker(item.text) if item.kind == "docker" else item.text
        lines = text.split("\n")
        if text[:1] in "{[" and sum(line[:1] in "{[" for line in lines) > len(lines) // 2:
            text = "\n".join(self._json(line) for line in lines)
        else:
            text = self.text(text)
        return replace(item, text=text, origin=self.text(item.origin), command=command, problem=problem)

    def _json(self, line: str) -> str:
        """A line of JSON, each string in it masked alone, so that it stays JSON; any other line as text."""
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            return self.text(line)
        masked = self._value("", data)
        return line if masked == data else json.dumps(masked, ensure_ascii="\\u" in line)

    def _value(self, name: str, data: Any) -> Any:
        if isinstance(data, dict):
            return {str(key) if re.fullmatch("[a-z_]{1,40}", str(key)) else self.text(str(key)): self._value(str(key), value) for key, value in data.items()}
        if isinstance(data, list):
            if len(data) == 2 and all(isinstance(x, str) for x in data) and re.fullmatch(r"[A-Z_][A-Z0-9_]{1,80}", data[0]):
                return [data[0], self._assigned(*data)]
            before = [name, *(value if isinstance(value, str) else name for value in data)]
            return [value if isinstance(value, str) and self._version(one, value) else self._value(name, value) for one, value in zip(before, data, strict=False)]
        if not isinstance(data, str):
            return self._mask("serial", str(data)) if name == "serial" and data else data
        if name.lower() in ("serial", "serial_number", "serialnumber") and any(c.isdigit() for c in data):
            return self._mask("serial", data)
        if self._version(name, data):
            return data
        return "<secret>" if name and tokens.is_secret(name, data) and not data.startswith("/") else self.text(data)

    @staticmethod
    def _version(name: str, value: str) -> bool:
        """Whether a string of four numbers is the version of what stands before it: "nvidia_cublas_cu12", "12.1.3.1"."""
        match = addresses.IPV4.search(f"{name} {value}", len(name) + 1) if addresses.IPV4.fullmatch(value) else None
        return match is not None and not addresses.is_address4(match)

    def _assigned(self, name: str, value: str) -> str:
        if tokens.is_secret(name, value) and tokens.secret_name(name):
            return "<secret>"
        if value[24:] and re.fullmatch(r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[A-Za-z0-9+_-]{24,}={0,2}", value):  # no word, no number: some key
            return "<secret>"
        masked = self.text(f"{name}={value}").removeprefix(f"{name}=")
        return self.text(masked)

    def _docker(self, text: str) -> str:
        """Registries, mirrors, proxies and the names of contexts out of Docker's settings and answers."""

        def host(value: str) -> str:
            if re.match(r"\s*(?:[a-z+]{2,8}://|unix:|/|fd:)", value):
                return value  # an address with a scheme: as everywhere
            parts = re.split(r"(?<=,)", value)
            return "".join(part if re.match(r"(?:[\d.*]+|localhost|::1)?[/:\d]*,?$", part) else self._mask("host", part.rstrip(",")) + part[len(part.rstrip(",")) :] for part in parts)

        text = _DOCKER_KEYS.sub(lambda m: m[0].removesuffix(m["value"]) + _STRING.sub(lambda s: host(s[0]) if s[0].strip(" ,:") else s[0], m["value"]), text)
        text = _DOCKER_LINES.sub(lambda m: m["head"] + (m["value"] if "docker.io" in m["value"] else host(m["value"])), text)
        text = _DOCKER_LIST.sub(lambda m: m["head"] + re.sub(r"\S+", lambda s: host(s[0]), m["value"]), text)
        if text.startswith("NAME") and "DOCKER ENDPOINT" in text[:400]:
            text = _CONTEXT.sub(lambda m: self._mask("name", m[0]).ljust(len(m[0])), text)
        return text


def _variables(text: str) -> Iterator[tuple[str, str]]:
    """The variables of the environment in a text of JSON lines."""
    for line in text.split("\n"):
        if line.startswith('{"name": "variable"'):
            try:
                name, value = json.loads(line)["value"]
            except (ValueError, KeyError, TypeError):
                continue
            yield str(name), str(value)


def for_this_machine(user: str, host: str) -> Redactor:
    """A redactor that knows the user's and the machine's name; names too common to be one are left."""
    names = {host: "host1", host.split(".")[0]: "host1", user: "user1"}
    return Redactor({name: mask for name, mask in names.items() if name.lower() not in _COMMON | {""} and len(name) > 2})
