"""What `ongpu top` tells: the view of the GPUs now, as text, as JSON, and in words that its live front shares."""
