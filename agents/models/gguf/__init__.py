"""GGUF files (the format of llama.cpp) read within limits, and as model folders of ``transformers``."""
