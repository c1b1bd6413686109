"""What profilers write: timelines and memory snapshots, read once into a short digest, which is the evidence."""
