"""What can be wrong in the layer: libraries."""
