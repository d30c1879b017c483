"""The checks of the doctor, one a file, found by its name."""
