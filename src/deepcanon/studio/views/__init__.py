"""The content of the page: pure functions of a run's folder, tested without a browser."""
