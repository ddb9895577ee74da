"""Other people's trainers: each module adapts one, and imports it only when it is used.

What a trainer must let through for credit per turn to arrive: the ids that were sampled, a mask over them, one number
per token, and all episodes of a task together before credit is assigned. ``README.md`` beside this file says for each
trainer what it accepts, the lines to write, and what proves it.

==============================  ============================================  =============================================
trainer                         what it is given                              what proves it
==============================  ============================================  =============================================
TRL 1.16, ``trl``               (B, T) advantages and mask in its GRPO loss   ``tests/extras/trl/test_contract.py``
verl 0.9.1, ``verl.plugin``     (B, T) advantages and mask in its queue       ``tests/extras/verl/test_trainer_step.py``
verl-agent's forks              their arrays in, (B, T) advantages out        ``tests/conformance/test_verl_agent_golden.py``
Stable-Baselines3, ``sb3``      a dense reward per step                       ``tests/train/adapters/test_sb3.py``
any with (B, T) advantages      lists per episode: ``trl.batch.columns_of``   ``tests/train/adapters/test_trl_batch.py``
any with rows of its own        flat arrays: ``train.samples.make_rows``      ``tests/extras/train/policy/test_samples.py``
==============================  ============================================  =============================================
"""
