"""The studio: a local page over a folder of runs, to watch what trains, compare, look inside and play (docs/studio.md).

``views/`` are pure functions of a run's folder, ``routes/`` offer them to the page, ``page/`` is the page itself. One
middleware, ``security.py``, stands before everything.
"""
