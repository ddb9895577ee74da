"""Parts of models that agents and backends share: LoRA adapters, and the pictures of vision-language models."""
