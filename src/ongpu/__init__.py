"""Get your model on the GPU, and keep it there."""

__version__ = "0.1.0"
