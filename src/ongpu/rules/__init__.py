"""What it means: one rule per file, one folder per layer."""
