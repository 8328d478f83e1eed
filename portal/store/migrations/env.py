"""Alembic's entry point. ``portal.store.engine.upgrade`` gives the connection, in a transaction of
its own.

To add a migration: ``alembic revision -m "what it does"`` in the checkout (``[tool.alembic]`` in
pyproject.toml), then write upgrade() by hand; tests/integration/store/test_schema.py compares the
result with the tables in the code. A new database runs no migration: it gets these tables at once.
There is no downgrade but the copy from before the upgrade.
"""

from alembic import context

from portal.store.engine.columns import metadata
from portal.store.engine.upgrade import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
)
context.run_migrations()
