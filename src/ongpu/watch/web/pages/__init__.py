"""The pages of the dashboard, one file each: pure functions to HTML or chart options, and a few lines that put them on screen."""
