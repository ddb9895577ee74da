"""Learning and one-step measurements for every kind of policy: tables, features that tasks share, language models."""
