"""Build the documentation site from a checkout, with ``assets/site`` on the path: ``python -m builder.build``."""
