"""The library is there, but not its GPU build or GPU extra."""

from collections.abc import Iterator

from ongpu.facts.environment import Machine
from ongpu.facts.framework import OnnxRuntime, Packages, Torch
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Fix, Layer, Ref, Rule, Severity, Text

# symptom -> (library, GPU package or build, command)
# fmt: off
_TOLD = {
    "faiss-no-gpu": ("faiss-cpu", "faiss-gpu", "conda install -c pytorch -c nvidia faiss-gpu"),
    "ort-provider-missing": ("onnxruntime", "onnxruntime-gpu", "python -m pip install onnxruntime-gpu"),
    "ort-build-no-cuda": ("onnxruntime", "the GPU build (Python onnxruntime-gpu; .NET Microsoft.ML.OnnxRuntime.Gpu; Java onnxruntime_gpu; Rust ort with the cuda feature)", "python -m pip install onnxruntime-gpu"),
    "llama-no-gpu": ("llama.cpp / llama-cpp-python", "llama-cpp-python (GGML_CUDA=on)", 'CMAKE_ARGS="-DGGML_CUDA=on" python -m pip install --force-reinstall --no-cache-dir llama-cpp-python'),
    "bnb-no-gpu": ("bitsandbytes", "bitsandbytes (CUDA)", "python -m pip install -U bitsandbytes"),
    "ct2-no-cuda": ("ctranslate2", "ctranslate2 (CUDA: Linux x86_64, Windows)", "python -m pip install -U ctranslate2"),
    "dgl-no-cuda": ("dgl", "dgl (CUDA: -f https://data.dgl.ai/wheels/torch-X.Y/cuNNN/repo.html)", "python -m pip install dgl -f https://data.dgl.ai/wheels/torch-2.4/cu121/repo.html"),
    "gptq-no-extension": ("AutoGPTQ / AutoAWQ / mamba-ssm", "CUDA extension (TORCH_CUDA_ARCH_LIST)", "python -m pip install --no-build-isolation --force-reinstall --no-cache-dir auto-gptq"),
    "spacy-no-cupy": ("spaCy / Thinc", "CuPy (spacy[cuda12x])", "python -m pip install 'spacy[cuda12x]'"),
    "xgboost-no-gpu": ("xgboost", "xgboost (GPU)", "python -m pip install -U xgboost"),
    "opencv-no-cuda": ("opencv-python", "OpenCV (WITH_CUDA=ON)", ""),
    "catboost-no-gpu": ("catboost", "catboost (wheel of PyPI for Linux x86_64 or Windows, which has CUDA; conda's and the macOS one have not)", "python -m pip install --force-reinstall --no-cache-dir catboost"),
    "whisper-cpp-cpu": ("whisper.cpp", "whisper.cpp (cmake -B build -DGGML_CUDA=1)", ""),
    "ollama-cpu-runners": ("Ollama", "Ollama (CUDA runners)", ""),
    "tensorrt-missing": ("TensorRT", "tensorrt", "python -m pip install tensorrt-cu12"),
    "extension-no-cuda": ("C++/CUDA extension", "CUDA (FORCE_CUDA=1)", "FORCE_CUDA=1 python -m pip install --no-build-isolation --force-reinstall --no-cache-dir PACKAGE"),
}
# fmt: on


def check(
    symptoms: Symptoms | None,
    packages: Packages | None,
    onnx: OnnxRuntime | None,
    torch: Torch | None,
    machine: Machine | None,
) -> Iterator[Finding]:
    told = next((name for name in _TOLD if symptoms and symptoms.has(name)), None)
    if told and symptoms:
        if told == "llama-no-gpu" and symptoms.has("ggml-cuda-init", "llama-cuda-build", "compat-803", "compat-804"):
            return  # the CUDA backend is there and could not start
        if told == "bnb-no-gpu" and symptoms.has("bnb-no-cudart"):
            return
        if told in ("extension-no-cuda", "xgboost-no-gpu") and symptoms.has(
            "torch-not-compiled-with-cuda", "paddle-no-cuda"
        ):
            return
        if told == "ort-provider-missing" and all("CUDAExecutionProvider" in hit.ref.quote.partition("vailable provider")[2].partition(":")[2] for hit in symptoms.seen(told)):
            return  # another provider was asked for; the CUDA one is there
        library, gpu, command = _TOLD[told]
        refs: tuple[Ref, ...] = symptoms.cite(told)
        if told == "extension-no-cuda":
            library, gpu, command = _which(symptoms, library, gpu, command)
        if told == "faiss-no-gpu" and packages and packages.get("faiss-gpu") and not packages.get("faiss-cpu"):
            return
        if (
            told == "ort-provider-missing"
            and packages
            and packages.get("onnxruntime-gpu")
            and not packages.get("onnxruntime")
        ):
            return  # the package is the GPU one: a library is missing
        yield Finding(
            variant="build"
            if told in ("llama-no-gpu", "extension-no-cuda", "opencv-no-cuda", "gptq-no-extension", "whisper-cpp-cpu")
            else "ollama"
            if told == "ollama-cpu-runners"
            else "",
            certainty=Certainty.LIKELY if told in ("tensorrt-missing", "gptq-no-extension") else Certainty.CERTAIN,
            severity=Severity.WARNING if told in ("gptq-no-extension", "spacy-no-cupy") else None,
            values={
                "library": library,
                "gpu": gpu,
                "command": command,
                "runners": symptoms.value("runners", "ollama-cpu-runners") or "[cpu]",
            },
            fixes=(Fix("install-onnxruntime-gpu" if library == "onnxruntime" else "install-gpu-package"),) if command else (),
            refs=(
                *refs,
                *(
                    packages.cite(
                        "faiss-cpu",
                        "faiss",
                        "onnxruntime",
                        "llama-cpp-python",
                        "bitsandbytes",
                        "ctranslate2",
                        "dgl",
                        "auto-gptq",
                        "spacy",
                        "xgboost",
                        "opencv-python",
                        "opencv-contrib-python",
                        "mmcv",
                    )
                    if packages
                    else ()
                ),
            ),
        )
        return
    if onnx and onnx.cpu_session and onnx.offers_cuda:
        return  # the package has CUDA: config-forces-cpu, or a library that is missing
    cpu_only = bool(
        onnx
        and (onnx.providers is not None or onnx.cpu_session)
        and not any(
            p.startswith(("CUDA", "Tensorrt", "Dml", "ROCM", "MIGraphX", "CoreML", "OpenVINO")) for p in onnx.providers or onnx.session or ()
        )
    )
    if cpu_only and onnx and not (packages and packages.get("onnxruntime-gpu") and not packages.get("onnxruntime")):
        library, gpu, command = _TOLD["ort-provider-missing"]
        yield Finding(
            certainty=Certainty.LIKELY,
            values={"library": library, "gpu": gpu, "command": command},
            fixes=(Fix("install-onnxruntime-gpu"),),
            refs=(*onnx.about("providers", "session"), *(packages.cite("onnxruntime") if packages else ())),
        )
        return
    wanted = bool(symptoms and symptoms.has("chose-cpu", "no-gpu-complaint"))
    for name, key in (("faiss-cpu", "faiss-no-gpu"), ("onnxruntime", "ort-provider-missing")):
        if (
            packages
            and packages.get(name)
            and wanted
            and not packages.get("faiss-gpu", "onnxruntime-gpu")
            and len(packages.packages) <= 6
            and not torch
        ):
            library, gpu, command = _TOLD[key]
            yield Finding(
                certainty=Certainty.LIKELY,
                values={"library": name, "gpu": gpu, "command": command},
                fixes=(Fix("install-onnxruntime-gpu" if name == "onnxruntime" else "install-gpu-package"),),
                refs=(*packages.cite(name), *(symptoms.cite("chose-cpu", most=2) if symptoms else ())),
            )
            return


def _which(symptoms: Symptoms, library: str, gpu: str, command: str) -> tuple[str, str, str]:
    lines = "\n".join(
        hit.ref.quote
        for hit in (*symptoms.seen("extension-no-cuda"), *symptoms.seen("companion-import", "extension-name"))
    ).lower()
    for word, name, package, run in (
        (
            "lightgbm",
            "lightgbm",
            "LightGBM (USE_CUDA)",
            "python -m pip install lightgbm --no-binary lightgbm --config-settings=cmake.define.USE_CUDA=ON",
        ),
        (
            "tree learner",
            "lightgbm",
            "LightGBM (USE_GPU / USE_CUDA)",
            "python -m pip install lightgbm --no-binary lightgbm --config-settings=cmake.define.USE_CUDA=ON",
        ),
        ("ctranslate2", "ctranslate2", "ctranslate2 (CUDA)", "python -m pip install -U ctranslate2"),
        (
            "groundingdino",
            "GroundingDINO",
            "GroundingDINO (built with CUDA_HOME set)",
            "python -m pip install --no-build-isolation --force-reinstall --no-cache-dir 'git+https://github.com/IDEA-Research/GroundingDINO.git'",
        ),
        (
            "detectron2",
            "detectron2",
            "Detectron2 (FORCE_CUDA=1)",
            "FORCE_CUDA=1 python -m pip install --no-build-isolation --force-reinstall 'git+https://github.com/facebookresearch/detectron2.git'",
        ),
        (
            "roi_align",
            "mmcv",
            "mmcv (mim install mmcv; MMCV_WITH_OPS=1 FORCE_CUDA=1)",
            "mim install mmcv",
        ),
        (
            "_impl: implementation for device",
            "mmcv",
            "mmcv (mim install mmcv; MMCV_WITH_OPS=1 FORCE_CUDA=1)",
            "mim install mmcv",
        ),
        (
            "mmcv",
            "mmcv",
            "mmcv (mim install mmcv; MMCV_WITH_OPS=1 FORCE_CUDA=1)",
            "mim install mmcv",
        ),
        (
            "scatter",
            "torch-scatter",
            "torch-scatter (+cuXXX)",
            "python -m pip install torch-scatter -f https://data.pyg.org/whl/torch-2.4.0+cu124.html",
        ),
        (
            "dgl",
            "dgl",
            "dgl (CUDA)",
            "python -m pip install dgl -f https://data.dgl.ai/wheels/torch-2.4/cu121/repo.html",
        ),
        (
            "device api",
            "dgl",
            "dgl (CUDA)",
            "python -m pip install dgl -f https://data.dgl.ai/wheels/torch-2.4/cu121/repo.html",
        ),
        ("spconv", "spconv", "spconv-cu120 (spconv-cuXXX)", "python -m pip install spconv-cu120"),
        (
            "deform",
            "MultiScaleDeformableAttention",
            "CUDA (FORCE_CUDA=1, TORCH_CUDA_ARCH_LIST)",
            "FORCE_CUDA=1 python setup.py build install",
        ),
        ("opencv", "OpenCV", "OpenCV (WITH_CUDA=ON)", ""),
        ("xgboost", "xgboost", "xgboost (GPU)", "python -m pip install -U xgboost"),
    ):
        if word in lines:
            return name, package, run
    return library, gpu, ""


RULE = Rule(
    slug="gpu-extra-missing",
    layer=Layer.FRAMEWORK,
    severity=Severity.ERROR,
    check=check,
    hides=("config-forces-cpu",),
    see=(
        "https://onnxruntime.ai/docs/install/",
        "https://github.com/facebookresearch/faiss/blob/main/INSTALL.md",
        "https://github.com/abetlen/llama-cpp-python#installation-configuration",
    ),
    en=Text(
        title="{library} is installed without GPU support; the GPU needs {gpu}",
        why="The GPU code of this library comes in a package, extra or build of its own. The installed one has only CPU code, so neither driver nor CUDA is at fault.",
        fix="Uninstall the CPU package and install {gpu}: {command}",
    ),
    zh=Text(
        title="安装的 {library} 不带 GPU 支持；使用 GPU 需要 {gpu}",
        why="这个库的 GPU 代码在另外的包、附加项或构建里。已装的只有 CPU 代码，与驱动和 CUDA 无关。",
        fix="卸载 CPU 版，安装 {gpu}：{command}",
    ),
    variants={
        "ollama": (
            Text(
                title="This Ollama has CPU runners only: runners={runners}",
                why="Ollama lists the libraries that it was installed with. Packages of distributions (NixOS, Arch, Alpine, Homebrew) and hand builds often leave the CUDA part out, whatever card and driver are there.",
                fix="Install the package variant with CUDA (Arch and NixOS: ollama-cuda), the official build (curl -fsSL https://ollama.com/install.sh | sh) or the image ollama/ollama, and start the service again; its log must then show a cuda runner or library.",
            ),
            Text(
                title="该 Ollama 只有 CPU 运行库：runners={runners}",
                why="Ollama 会列出安装时带有的运行库。发行版软件包（NixOS、Arch、Alpine、Homebrew）和自行编译的版本常常不含 CUDA 部分，与显卡和驱动无关。",
                fix="安装带 CUDA 的变体（Arch、NixOS：ollama-cuda）、官方版本（curl -fsSL https://ollama.com/install.sh | sh）或镜像 ollama/ollama，然后重启服务；日志中应出现 cuda 运行库。",
            ),
        ),
        "build": (
            Text(
                title="{library} was compiled without CUDA; the GPU needs {gpu}",
                why="The compiled part has no CUDA code: it was built where no CUDA toolkit or no GPU was visible, or installed from a CPU wheel. Options such as n_gpu_layers are then ignored.",
                fix="Install or build {gpu} (with nvcc, CUDA_HOME and FORCE_CUDA=1 where the build machine sees no GPU){command:: *}",
            ),
            Text(
                title="{library} 编译时没有启用 CUDA；使用 GPU 需要 {gpu}",
                why="编译部分没有 CUDA 代码：构建时看不到 CUDA 工具包或 GPU，或装的是 CPU wheel。n_gpu_layers 之类的选项因此被忽略。",
                fix="安装或编译 {gpu}（构建机看不到 GPU 时需 nvcc、CUDA_HOME 和 FORCE_CUDA=1）{command:：*}",
            ),
        ),
    },
)
