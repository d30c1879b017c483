"""The playground: any model of the catalogue that learns from points in the plane, trained live, step by step.

``asked_for.py`` checks what the page asks for, ``live_training.py`` is an observer that holds the library's own trainer
between its steps and turns, ``looks.py`` computes what is drawn, ``retold.py`` writes the Python that repeats the
session bit for bit, and ``sessions.py`` keeps each session in a process of its own.
"""
