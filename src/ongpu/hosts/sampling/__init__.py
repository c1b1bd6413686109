"""The GPUs and the processes on them, asked again and again by a child process: a driver that hangs must not hang us."""
