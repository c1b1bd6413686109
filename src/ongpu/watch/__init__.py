"""A clock over the doctor: what the GPUs do from second to second, what goes wrong with them, and whom to tell."""
