"""Slurm as an engine: what is asked for becomes sbatch, what it tells becomes our words, and its configuration is written and checked."""
