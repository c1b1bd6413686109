"""What the functions and classes of known libraries do with devices, by full name (public API of PyTorch 2.13 and its neighbours)."""

# Names that the same thing has elsewhere: the longest prefix wins.
_SAME = {
    "pytorch_lightning": "lightning",
    "lightning.pytorch": "lightning",
    "lightning_fabric": "lightning.fabric",
    "torch.utils.data.dataloader": "torch.utils.data",
    "torch.utils.data.dataset": "torch.utils.data",
    "torch.nn.modules": "torch.nn",
    "torch.nn.parallel.distributed": "torch.nn.parallel",
    "torch.nn.parallel.data_parallel": "torch.nn.parallel",
    "torch.optim.adam": "torch.optim",
    "torch.optim.adamw": "torch.optim",
    "torch.optim.sgd": "torch.optim",
    "tensorflow.keras": "keras",
    "tensorflow.python.keras": "keras",
    "tf_keras": "keras",
    "transformers.trainer": "transformers",
    "jax.numpy": "jax.numpy",
    "tqdm.auto": "tqdm",
    "tqdm.notebook": "tqdm",
    "torch.cuda.device_count": "torch.cuda.device_count",
}
_EXACT = {
    "torch.nn.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "torch.autograd.no_grad": "torch.no_grad",
    "torch.autograd.grad_mode.no_grad": "torch.no_grad",
    "torch.autograd.set_grad_enabled": "torch.set_grad_enabled",
    "torch.autograd.enable_grad": "torch.enable_grad",
    "torch.autograd.inference_mode": "torch.inference_mode",
    "torch.amp.autocast_mode.autocast": "torch.amp.autocast",
    "lightning.LightningModule": "lightning.LightningModule",
    "lightning.core.LightningModule": "lightning.LightningModule",
    "lightning.core.lightning.LightningModule": "lightning.LightningModule",
}


def canonical(name: str) -> str:
    """The one name of a thing that has several."""
    if name in _EXACT:
        return _EXACT[name]
    head = name
    while "." in head or head in _SAME:
        if head in _SAME:
            return _SAME[head] + name[len(head) :]
        head = head.rpartition(".")[0]
    return name


MAKERS = frozenset(
    "torch." + name
    for name in (
        "zeros", "ones", "empty", "full", "arange", "range", "linspace", "logspace", "eye", "rand", "randn", "randint", "randperm", "tensor",
        "as_tensor", "normal", "bernoulli_", "hann_window", "hamming_window", "kaiser_window", "tril_indices", "triu_indices",
        "scalar_tensor", "sparse_coo_tensor", "complex32",
    )
) | {"torch.Tensor", "torch.FloatTensor", "torch.LongTensor", "torch.IntTensor", "torch.BoolTensor", "torch.HalfTensor", "torch.DoubleTensor", "torch.ByteTensor"}  # fmt: skip
FROM_HOST = frozenset({"torch.from_numpy", "torch.frombuffer", "torch.utils.dlpack.from_dlpack"})
CUDA_MAKERS = frozenset("torch.cuda." + kind + "Tensor" for kind in ("", "Float", "Long", "Int", "Bool", "Half", "Double", "Byte", "BFloat16"))
LIKE = frozenset("torch." + name for name in ("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like"))

# torch functions whose answer is not a tensor.
NOT_TENSORS = frozenset({
    "torch.is_tensor", "torch.is_floating_point", "torch.is_grad_enabled", "torch.manual_seed", "torch.seed", "torch.save", "torch.set_default_dtype",
    "torch.set_printoptions", "torch.get_default_dtype", "torch.set_float32_matmul_precision", "torch.set_num_threads", "torch.get_num_threads",
    "torch.set_num_interop_threads", "torch.use_deterministic_algorithms", "torch.set_default_device", "torch.set_default_tensor_type",
    "torch.equal", "torch.allclose", "torch.numel", "torch.finfo", "torch.iinfo", "torch.Size", "torch.Generator", "torch.get_rng_state",
    "torch.set_rng_state", "torch.initial_seed", "torch.typename", "torch.is_complex", "torch.promote_types", "torch.result_type", "torch.broadcast_shapes",
    "torch.compile", "torch.vmap", "torch.device", "torch.dtype", "torch.load", "torch.is_storage", "torch.get_default_device", "torch.split", "torch.chunk",
})  # fmt: skip
NO_GRADIENT = frozenset({"argmax", "argmin", "argsort", "detach", "detach_", "eq", "ne", "gt", "lt", "ge", "le", "isnan", "isinf", "isfinite", "sign", "round", "long", "int", "bool", "nonzero", "multinomial"})  # fmt: skip
SEVERAL = frozenset({"chunk", "split", "unbind", "topk", "sort", "unsafe_chunk", "tensor_split", "frexp", "svd", "eig", "eigh", "qr", "lstm", "gru", "meshgrid", "unique"})  # fmt: skip

# Methods of a tensor that give Python numbers (and wait for the GPU, where the tensor lies there).
TO_NUMBER = frozenset({"item", "tolist"})
SIZES = frozenset({"size", "dim", "numel", "nelement", "ndimension", "stride", "element_size", "data_ptr", "get_device", "is_contiguous", "type", "__len__", "storage_offset", "is_floating_point", "storage", "untyped_storage"})  # fmt: skip
TENSOR_FIELDS = frozenset({"shape", "dtype", "ndim", "is_cuda", "is_xpu", "is_mps", "is_cpu", "is_meta", "is_sparse", "is_quantized", "is_nested", "requires_grad", "layout", "names", "is_leaf", "grad_fn"})
DTYPE_METHODS = frozenset({"half", "float", "double", "bfloat16", "long", "int", "short", "char", "byte", "bool"})

LOSS_FUNCTIONS = frozenset({
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "kl_div", "ctc_loss", "cosine_embedding_loss", "margin_ranking_loss", "triplet_margin_loss", "hinge_embedding_loss", "poisson_nll_loss",
    "gaussian_nll_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "soft_margin_loss",
})  # fmt: skip

# Functions of other libraries that give a torch.nn.Module on the CPU.
MODEL_MAKERS = ("torchvision.models.", "timm.create_model", "torch.hub.load", "segmentation_models_pytorch.", "efficientnet_pytorch.", "torchmetrics.")
PRETRAINED = ("from_pretrained", "from_config")

# What hands values through: the first argument is what is iterated.
THROUGH = frozenset({
    "tqdm.tqdm", "tqdm.trange", "rich.progress.track", "iter", "list", "tuple", "sorted", "reversed", "itertools.islice", "itertools.cycle", "itertools.chain",
    "set", "copy.deepcopy", "copy.copy", "fastprogress.progress_bar", "alive_progress.alive_it",
})  # fmt: skip
HARMLESS = frozenset({  # calls that move nothing that they are given
    "print", "len", "isinstance", "type", "id", "repr", "str", "hasattr", "getattr", "callable", "issubclass", "sum", "min", "max", "any", "all", "next",
    "torch.save", "torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", "torch.is_tensor", "torch.manual_seed", "torchinfo.summary",
    "torchsummary.summary", "pprint.pprint", "range", "enumerate", "zip", "map", "filter", "vars", "dir", "super", "logging.info", "wandb.watch",
    "torch.onnx.export", "torch.jit.save", "float", "int", "bool", "torch.nn.utils.parameters_to_vector", "warnings.warn", "hash", "setattr",
    "torch.nn.init.normal_", "torch.nn.init.xavier_uniform_", "copy.deepcopy", "copy.copy", "torch.compile", "torch.jit.script", "list", "tuple", "iter",
})  # fmt: skip
BUILTINS = frozenset({
    "print", "len", "isinstance", "type", "id", "repr", "str", "hasattr", "getattr", "setattr", "callable", "issubclass", "sum", "min", "max", "any", "all",
    "next", "iter", "range", "enumerate", "zip", "map", "filter", "vars", "dir", "super", "float", "int", "bool", "list", "tuple", "dict", "set", "sorted",
    "reversed", "open", "round", "abs", "hash", "input", "format", "divmod", "pow", "ord", "chr", "bytes", "frozenset", "slice", "object", "property",
    "staticmethod", "classmethod", "exit", "eval", "exec", "globals", "locals", "bytearray", "complex", "memoryview", "NotImplementedError",
    "ValueError", "RuntimeError", "Exception", "TypeError", "KeyError", "AttributeError", "ImportError", "KeyboardInterrupt", "StopIteration",
})  # fmt: skip

# What these names mean in a piece of a program that was pasted without its imports.
CUSTOMARY = {
    "torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "optim": "torch.optim", "np": "numpy", "tf": "tensorflow",
    "DataLoader": "torch.utils.data.DataLoader", "TensorDataset": "torch.utils.data.TensorDataset", "Dataset": "torch.utils.data.Dataset",
}  # fmt: skip

# Objects that rules know by name.
HANDLES = (
    "accelerate.Accelerator", "lightning.Trainer", "lightning.Fabric", "lightning.fabric.Fabric", "transformers.Trainer", "transformers.Seq2SeqTrainer",
    "torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.set_grad_enabled",
    "torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast", "contextlib.nullcontext", "torch.cuda.device",
    "torch.cuda.stream", "torch.profiler.profile", "torch.utils.tensorboard.SummaryWriter", "torch.utils.data.distributed.DistributedSampler",
    "torch.utils.data.DistributedSampler", "torch.Generator", "trl.SFTTrainer", "ignite.engine.Engine", "torch.utils.data.BatchSampler",
)  # fmt: skip
# Frameworks that place models and data themselves, by the name whose call shows it.
MANAGERS = {
    "accelerate.Accelerator": "accelerate", "accelerate.dispatch_model": "accelerate", "accelerate.load_checkpoint_and_dispatch": "accelerate",
    "lightning.Trainer": "lightning", "lightning.Fabric": "fabric", "lightning.fabric.Fabric": "fabric", "transformers.Trainer": "transformers.Trainer",
    "transformers.Seq2SeqTrainer": "transformers.Trainer", "trl.SFTTrainer": "transformers.Trainer", "deepspeed.initialize": "deepspeed",
    "deepspeed.init_inference": "deepspeed", "transformers.pipeline": "transformers.pipeline", "ignite.distributed.auto_model": "ignite",
    "torch.distributed.fsdp.FullyShardedDataParallel": "fsdp", "torch.distributed.fsdp.fully_shard": "fsdp", "colossalai.initialize": "colossalai",
}  # fmt: skip
# Optimizers of other libraries, which take parameters as those of torch.optim do.
OPTIMIZERS = frozenset({"transformers.AdamW", "transformers.Adafactor", "lion_pytorch.Lion", "adabelief_pytorch.AdaBelief", "schedulefree.AdamWScheduleFree"})
OPTIMIZER_HOMES = ("transformers.optimization.Ada", "bitsandbytes.optim.", "apex.optimizers.", "torch_optimizer.", "torchao.optim.", "timm.optim.", "pytorch_optimizer.")
SET_CUDA_DEFAULT = frozenset({"torch.set_default_device", "torch.set_default_tensor_type"})
DATASETS = ("torchvision.datasets.", "torchaudio.datasets.", "torch.utils.data.TensorDataset", "torch.utils.data.Subset", "torch.utils.data.ConcatDataset")
MODULE_BASES = frozenset({"torch.nn.Module", "torch.jit.ScriptModule", "transformers.PreTrainedModel", "torch.nn.Sequential", "diffusers.ModelMixin"})
DATASET_BASES = frozenset({"torch.utils.data.Dataset", "torch.utils.data.IterableDataset", "torchvision.datasets.VisionDataset", "torchvision.datasets.ImageFolder", "torch_geometric.data.Dataset"})  # fmt: skip
LIGHTNING_BASES = frozenset({"lightning.LightningModule", "lightning.LightningDataModule"})
FAILS = frozenset({"assertRaises", "assertRaisesRegex", "raises"})  # contexts in which a test wants an error
