"""The subcommands of ``creditflow``: one module each, with ``HELP``, ``add_arguments(parser)`` and ``run(args)``."""
