"""Smoke test of an environment, from inside: ``python3 -I -m portal_session.check``.

Starts the session's own server as a job does, with a Hub of its own on loopback, runs something in
every kernel and in a terminal, and reads versions. Standard output has one JSON object a line,
each with a ``step``:

``server``     ``seconds`` until it answered
``kernel``     ``name``, ``title``, ``language``, ``passed``, ``seconds``, ``version``, ``reason``
``terminal``   ``passed``, ``reason``
``gpus``       ``driver``, ``cuda`` (the newest that NVIDIA's driver supports), ``names``, as the
               vendor's program prints them; ``reason`` if it prints nothing
``facts``      ``versions``, ``packages``, ``added``, ``gpus`` (how many the framework sees, None
               without one), ``distribution``, ``architecture``
``end``        ``reason``: a sentence why it did not pass; "" if it did

The exit status is 0 if ``end`` was written, passed or not. All other output, the server's log too,
goes to standard error.
"""
