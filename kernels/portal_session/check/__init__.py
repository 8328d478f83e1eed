"""The smoke test of an environment, from inside: ``python3 -I -m portal_session.check``.

It starts the session's own server as a job does, with a Hub of its own on loopback, runs something
in every kernel and in a terminal, and reads versions. Standard output has one JSON object a line,
each with a ``step``:

``server``     ``seconds`` until it answered
``kernel``     ``name``, ``title``, ``language``, ``passed``, ``seconds``, ``version``, ``reason``
``terminal``   ``passed``, ``reason``
``gpus``       ``driver``, ``cuda`` (the newest that NVIDIA's driver knows), ``names``: what the
               vendor's program says; ``reason`` where it says nothing
``facts``      ``versions``, ``packages``, ``added``, ``gpus`` (how many the framework sees, None
               without one), ``distribution``, ``architecture``
``end``        ``reason``: a sentence why it did not pass; "" where it did

The exit status is 0 where ``end`` was written, passed or not. Everything else that is printed, the
server's log too, goes to standard error.
"""
