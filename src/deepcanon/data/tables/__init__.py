"""Tables from CSV files."""
