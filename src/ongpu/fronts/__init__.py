"""Who asks: the command line, one file per command."""
