"""What runs inside the user's interpreter: standard library only, Python 3.8 syntax."""
