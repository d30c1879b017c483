"""The addresses of the studio, one file for each view; a new file is found by its name."""
