"""Tool-call protocols: dialects, escaping of quoted text, and transcripts parsed back into turns."""
