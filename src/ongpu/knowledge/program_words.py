"""Words without which a program has nothing to do with a GPU."""

WORDS = frozenset({
    "torch", "tensorflow", "keras", "jax", "flax", "lightning", "accelerate", "transformers", "deepspeed", "cupy", "cuda", "CUDA",
    "xgboost", "lightgbm", "catboost", "sklearn", "paddle", "mxnet", "fastai", "timm", "diffusers", "cv2", "onnxruntime",
    "h2o4gpu", "num_gpu", "n_gpu_layers", "zero_grad",
})  # fmt: skip
