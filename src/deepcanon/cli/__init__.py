"""The command line. Nothing here imports torch before a command needs it, so that help and lists appear at once."""


def main() -> None:
    """Run the command that stands on the command line."""
    from deepcanon.cli.app import app

    app(prog_name="deepcanon")
