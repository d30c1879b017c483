"""The command line. Nothing here imports torch before a command needs it, so that help and lists appear at once."""


def main() -> None:
    """Run the command that stands on the command line."""
    import sys

    from deepcanon.cli.app import app
    from deepcanon.core.memory import limit_to_machine

    limit_to_machine()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal may not show all letters
    app(prog_name="deepcanon")
