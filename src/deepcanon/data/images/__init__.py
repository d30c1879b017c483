"""Images from files and folders."""
