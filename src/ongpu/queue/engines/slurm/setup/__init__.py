"""`ongpu queue setup slurm`: a configuration for one shared machine is written, and those that are there are checked for their traps."""
