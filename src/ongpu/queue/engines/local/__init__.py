"""The queue of one machine and one user, with nothing to install: an SQLite file, a stateless daemon, a keeper for each run."""
