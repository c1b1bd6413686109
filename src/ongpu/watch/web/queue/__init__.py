"""The queue on the dashboard: what is asked of its engine, the routes of the API, the pages on screen, and made-up jobs to look at."""
