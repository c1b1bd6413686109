"""What can be wrong in the layer: driver."""
