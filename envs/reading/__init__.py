"""Reading what comes from outside: bounded, checked, and with every failure a ``DataError`` that names the place.

``limits`` holds every limit; ``streams`` reads files, packed or not; ``json_text`` and ``yaml_text`` turn text into
plain data; ``archives`` walks tar archives; ``failures`` names what other libraries raise.
"""
