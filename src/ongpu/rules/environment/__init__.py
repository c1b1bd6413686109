"""What can be wrong in the layer: environment."""
