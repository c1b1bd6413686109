"""Python source, followed by abstract interpretation of its syntax tree: never imported, never run."""
