"""What the page shows: pure functions of a run's folder, tested without a browser."""
