"""What is known: frozen dataclasses, one file per layer."""
