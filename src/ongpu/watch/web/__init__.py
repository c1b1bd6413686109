"""The dashboard and the HTTP API: a process of its own that reads the store, and writes silences for who has the token."""
