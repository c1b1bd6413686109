"""Jobs: whether a GPU is fit for one, which one, and what became of it. A clock and a choice over the engine; no front."""
