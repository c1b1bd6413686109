"""What is read: one file per tool."""
