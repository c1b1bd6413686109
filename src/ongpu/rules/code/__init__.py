"""What can be wrong in the layer: code."""
