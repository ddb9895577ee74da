"""Reading untrusted input within limits; every failure is a ``DataError`` that names the file and position.

``limits`` defines the limits; ``streams`` reads files, compressed or not; ``json_text`` and ``yaml_text`` parse text into
plain data; ``failures`` converts exceptions of other libraries.
"""
