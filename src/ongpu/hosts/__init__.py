"""Where evidence comes from: the only folder that touches a machine."""
