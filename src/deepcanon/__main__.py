"""``python -m deepcanon`` is ``deepcanon``."""

from deepcanon.cli import main

if __name__ == "__main__":
    main()
