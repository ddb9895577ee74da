"""Prompts: versioned templates of our own wording, and how they are filled."""

from creditflow.agents.prompts.library import PROMPTS, make_prompt
from creditflow.agents.prompts.template import Prompt, Slots, slots_of

__all__ = ["PROMPTS", "Prompt", "Slots", "make_prompt", "slots_of"]
